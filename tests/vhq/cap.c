/*
 * vhq_cap.c - how much is let into the device. The clock stands still where it matters, so that the
 * credit for time passed is what the test says.
 */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

static struct world *capped(uint32_t budget_us, uint32_t depth)
{
    clock_freeze();
    return world_new(&(struct vhq_config){.budget_us = budget_us, .depth = depth});
}

/* It has found that the cap is in the way, so time without progress counts from here. */
static void dispatcher_is_blocked(struct world *w)
{
    bool blocked = false;
    for (int i = 0; !blocked; i++) {
        cr_assert(i < 200000, "never blocked");
        pthread_mutex_lock(&w->set->lock);
        blocked = w->set->blocked_ns != 0;
        pthread_mutex_unlock(&w->set->lock);
        nap_us(100);
    }
}

static uint32_t in_device(struct world *w, int stream)
{
    return atomic_load(&w->stream[stream].submitted) - atomic_load(&w->stream[stream].completed);
}

/* Everything complete, and known to be. */
static void settle(struct world *w)
{
    device_start(w, 1);
    vhq_set_sync(w->set, false);
    device_stop(w);
}

Test(cap, short_commands_fill_the_budget_and_no_more)
{
    struct world *w = capped(200, 32);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 60; i++)
        launch(w, a, 20);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 10);
    cr_assert(w->command[9].inlined);
    cr_assert_not(w->command[10].inlined);
    for (int step = 0; step < 60; step++) {
        cr_assert(device_step(w, a));
        dispatcher_looks(w);
        cr_assert_leq(in_device(w, a), 10);
    }
    cr_assert(submitted(w, 59));
    cr_assert_null(check_cap(w, true), "%s", check_cap(w, true));
    cr_assert_null(check_order(w));
    device_finish(w);
    world_free(w);
}

Test(cap, scarce_room_goes_to_the_higher_priority_but_not_for_ever)
{
    struct world *w = capped(100, 32);
    int low = world_stream_of_priority(w, 0),
        high[2] = {world_stream_of_priority(w, -5), world_stream_of_priority(w, -5)};
    int last = launch(w, low, 100), early = launch(w, low, 100);
    for (int i = 0; i < PASSES_MOST + 8; i++)
        last = launch(w, high[i % 2], 100);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, low), 1); /* the first went inline */
    device_step(w, low);
    for (int i = 0; i < PASSES_MOST; i++) {
        dispatcher_looks(w);
        cr_assert_eq(in_device(w, high[i % 2]), 1, "after %d", i);
        cr_assert_not(submitted(w, early));
        device_step(w, high[i % 2]);
    }
    dispatcher_looks(w);
    cr_assert(submitted(w, early));
    cr_assert_eq(in_device(w, high[0]) + in_device(w, high[1]), 0);
    device_step(w, low);
    for (int i = 0; i < 8; i++) {
        dispatcher_looks(w);
        device_step(w, high[i % 2]);
    }
    cr_assert(submitted(w, last));
    cr_assert_null(check_order(w));
    device_finish(w);
    world_free(w);
}

Test(cap, a_command_as_long_as_the_budget_goes_alone_until_half_of_it_ran)
{
    struct world *w = capped(200, 32);
    int a = world_stream(w, VHQ_NONBLOCKING);
    world_stream_beside(w);
    for (int i = 0; i < 4; i++)
        launch(w, a, 200);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 1);
    clock_advance(99 * 1000);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 1);
    clock_advance(2 * 1000);
    WAIT_FOR(in_device(w, a) == 2);
    /* However long it takes, the third waits until the first completed. */
    clock_advance(10 * 1000 * 1000);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 2);
    device_step(w, a);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 1);
    clock_advance(101 * 1000);
    WAIT_FOR(in_device(w, a) == 2);
    device_step(w, a);
    dispatcher_looks(w);
    clock_advance(101 * 1000);
    WAIT_FOR(submitted(w, 3));
    device_finish(w);
    world_free(w);
}

/* The dispatcher has looked since the clock advanced, and found no room. Returns when it does
 * again, from now. */
