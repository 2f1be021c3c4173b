/*
 * cap.c - how much may be in flight. Where it matters the clock is stopped, so that only the test
 * decides how much credit there is for time that has passed.
 */
#include "tests/vhq/capped.h"

Test(cap, short_commands_fill_but_never_exceed_the_budget)
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

Test(cap, higher_priority_goes_first_without_starving_lower)
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

Test(cap, next_long_command_goes_when_first_is_half_done)
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

/* Waits until the dispatcher has looked since the clock advanced, and found no room. Returns the
 * microseconds from now to its next look. */
static uint64_t next_look_us(struct world *w)
{
    uint64_t looked = 0, now = clock_ns(), due = 0;
    for (int i = 0; looked != now; i++) {
        cr_assert(i < 200000, "never looked");
        pthread_mutex_lock(&w->set->lock);
        looked = w->set->polled_at_ns;
        w->set->waits = 0; /* the wait has no look half-way */
        due = blocked_wake_ns(w->set, 0, now);
        pthread_mutex_unlock(&w->set->lock);
        nap_us(100);
    }
    return (due - now) / 1000;
}

/* The command is like a copy whose time its size does not tell: it may be complete at any time.
 * What comes behind it is looked at when it should be complete. */
Test(cap, looks_at_overdue_command_grow_rarer)
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

/* So a client that cuts in meets one of them. */
Test(cap, overlong_command_goes_when_previous_is_nearly_done)
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

Test(cap, overlong_command_goes_when_nothing_is_in_flight)
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

/* A program buffers hundreds of launches of a kernel before the first of them is timed. */
Test(cap, buffered_command_counts_with_its_newest_estimate)
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

Test(cap, depth_bounds_each_stream_separately)
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

Test(cap, short_commands_do_not_starve_a_long_one)
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

Test(cap, uncounted_commands_take_no_room)
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

Test(cap, budget_and_depth_are_relaxed_with_only_rivals)
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

Test(cap, blocked_launch_marks_tails_of_other_streams)
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

Test(cap, blocked_launch_marks_tail_of_held_stream)
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

Test(cap, relaxed_cap_marks_every_128th_command)
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

/* A vHQ leaves the list of those in flight, and is back before the next one is looked at. */

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

Test(cap, vhq_rejoining_in_flight_list_hides_no_other)
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

/* Each of these looks for completions, while it does something for another vHQ or the set. */

static void found_by_residue(struct vhq *q)
{
    vhq_set_residue(q->set, &(struct vhq_residue){0});
}

static void found_by_stats(struct vhq *q)
{
    vhq_get_stats(q, &(struct vhq_stats){0});
}

static void found_by_stats_of_the_set(struct vhq *q)
{
    vhq_set_stats(q->set, &(struct vhq_stats){0});
}

static void found_by_sync(struct vhq *q)
{
    vhq_sync(q, false);
}

static void found_by_settle(struct vhq *q)
{
    vhq_note_complete(q, vhq_sent(q));
}

static void found_by_leave(struct vhq *q)
{
    vhq_leave(q, true);
}

/* The dispatcher sleeps until a time by the estimates; a thread that synchronises knows better. */
Test(cap, any_call_that_finds_completion_wakes_the_dispatcher)
{
    void (*const finder[])(struct vhq *) = {
        found_by_residue, found_by_stats, found_by_stats_of_the_set, found_by_sync, found_by_settle,
        found_by_leave,   vhq_destroy};
    for (size_t i = 0; i < sizeof(finder) / sizeof(*finder); i++) {
        struct world *w = capped(100, 32);
        int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
        clock_advance(UINT64_C(3600000000000)); /* so that no time to wake up comes */
        launch(w, a, 80);
        launch(w, b, 20);
        int next = launch(w, a, 100);
        dispatcher_is_blocked(w);
        dispatcher_looks(w);
        device_finish(w);
        cr_assert_not(submitted(w, next));
        finder[i](w->stream[b].q);
        WAIT_FOR(submitted(w, next));
        settle(w);
        world_free(w);
    }
}

Test(cap, works_without_completion_words)
{
    struct world *w = capped(100, 4);
    int a = world_stream_polled(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 100; i++)
        launch(w, a, 20);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 4, "%u", in_device(w, a));
    device_start(w, 5);
    for (int i = 0; i < 200; i++)
        launch(w, a, 20);
    vhq_sync(w->stream[a].q, false);
    cr_assert_eq(w->stream[a].completed, 300);
    cr_assert_null(check_order(w));
    cr_assert_null(check_cap(w, true), "%s", check_cap(w, true));
    world_free(w);
}

/* ---- commands that overlap ------------------------------------------------------------------- */

static void launch_close(struct world *w, int stream, uint64_t est_us)
{
    world_call(w, &(struct call){.stream = stream, .flags = VHQ_OVERLAPS, .est_ns = est_us * 1000});
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

Test(cap, marker_follows_run_of_overlapping_commands)
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

Test(cap, overlapping_commands_get_marker_after_part_of_cap)
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

/* The cap is full and one marker is out: commands that overlap wait for that marker. */
Test(cap, full_cap_adds_no_marker_among_overlapping_commands)
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