static uint64_t next_look_us(struct world *w)
{
    uint64_t looked = 0, now = clock_ns(), due = 0;
    for (int i = 0; looked != now; i++) {
        cr_assert(i < 200000, "never looked");
        pthread_mutex_lock(&w->set->lock);
        looked = w->set->looked_ns;
        w->set->waits = 0; /* it is none half-way */
        due = blocked_due(w->set, 0, now);
        pthread_mutex_unlock(&w->set->lock);
        nap_us(100);
    }
    return (due - now) / 1000;
}

static uint32_t pace(struct world *w)
{
    pthread_mutex_lock(&w->set->lock);
    uint32_t pace = w->set->pace;
    pthread_mutex_unlock(&w->set->lock);
    return pace;
}

/* As a copy whose size tells too little: it may be complete at any time. What comes behind it is
 * looked at when it should be complete. */
Test(cap, looks_at_a_command_far_longer_than_its_estimate_follow_each_other_ever_slower)
{
    struct world *w = capped(200, 32);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 4; i++)
        launch(w, a, 200);
    dispatcher_is_blocked(w);
    clock_advance(201 * 1000);
    WAIT_FOR(in_device(w, a) == 2);
    clock_advance(299 * 1000);
    for (uint64_t took_us = 500; took_us < 10000; took_us += 500) {
        uint64_t us = took_us / 32 < 20 ? 20 : took_us / 32 < 100 ? took_us / 32 : 100;
        cr_assert_eq(next_look_us(w), us);
        clock_advance(500 * 1000);
    }
    cr_assert_eq(pace(w), 256);
    for (int i = 0; i < 2; i++)
        device_step(w, a);
    WAIT_FOR(in_device(w, a) == 1);
    settle(w);
    world_free(w);
}

/* Whoever cuts in meets one of them. */
Test(cap, a_command_longer_than_it_goes_when_the_one_before_has_hardly_anything_left)
{
    struct world *w = capped(200, 32);
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 500);
    launch(w, a, 500);
    dispatcher_is_blocked(w);
    clock_advance(450 * 1000);
    next_look_us(w);
    cr_assert_eq(in_device(w, a), 1);
    atomic_store(&w->set->late_ns, 60 * 1000);
    clock_advance(1000);
    WAIT_FOR(in_device(w, a) == 2);
    device_finish(w);
    settle(w);
    world_free(w);
}

Test(cap, one_command_may_always_go)
{
    struct world *w = capped(10, 1);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 5; i++) {
        launch(w, a, 100000);
        WAIT_FOR(submitted(w, i));
        device_step(w, a);
    }
    world_free(w);
}

/* A program that buffers hundreds of launches of a kernel before the first of them is timed. */
Test(cap, what_was_not_known_at_the_call_counts_as_it_is_known_when_it_goes)
{
    struct world *w = capped(200, 32);
    int a = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&w->stream[a].hold, 1);
    for (int i = 0; i < 20; i++)
        world_call(w, &(struct call){.stream = a, .flags = VHQ_LEARNS, .est_ns = VHQ_UNKNOWN_NS});
    dispatcher_looks(w);
    atomic_store(&w->learned.mean_ns, 90 * 1000);
    atomic_store(&w->learned.upper_ns, 100 * 1000);
    atomic_store(&w->stream[a].hold, 0);
    dispatcher_is_blocked(w);
    cr_assert_eq(in_device(w, a), 2);
    cr_assert_eq(atomic_load(&w->set->area_ns), 200 * 1000);
    device_finish(w);
    settle(w);
    world_free(w);
}

Test(cap, depth_bounds_each_stream_by_itself)
{
    struct world *w = capped(1000, 4);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 20; i++)
        launch(w, i % 2 ? a : b, 1);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 4);
    cr_assert_eq(in_device(w, b), 4);
    for (int i = 0; i < 10; i++) {
        device_step(w, a);
        dispatcher_looks(w);
    }
    WAIT_FOR(atomic_load(&w->stream[a].submitted) == 10);
    cr_assert_eq(in_device(w, b), 4);
    for (int i = 0; i < 10; i++) {
        device_step(w, b);
        dispatcher_looks(w);
    }
    cr_assert_null(check_cap(w, true), "%s", check_cap(w, true));
    device_finish(w);
    world_free(w);
}

Test(cap, a_long_command_is_not_passed_by_short_ones_for_ever)
{
    struct world *w = capped(200, 32);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 10; i++)
        launch(w, a, 20);
    int big = launch(w, b, 200);
    for (int i = 0; i < 20; i++)
        launch(w, a, 20);
    for (int i = 0; i < 10; i++) {
        device_step(w, a);
        dispatcher_looks(w);
    }
    WAIT_FOR(submitted(w, big));
    cr_assert_not(submitted(w, big + 20));
    device_finish(w);
    settle(w);
    world_free(w);
}

Test(cap, free_commands_do_not_consume_it)
{
    struct world *w = capped(100, 4);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 100; i++)
        world_call(w, &(struct call){.stream = a, .flags = VHQ_UNCOUNTED, .est_ns = 1000000});
    cr_assert_eq(submitted_count(w), 100);
    cr_assert(w->command[99].inlined);
    int k = launch(w, a, 90);
    cr_assert(w->command[k].inlined);
    launch(w, a, 90); /* buffered */
    int f = world_call(w, &(struct call){.stream = b, .flags = VHQ_UNCOUNTED});
    cr_assert_not(w->command[f].inlined, "nothing overtakes what is buffered");
    WAIT_FOR(submitted(w, f));
    cr_assert_not(submitted(w, k + 1));
    settle(w);
    world_free(w);
}

Test(cap, is_relaxed_while_only_rivals_are_there)
{
    clock_freeze();
    _Atomic uint32_t above = 0, rivals = 1;
    struct vhq_config cfg = {.budget_us = 100, .depth = 4, .above = &above, .rivals = &rivals};
    struct world *w = world_new(&cfg);
    int a = world_stream(w, VHQ_NONBLOCKING);
    world_stream_beside(w);
    for (int i = 0; i < 300; i++)
        launch(w, a, 1);
    cr_assert_eq(in_device(w, a), 256, "%u", in_device(w, a));
    settle(w);
    for (int i = 0; i < 20; i++)
        launch(w, a, 100);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 8);
    settle(w);
    atomic_store(&above, 1);
    for (int i = 0; i < 20; i++)
        launch(w, a, 10);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 4);
    settle(w);
    world_free(w);
}

Test(cap, unmarked_tails_of_other_streams_get_their_markers)
{
    struct world *w = capped(100, 32);
    int b = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 3; i++)
        launch(w, world_stream(w, VHQ_NONBLOCKING), 20); /* too little for a marker */
    cr_assert_eq(w->mark_calls, 0);
    int blocked = launch(w, b, 100);
    cr_assert_not(w->command[blocked].inlined);
    WAIT_FOR(atomic_load(&w->mark_calls) == 3);
    device_finish(w);
    WAIT_FOR(submitted(w, blocked));
    device_finish(w);
    world_free(w);
}

Test(cap, the_tail_of_a_held_stream_gets_its_marker_too)
{
    struct world *w = capped(100, 32);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 4; i++)
        launch(w, i % 2 ? a : b, 20);
    atomic_store(&w->stream[a].hold, 1);
    int held = launch(w, a, 20);
    int blocked = launch(w, b, 100);
    device_start(w, 1);
    WAIT_FOR(submitted(w, blocked));
    cr_assert_not(submitted(w, held));
    world_free(w);
}

Test(cap, markers_are_few)
{
    struct vhq_stats st;
    _Atomic uint32_t above = 0, rivals = 1;
    struct world *w = world_new(&(struct vhq_config){.above = &above, .rivals = &rivals});
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 4000; i++) {
        launch(w, a, 2);
        device_step(w, a);
    }
    vhq_get_stats(w->stream[a].q, &st);
    cr_assert_eq(st.submitted, 4000);
    cr_assert_eq(st.markers, 4000 / 128, "half of the relaxed depth: %lu", st.markers);
    world_free(w);
}

/* A vHQ that just left the list of those in flight is back before the next one is looked at. */

static struct world *returning;

static void *launches(void *unused)
{
    launch(returning, 0, 50);
    return NULL;
}

static void comes_back(struct vhq *q)
{
    pthread_t thread;
    if (q != returning->stream[0].q)
        return;
    atomic_store(&wrap_after_unlock, NULL);
    pthread_create(&thread, NULL, launches, NULL);
    pthread_join(thread, NULL);
}

Test(cap, a_vhq_that_comes_back_at_once_hides_no_other)
{
    struct vhq_stats st;
    struct world *w = returning = capped(100, 32);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 50);
    launch(w, b, 50); /* behind a on the list */
    device_step(w, a);
    atomic_store(&wrap_after_unlock, comes_back);
    vhq_set_stats(w->set, &st);
    cr_assert_eq(atomic_load(&wrap_after_unlock), NULL);
    cr_assert_eq(w->commands, 3);
    device_finish(w);
    vhq_set_stats(w->set, &st);
    cr_assert_eq(st.in_flight_now, 0);
    world_free(w);
}

/* As behind a queue that is longer than the guard's patience: what it lets in must not fill it. */
Test(cap, lets_a_command_in_where_nothing_progresses_and_twice_as_many_each_time)
{
    struct vhq_stats st;
    struct world *w = capped(100, 32);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 8; i++)
        launch(w, a, 100);
    dispatcher_looks(w);
    clock_advance(60 * 1000);
    WAIT_FOR(in_device(w, a) == 2);
    dispatcher_is_blocked(w);
    clock_advance(90 * 1000000);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 2);
    clock_advance(20 * 1000000);
    for (uint32_t more = 1, in = 3; in <= 8; more *= 2, in += more) {
        WAIT_FOR(in_device(w, a) == in);
        dispatcher_is_blocked(w);
        dispatcher_looks(w);
        cr_assert_eq(in_device(w, a), in, "%u", in_device(w, a));
        clock_advance(110 * 1000000);
    }
    WAIT_FOR(in_device(w, a) == 8);
    dispatcher_looks(w); /* a marker follows */
    vhq_set_stats(w->set, &st);
    cr_assert_eq(st.cap_lifts, 3);
    /* Progress: the cap is back, and the guard begins anew. */
    device_finish(w);
    for (int i = 0; i < 5; i++)
        launch(w, a, 100);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 1);
    clock_advance(60 * 1000);
    WAIT_FOR(in_device(w, a) == 2);
    dispatcher_is_blocked(w);
    clock_advance(110 * 1000000);
    WAIT_FOR(in_device(w, a) == 3);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 3);
    settle(w);
    world_free(w);
}

enum { STANDS_MS = 110 };

/* What the guard lets in takes so small a part of what stands for two seconds. */
static void lets_in_a_part(struct world *w, int a, uint32_t part)
{
    dispatcher_is_blocked(w);
    uint32_t began = in_device(w, a), before = began;
    for (uint32_t i = 1; i <= 20; i++) {
        clock_advance(STANDS_MS * 1000000);
        WAIT_FOR(in_device(w, a) > before); /* but never nothing */
        dispatcher_is_blocked(w);
        before = in_device(w, a);
        cr_assert_leq(before - began, STANDS_MS * i / part + i, "%u", before);
    }
}

static void lets_in_twice_as_many(struct world *w, int a)
{
    dispatcher_is_blocked(w);
    clock_advance(2 * 1000000); /* as long as the first one is thought to take */
    WAIT_FOR(in_device(w, a) == 2);
    for (uint32_t in = 3, more = 2; more <= 64; in += more, more *= 2) {
        dispatcher_is_blocked(w);
        clock_advance(STANDS_MS * 1000000);
        WAIT_FOR(in_device(w, a) == in);
    }
}

static struct world *stands_before(int *a)
{
    struct world *w = capped(100, 32);
    *a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 256; i++)
        launch(w, *a, 1000);
    return w;
}

static void *drains(void *q)
{
    vhq_drain(q, false);
    return NULL;
}

static void *drains_for_end(void *q)
{
    vhq_drain_for_end(q, false);
    return NULL;
}

/* A host function that sleeps needs nothing, and who cuts in behind it waits for all of that. */
Test(cap, lets_in_what_takes_a_small_part_of_the_stand)
{
    int a;
    struct world *w = stands_before(&a);
    lets_in_a_part(w, a, 32);
    settle(w);
    world_free(w);
}

/* The host function may wait for whoever waits there. */
Test(cap, lets_twice_as_many_in_where_a_thread_waits_for_them)
{
    int a;
    pthread_t drainer;
    struct world *w = stands_before(&a);
    pthread_create(&drainer, NULL, drains, w->stream[a].q);
    WAIT_FOR(somebody_waits(w));
    lets_in_twice_as_many(w, a);
    settle(w);
    pthread_join(drainer, NULL);
    world_free(w);
}

/* Natively it waits as long. */
Test(cap, lets_no_more_in_for_who_waits_for_their_end)
{
    int a;
    pthread_t drainer;
    struct world *w = stands_before(&a);
    pthread_create(&drainer, NULL, drains_for_end, w->stream[a].q);
    WAIT_FOR(somebody_waits(w));
    lets_in_a_part(w, a, 32);
    settle(w);
    pthread_join(drainer, NULL);
    world_free(w);
}

/* One round of what is longer than what went before. */
Test(cap, lets_in_no_round_of_long_ones)
{
    int a;
    struct world *w = capped(100, 32);
    a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 64; i++)
        launch(w, a, i < 16 ? 10 : 50 * 1000);
    for (int i = 0; i < 12; i++) {
        dispatcher_is_blocked(w);
        clock_advance(110 * 1000000);
        dispatcher_looks(w);
    }
    dispatcher_is_blocked(w);
    cr_assert_leq(in_device(w, a), 16 + 12, "%u", in_device(w, a));
    settle(w);
    world_free(w);
}

/* What does not progress may have thousands behind it, ahead of all that others wait for. */
Test(cap, lets_one_in_of_a_stream_that_is_done_where_another_has_more_ahead)
{
    struct world *w = capped(100, 32);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 8; i++)
        launch(w, a, 100);
    launch(w, b, 100);
    dispatcher_looks(w);
    clock_advance(60 * 1000);
    WAIT_FOR(in_device(w, a) == 2);
    dispatcher_is_blocked(w);
    cr_assert_eq(in_device(w, b), 0);
    clock_advance(110 * 1000000);
    WAIT_FOR(in_device(w, a) == 3 && in_device(w, b) == 1);
    launch(w, b, 100); /* that is not done any more */
    dispatcher_is_blocked(w);
    clock_advance(110 * 1000000);
    WAIT_FOR(in_device(w, a) == 5);
    dispatcher_is_blocked(w);
    cr_assert_eq(in_device(w, b), 1);
    settle(w);
    world_free(w);
}

/* Two of a stream stand, with six behind them, and one waits in each of `n` others; the guard has
 * let in once. */
static struct world *one_stands(int *stands, int *other, int n)
{
    struct world *w = capped(100, 32);
    *stands = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 8; i++)
        launch(w, *stands, 100);
    for (int i = 0; i < n; i++)
        launch(w, other[i] = world_stream(w, VHQ_NONBLOCKING), 100);
    dispatcher_looks(w);
    clock_advance(60 * 1000);
    WAIT_FOR(in_device(w, *stands) == 2);
    dispatcher_is_blocked(w);
    clock_advance(110 * 1000000);
    WAIT_FOR(in_device(w, *stands) == 3 && in_device(w, other[0]) == 1);
    dispatcher_looks(w); /* the marker follows */
    return w;
}

/* Or each would wait for the guard behind those before it. */
Test(cap, lets_one_in_of_each_stream_that_is_done_as_soon_as_the_one_before_is_complete)
{
    enum { N = 20 };
    int stands, other[N];
    struct world *w = one_stands(&stands, other, N);
    for (int i = 0; i < N; i++) {
        for (int looks = 0; in_device(w, other[i]) == 0; looks++) {
            cr_assert_lt(looks, 4);
            dispatcher_looks(w);
        }
        dispatcher_looks(w);
        for (int later = i + 1; later < N; later++)
            cr_assert_eq(in_device(w, other[later]), 0);
        cr_assert(device_step(w, other[i]));
    }
    cr_assert_eq(in_device(w, stands), 3);
    cr_assert_eq(w->set->past.cap_lifts, 1);
    settle(w);
    world_free(w);
}

/* The cap is back. */
Test(cap, lets_none_in_so_where_what_stood_gets_on)
{
    int stands, other[3];
    struct world *w = one_stands(&stands, other, 3);
    device_step(w, stands);
    dispatcher_looks(w);
    cr_assert(device_step(w, other[0]));
    for (int i = 0; i < 3; i++)
        dispatcher_looks(w);
    cr_assert_eq(in_device(w, other[1]), 0);
    settle(w);
    world_free(w);
}

Test(cap, nor_where_it_is_gone)
{
    int stands, other[3];
    struct world *w = one_stands(&stands, other, 3);
    dispatcher_looks(w);
    pthread_mutex_lock(&w->set->lock);
    cap_forget(w->stream[stands].q);
    pthread_mutex_unlock(&w->set->lock);
    cr_assert(device_step(w, other[0]));
    for (int i = 0; i < 3; i++)
        dispatcher_looks(w);
    cr_assert_eq(in_device(w, stands), 3);
    cr_assert_eq(in_device(w, other[1]), 1, "the cap is the next one's");
    settle(w);
    world_free(w);
}

/* A millisecond, at the end of which something that `stream` has is complete, and it has more. */
static void goes_on(struct world *w, int stream)
{
    clock_advance(1000000);
    dispatcher_looks(w);
    cr_assert(device_step(w, stream));
    launch(w, stream, 100);
    dispatcher_looks(w);
    dispatcher_looks(w);
}

/* Somebody may wait for what is behind it to be submitted, and be who ends it. */
Test(cap, lets_more_in_of_what_stands_although_another_goes_on_beside_it)
{
    int stands, other[1];
    struct world *w = one_stands(&stands, other, 1);
    for (int i = 0; i < 350; i++) {
        goes_on(w, other[0]);
        cr_assert_eq(in_device(w, other[0]), 1);
    }
    cr_assert_eq(in_device(w, stands), 8, "%u", in_device(w, stands));
    settle(w);
    world_free(w);
}

/* As above, where the other one needs no guard: what stands leaves most of the device free. */
Test(cap, lets_more_in_of_what_stands_although_others_have_room)
{
    struct world *w = capped(100, 32);
    int stands = world_stream(w, VHQ_NONBLOCKING), other = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 8; i++)
        world_call(w, &(struct call){.stream = stands, .est_ns = 100 * 1000, .eighths = 1});
    clock_advance(60 * 1000);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, stands), 2);
    launch(w, other, 100);
    launch(w, other, 100);
    for (int i = 0; i < 500; i++) {
        goes_on(w, other);
        cr_assert_leq(in_device(w, other), 2, "%u", in_device(w, other));
    }
    cr_assert_eq(in_device(w, stands), 8, "%u", in_device(w, stands));
    settle(w);
    world_free(w);
}

/* A kernel that stays for good, and others that go on: nothing waits for the guard. */
Test(cap, lets_none_in_where_nothing_is_behind_what_stands)
{
    struct vhq_stats st;
    struct world *w = capped(100, 32);
    int stands = world_stream(w, VHQ_NONBLOCKING), other = world_stream(w, VHQ_NONBLOCKING);
    launch(w, stands, 100);
    for (int i = 0; i < 8; i++)
        launch(w, other, 100);
    clock_advance(110 * 1000);
    dispatcher_looks(w);
    for (int i = 0; i < 500; i++) {
        goes_on(w, other);
        cr_assert_leq(in_device(w, other), 2, "%u", in_device(w, other));
    }
    vhq_set_stats(w->set, &st);
    cr_assert_eq(st.cap_lifts, 0);
    settle(w);
    world_free(w);
}

/* Or of streams that wait for each other, with a command of one that does not between any two, two
 * would go each time. */
Test(cap, lets_twice_as_many_in_although_what_it_let_in_is_complete)
{
    int stands, other[3];
    struct world *w = one_stands(&stands, other, 3);
    cr_assert(device_step(w, other[0]));
    dispatcher_looks(w);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, other[1]), 1);
    for (uint32_t in = 5; in <= 9; in += 4) {
        dispatcher_is_blocked(w);
        clock_advance(110 * 1000000);
        WAIT_FOR(in_device(w, stands) >= (in < 8 ? in : 8));
        dispatcher_looks(w);
        cr_assert_eq(in_device(w, stands), in < 8 ? in : 8, "%u", in_device(w, stands));
    }
    settle(w);
    world_free(w);
}

/* It let in as many as there were, and some. */
static struct world *more_admitted_than_there_are(int *stands)
{
    struct world *w = capped(100, 32);
    *stands = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 4; i++)
        launch(w, *stands, 100);
    dispatcher_looks(w);
    clock_advance(60 * 1000);
    WAIT_FOR(in_device(w, *stands) == 2);
    for (uint32_t in = 3; in <= 4; in++) {
        dispatcher_is_blocked(w);
        clock_advance(110 * 1000000);
        WAIT_FOR(in_device(w, *stands) == in);
        dispatcher_looks(w);
    }
    return w;
}

/* Who comes next has to wait for it anew. */
Test(cap, lets_none_in_for_what_is_gone)
{
    int stands;
    struct world *w = more_admitted_than_there_are(&stands);
    int other = world_stream(w, VHQ_NONBLOCKING);
    pthread_mutex_lock(&w->set->lock);
    cap_forget(w->stream[stands].q);
    pthread_mutex_unlock(&w->set->lock);
    for (int i = 0; i < 3; i++)
        launch(w, other, 100);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, other), 1, "%u", in_device(w, other));
    settle(w);
    world_free(w);
}

/* What ran before somebody came is closed off in all streams at once; the long one may not be
 * the oldest. */
Test(cap, lifts_no_sooner_than_the_longest_of_what_is_in_flight_takes)
{
    static _Atomic uint32_t above;
    struct vhq_stats st;
    clock_freeze();
    struct world *w =
        world_new(&(struct vhq_config){.budget_us = 100, .depth = 32, .above = &above});
    int before = world_stream(w, VHQ_NONBLOCKING), a = world_stream(w, VHQ_NONBLOCKING);
    int after = world_stream(w, VHQ_NONBLOCKING);
    launch(w, before, 1);
    launch(w, after, 1);
    launch(w, a, 80 * 1000);
    atomic_store(&above, 1);
    launch(w, a, 100);
    dispatcher_is_blocked(w);
    clock_advance(150 * 1000000);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 1);
    clock_advance(40 * 1000000);
    WAIT_FOR(in_device(w, a) == 2);
    vhq_set_stats(w->set, &st);
    cr_assert_eq(st.cap_lifts, 1);
    settle(w);
    world_free(w);
}

/* Half a second is all that an estimate in flight can say. */
Test(cap, what_is_known_to_take_seconds_does_not_lift_it_each_half_second)
{
    struct vhq_stats st;
    clock_freeze();
    struct world *w = capped(100, 32);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 8; i++)
        launch(w, a, 3000 * 1000);
    dispatcher_is_blocked(w);
    for (int i = 0; i < 14; i++) {
        clock_advance(500 * 1000000);
        dispatcher_looks(w);
    }
    cr_assert_leq(in_device(w, a), 2, "%u after 7 s", in_device(w, a));
    clock_advance(3000 * 1000000ull);
    WAIT_FOR(in_device(w, a) > 2);
    vhq_set_stats(w->set, &st);
    cr_assert_eq(st.cap_lifts, 1);
    settle(w);
    world_free(w);
}

/* Real-time requests come more often than the guard's time: it must not begin anew each time. */
Test(cap, lifts_although_holds_come_and_go)
{
    struct world *w = capped(100, 32);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 8; i++)
        launch(w, a, 100);
    dispatcher_looks(w);
    /* The dispatcher need not look while nothing is held, each time. */
    for (int i = 0; in_device(w, a) < 8; i++) {
        cr_assert_lt(i, 1000);
        clock_advance(30 * 1000000);
        atomic_store(&w->stream[a].hold, 1);
        dispatcher_looks(w);
        atomic_store(&w->stream[a].hold, 0);
        dispatcher_looks(w);
    }
    device_finish(w);
    world_free(w);
}

Test(cap, a_lifted_cap_does_not_lift_a_hold)
{
    struct world *w = capped(100, 32);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 4; i++)
        launch(w, a, 100);
    atomic_store(&w->stream[b].hold, 1);
    int held = launch(w, b, 10);
    clock_advance(60 * 1000);
    WAIT_FOR(in_device(w, a) == 2);
    clock_advance(1000000);
    dispatcher_is_blocked(w);
    clock_advance(200 * 1000000);
    WAIT_FOR(in_device(w, a) == 3);
    cr_assert_not(submitted(w, held));
    device_finish(w);
    world_free(w);
}

/* The dispatcher sleeps until a time that the estimates say. Who synchronises knows better. */
Test(cap, whoever_finds_a_completion_wakes_the_dispatcher_that_waits_for_room)
{
    struct world *w = capped(100, 32);
    int a = world_stream(w, VHQ_NONBLOCKING);
    clock_advance(UINT64_C(3600000000000)); /* so that no time to wake up comes */
    for (int i = 0; i < 2; i++)
        launch(w, a, 100);
    dispatcher_is_blocked(w);
    device_finish(w);
    WAIT_FOR(atomic_load(&w->set->sleeping));
    vhq_set_residue(w->set, &(struct vhq_residue){0});
    WAIT_FOR(submitted(w, 1));
    settle(w);
    world_free(w);
}

Test(cap, works_without_completion_words)
{
    struct world *w = world_new(&(struct vhq_config){.budget_us = 100, .depth = 4});
    int a = world_stream_polled(w, VHQ_NONBLOCKING);
    device_start(w, 5);
    for (int i = 0; i < 300; i++)
        launch(w, a, 20);
    vhq_sync(w->stream[a].q, false);
    cr_assert_eq(w->stream[a].completed, 300);
    cr_assert_null(check_order(w));
    world_free(w);
}

/* ---- commands that overlap ------------------------------------------------------------------- */

static void launch_close(struct world *w, int stream, uint64_t est_us)
{
    world_call(w, &(struct call){.stream = stream, .flags = VHQ_CLOSE, .est_ns = est_us * 1000});
}

/* Commands of `stream` in the device behind its newest marker. */
static int behind_marker(const struct world *w, int stream)
{
    const struct stream *s = &w->stream[stream];
    int commands = 0;
    for (uint32_t i = 0; i < s->tail; i++)
        commands = s->work[i].command == NONE ? 0 : commands + 1;
    return commands;
}

Test(cap, puts_a_marker_behind_commands_that_overlap)
{
    clock_freeze();
    struct world *w = world_new(&(struct vhq_config){.budget_us = 1000, .depth = 64});
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 1);
    for (int i = 0; i < 40; i++)
        launch_close(w, a, 1);
    cr_assert_eq(w->mark_calls, 0, "%d", w->mark_calls);
    launch(w, a, 1);
    cr_assert_eq(w->mark_calls, 1, "in front of the first one that does not overlap");
    cr_assert_eq(behind_marker(w, a), 1);
    world_call(w, &(struct call){.stream = a, .flags = VHQ_UNCOUNTED});
    for (int i = 0; i < 40; i++)
        launch(w, a, 1);
    cr_assert_eq(w->mark_calls, 2, "as ever: %d", w->mark_calls);
    device_finish(w);
    world_free(w);
}

Test(cap, lets_part_of_it_overlap_without_a_marker)
{
    clock_freeze();
    struct world *w = world_new(&(struct vhq_config){.budget_us = 1000, .depth = 32});
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 32; i++)
        launch_close(w, a, 1);
    cr_assert_eq(w->mark_calls, 1, "%d", w->mark_calls);
    cr_assert_eq(behind_marker(w, a), 8);
    for (int i = 0; i < 9; i++)
        launch_close(w, b, 100);
    cr_assert_eq(w->mark_calls, 2, "%d", w->mark_calls);
    cr_assert_eq(behind_marker(w, b), 4);
    device_finish(w);
    world_free(w);
}

/* The cap is full, one marker is out: what overlaps waits for that one. */
Test(cap, that_is_full_puts_no_other_marker_among_commands_that_overlap)
{
    clock_freeze();
    struct world *w = world_new(&(struct vhq_config){.budget_us = 100, .depth = 32});
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 9; i++)
        launch_close(w, a, 10);
    cr_assert_eq(w->mark_calls, 1);
    cr_assert_eq(behind_marker(w, a), 4);
    launch_close(w, a, 20);
    cr_assert_eq(behind_marker(w, a), 4);
    device_start(w, 1);
    vhq_sync(w->stream[a].q, false);
    world_free(w);
}
