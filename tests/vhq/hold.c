/* hold.c - holds by word and by call, turns, boosts. */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/vhq/fake.h"

Test(hold, nothing_is_submitted_until_release)
{
    struct vhq_stats st;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int round = 0; round < 10; round++) {
        int first = w->commands;
        atomic_store(&w->stream[a].hold, 1);
        for (int i = 0; i < 5; i++)
            launch(w, a, 1);
        world_call(w, &(struct call){.stream = a, .flags = VHQ_UNCOUNTED});
        dispatcher_looks(w);
        for (int i = 0; i < 6; i++)
            cr_assert_not(submitted(w, first + i));
        cr_assert(vhq_pending(w->stream[a].q));
        cr_assert_not(vhq_empty(w->stream[a].q));
        atomic_store(&w->stream[a].hold, 0);
        vhq_drain(w->stream[a].q, false, false);
        cr_assert(submitted(w, first + 5));
        device_finish(w);
    }
    vhq_get_stats(w->stream[a].q, &st);
    cr_assert_eq(st.holds, 10, "%lu", (unsigned long)st.holds);
    world_free(w);
}

/* Meanwhile, work that waits at gates is let out. */
Test(hold, vhq_set_stand_stops_old_and_new_streams)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), before = launch(w, a, 1);
    vhq_set_hold_all(w->set, true);
    int b = world_stream(w, VHQ_NONBLOCKING), held[] = {launch(w, a, 1), launch(w, b, 1)};
    dispatcher_looks(w);
    cr_expect(submitted(w, before));
    cr_expect_not(submitted(w, held[0]));
    cr_expect_not(submitted(w, held[1]));
    vhq_set_hold_all(w->set, false);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    cr_expect(submitted(w, held[0]));
    cr_expect(submitted(w, held[1]));
    device_finish(w);
    world_free(w);
}

/* The clock is stopped: neither the length of the hold nor the time since its end matters. */
Test(hold, buffered_command_goes_at_first_look_after_release)
{
    clock_freeze();
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int round = 0; round < 10; round++) {
        atomic_store(&w->stream[a].hold, 1);
        int k = launch(w, a, 1);
        dispatcher_looks(w);
        clock_advance(100000000);
        dispatcher_looks(w);
        cr_assert_not(submitted(w, k));
        atomic_store(&w->stream[a].hold, 0);
        dispatcher_looks(w);
        cr_assert(submitted(w, k));
        device_finish(w);
    }
    world_free(w);
}

/* The device may put both streams into one hardware queue. */
Test(hold, value_wait_follows_all_earlier_commands)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    int other = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&w->stream[a].hold, 1);
    int early = launch(w, a, 1);
    int wait = world_call(w, &(struct call){.stream = b, .flags = VHQ_UNCOUNTED | VHQ_AFTER_ALL});
    int late = launch(w, other, 1);
    vhq_drain(w->stream[other].q, false, false);
    dispatcher_looks(w);
    cr_assert(submitted(w, late));
    cr_assert_not(submitted(w, early));
    cr_assert_not(submitted(w, wait));
    atomic_store(&w->stream[a].hold, 0);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    cr_assert_lt(w->command[early].submitted, w->command[wait].submitted);
    device_finish(w);
    world_free(w);
}

Test(hold, application_stops_submission_at_once)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int round = 0; round < 20; round++) {
        vhq_hold(w->stream[a].q);
        int k = launch(w, a, 1);
        dispatcher_looks(w);
        cr_assert_not(submitted(w, k));
        vhq_release(w->stream[a].q);
        vhq_drain(w->stream[a].q, false, false);
        cr_assert(submitted(w, k));
        device_finish(w);
    }
    world_free(w);
}

Test(hold, stops_a_queue_in_the_middle)
{
    struct world *w = world_new(&(struct vhq_config){.budget_us = 4000000, .depth = 1024});
    int a = world_stream(w, VHQ_NONBLOCKING);
    vhq_hold(w->stream[a].q);
    for (int i = 0; i < 2000; i++)
        launch(w, a, 1);
    vhq_release(w->stream[a].q);
    WAIT_FOR(atomic_load(&w->stream[a].submitted) > 0);
    vhq_hold(w->stream[a].q);
    uint32_t n = atomic_load(&w->stream[a].submitted);
    dispatcher_looks(w);
    /* One may have been on its way. */
    cr_assert_leq(atomic_load(&w->stream[a].submitted), n + 1);
    vhq_release(w->stream[a].q);
    vhq_drain(w->stream[a].q, false, false);
    cr_assert_eq(atomic_load(&w->stream[a].submitted), 2000);
    device_finish(w);
    world_free(w);
}

struct turn {
    struct world *w;
    int stream, index;
    bool boost;
    uint32_t flags;
    pthread_t thread;
    _Atomic bool done;
};

static void *turn_main(void *arg)
{
    struct turn *t = arg;
    t->index = world_call(t->w, &(struct call){.stream = t->stream,
                                               .flags = VHQ_MUST_INLINE | t->flags,
                                               .boost = t->boost,
                                               .est_ns = 1000});
    atomic_store(&t->done, true);
    return NULL;
}

static void turn_start(struct turn *t)
{
    pthread_create(&t->thread, NULL, turn_main, t);
}

static _Atomic bool drained;

static void *drain_returned(void *arg)
{
    vhq_set_drain(arg, VHQ_DRAIN_RETURNED, false);
    atomic_store(&drained, true);
    return NULL;
}

/* The call in the driver may wait for what the thread that drains does next. */
Test(hold, drain_returned_ignores_unreturned_calls)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    struct turn t = {.w = w, .stream = a};
    pthread_t drainer;
    hold_all(w, true);
    turn_start(&t);
    WAIT_FOR(!vhq_set_empty(w->set));
    vhq_set_drain(w->set, VHQ_DRAIN_RETURNED, false);
    cr_assert_not(atomic_load(&t.done));
    int k = launch(w, b, 1);
    pthread_create(&drainer, NULL, drain_returned, w->set);
    WAIT_FOR(somebody_waits(w));
    atomic_store(&w->stream[a].full, true); /* so the call stays in the driver */
    atomic_store(&w->stream[a].hold, 0);
    WAIT_FOR(atomic_load(&w->in_run) == 1);
    cr_assert_eq(vhq_set_drain_timeout(w->set, 5), -ETIMEDOUT);
    cr_assert_not(submitted(w, k) || atomic_load(&drained));
    atomic_store(&w->stream[b].hold, 0);
    WAIT_FOR(atomic_load(&drained));
    pthread_join(drainer, NULL);
    cr_assert(submitted(w, k));
    cr_assert_eq(atomic_load(&w->in_run), 1);
    atomic_store(&w->stream[a].full, false);
    pthread_join(t.thread, NULL);
    device_finish(w);
    world_free(w);
}

static void *drain_unblocked(void *arg)
{
    vhq_set_drain(arg, VHQ_DRAIN_UNBLOCKED, false);
    atomic_store(&drained, true);
    return NULL;
}

/* `second` is behind such a call by the legacy stream's rule, and `third` is behind `second`. */
Test(hold, drain_unblocked_skips_commands_behind_unreturned_call)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_BLOCKING), b = world_stream(w, VHQ_BLOCKING),
        legacy = world_stream(w, VHQ_LEGACY), free = world_stream(w, VHQ_NONBLOCKING);
    struct turn t = {.w = w, .stream = a};
    pthread_t drainer;
    hold_all(w, true);
    atomic_store(&w->stream[free].hold, 0);
    turn_start(&t);
    WAIT_FOR(!vhq_empty(w->stream[a].q)); /* its ticket is taken: what is called now is behind it */
    int second = launch(w, legacy, 1), third = launch(w, b, 1);
    pthread_create(&drainer, NULL, drain_unblocked, w->set);
    WAIT_FOR(atomic_load(&drained));
    pthread_join(drainer, NULL);
    cr_assert_not(submitted(w, second) || submitted(w, third) || atomic_load(&t.done));
    hold_all(w, false);
    pthread_join(t.thread, NULL);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    cr_assert(submitted(w, second) && submitted(w, third));
    device_finish(w);
    world_free(w);
}

static struct vhq *kept;
static _Atomic bool is_kept, goes_on;

static void keep(struct vhq *q)
{
    if (q != kept)
        return;
    atomic_store(&is_kept, true);
    WAIT_FOR(atomic_load(&goes_on));
}

/* The call comes into the lists after the drain has looked at them, and nothing is submitted. */
Test(hold, drain_unblocked_sees_call_listed_late)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_BLOCKING), legacy = world_stream(w, VHQ_LEGACY);
    struct turn t = {.w = w, .stream = a};
    pthread_t drainer;
    hold_all(w, true);
    kept = w->stream[a].q;
    atomic_store(&wrap_before_ready, keep);
    turn_start(&t);
    WAIT_FOR(atomic_load(&is_kept));
    int second = launch(w, legacy, 1);
    pthread_create(&drainer, NULL, drain_unblocked, w->set);
    WAIT_FOR(somebody_waits(w));
    atomic_store(&goes_on, true);
    WAIT_FOR(atomic_load(&drained));
    pthread_join(drainer, NULL);
    cr_assert_not(submitted(w, second) || atomic_load(&t.done));
    hold_all(w, false);
    pthread_join(t.thread, NULL);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    device_finish(w);
    world_free(w);
}

static _Atomic int inside, may_leave;

static void *stay_inside(void *arg)
{
    struct vhq_req req = {.flags = VHQ_MUST_INLINE, .est_ns = 1000};
    struct vhq_cmd *cmd;
    vhq_begin(arg, &req, &cmd);
    atomic_store(&inside, 1);
    WAIT_FOR(atomic_load(&may_leave));
    vhq_end(arg, NULL, 0);
    return NULL;
}

/* The call is in the driver, and natively no other call would wait for it there. */
Test(hold, call_inside_driver_blocks_no_other_command)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_BLOCKING), b = world_stream(w, VHQ_BLOCKING),
        legacy = world_stream(w, VHQ_LEGACY), free = world_stream(w, VHQ_NONBLOCKING);
    pthread_t thread;
    hold_all(w, true);
    pthread_create(&thread, NULL, stay_inside, w->stream[a].q);
    WAIT_FOR(!vhq_empty(w->stream[a].q)); /* it has to wait for its turn */
    hold_all(w, false);
    WAIT_FOR(atomic_load(&inside));
    int second = launch(w, legacy, 1), third = launch(w, b, 1);
    int last = world_call(w, &(struct call){.stream = free, .flags = VHQ_AFTER_ALL});
    vhq_set_drain(w->set, VHQ_DRAIN_UNBLOCKED, false);
    vhq_set_drain(w->set, VHQ_DRAIN_RETURNED, false);
    cr_assert(submitted(w, second) && submitted(w, third) && submitted(w, last));
    atomic_store(&may_leave, 1);
    pthread_join(thread, NULL);
    device_finish(w);
    world_free(w);
}

/* Another stream may be held until the caller goes on. */
Test(hold, drain_of_one_stream_ignores_others)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), other = world_stream(w, VHQ_NONBLOCKING),
        b = world_stream(w, VHQ_BLOCKING), legacy = world_stream(w, VHQ_LEGACY);
    hold_all(w, true);
    int k = launch(w, other, 1), own = launch(w, a, 1), first = launch(w, legacy, 1);
    atomic_store(&w->stream[a].hold, 0);
    atomic_store(&w->stream[legacy].hold, 0);
    vhq_drain_unblocked(w->stream[a].q, false);
    cr_assert(submitted(w, own));
    vhq_drain_unblocked(w->stream[b].q, false);
    cr_assert(submitted(w, first));
    cr_assert_not(submitted(w, k));
    hold_all(w, false);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    device_finish(w);
    world_free(w);
}

static void *drain_one_unblocked(void *arg)
{
    vhq_drain_unblocked(arg, false);
    return NULL;
}

/* What the legacy rule puts ahead is still held. A thread that has left such a drain by a jump may
 * destroy the stream itself. */
Test(hold, destroying_stream_ends_its_drain)
{
    struct world *w = world_new(NULL);
    int b = world_stream(w, VHQ_BLOCKING), legacy = world_stream(w, VHQ_LEGACY);
    pthread_t drainer;
    hold_all(w, true);
    int k = launch(w, legacy, 1);
    pthread_create(&drainer, NULL, drain_one_unblocked, w->stream[b].q);
    WAIT_FOR(somebody_waits(w));
    vhq_destroy(w->stream[b].q);
    pthread_join(drainer, NULL);
    cr_assert_not(submitted(w, k));
    hold_all(w, false);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    device_finish(w);
    world_free(w);
}

/* A drain of the legacy stream does not wait for non-blocking streams. */
Test(hold, legacy_drain_ignores_non_blocking_streams)
{
    struct world *w = world_new(NULL);
    int b = world_stream(w, VHQ_BLOCKING), other = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&w->stream[other].hold, 1);
    int k = launch(w, other, 1), blocking = launch(w, b, 1);
    vhq_set_drain(w->set, VHQ_DRAIN_LEGACY, false);
    cr_assert(submitted(w, blocking));
    cr_assert_not(submitted(w, k));
    atomic_store(&w->stream[other].hold, 0);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    device_finish(w);
    world_free(w);
}

Test(hold, uncopyable_call_waits_for_its_turn)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&w->stream[a].hold, 1);
    int k = launch(w, a, 1);
    struct turn t = {.w = w, .stream = a};
    turn_start(&t);
    WAIT_FOR(w->commands == 2);
    dispatcher_looks(w);
    cr_assert_not(atomic_load(&t.done));
    cr_assert(vhq_pending(w->stream[a].q));
    atomic_store(&w->stream[a].hold, 0);
    pthread_join(t.thread, NULL);
    cr_assert(w->command[t.index].inlined);
    cr_assert(w->command[k].submitted < w->command[t.index].submitted);
    device_finish(w);
    world_free(w);
}

/* The clock is stopped: the cap lifts where nothing progresses for a tenth of a second. */
Test(hold, turn_waits_for_room_and_takes_it)
{
    clock_freeze();
    struct world *w = world_new(&(struct vhq_config){.budget_us = 1000000, .depth = 2});
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 1);
    launch(w, a, 1);
    struct turn t = {.w = w, .stream = a};
    turn_start(&t);
    struct vhq_stats st;
    WAIT_FOR((vhq_get_stats(w->stream[a].q, &st), st.buffered_now == 1));
    dispatcher_looks(w);
    cr_assert_not(atomic_load(&t.done) || submitted(w, 2));
    cr_assert(device_step(w, a));
    dispatcher_looks(w);
    pthread_join(t.thread, NULL);
    cr_assert(submitted(w, t.index));
    vhq_get_stats(w->stream[a].q, &st);
    cr_assert_eq(st.in_flight_now, 2, "%u", st.in_flight_now);
    int next = launch(w, a, 1);
    dispatcher_looks(w);
    cr_assert_not(submitted(w, next));
    cr_assert(device_step(w, a));
    dispatcher_looks(w);
    cr_assert(submitted(w, next));
    device_finish(w);
    vhq_get_stats(w->stream[a].q, &st);
    cr_assert_eq(st.in_flight_now, 0, "%u", st.in_flight_now);
    world_free(w);
}

Test(hold, boosted_turn_submits_what_is_ahead)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    hold_all(w, true);
    int first = launch(w, b, 1);
    world_call(w, &(struct call){.stream = b, .what = RECORD});
    int kept = launch(w, b, 1);
    world_call(w, &(struct call){.stream = a, .what = WAIT});
    int ahead = launch(w, a, 1);
    struct turn t = {.w = w, .stream = a, .boost = true};
    turn_start(&t);
    pthread_join(t.thread, NULL);
    cr_assert(submitted(w, first));
    cr_assert(submitted(w, ahead));
    cr_assert_not(submitted(w, kept));
    device_finish(w);
    world_free(w);
}

Test(hold, boosted_set_drain_submits_only_earlier_commands)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_BLOCKING), b = world_stream(w, VHQ_LEGACY);
    hold_all(w, true);
    for (int i = 0; i < 20; i++)
        launch(w, i % 2 ? a : b, 1);
    vhq_hold(w->stream[a].q);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, true);
    cr_assert_eq(submitted_count(w), 20);
    int k = launch(w, a, 1);
    cr_assert_eq(vhq_set_drain_timeout(w->set, 20), -ETIMEDOUT);
    cr_assert_not(submitted(w, k));
    vhq_release(w->stream[a].q);
    device_finish(w);
    world_free(w);
}

Test(hold, boosted_drain_of_re_record_submits_earlier_waits)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    world_call(w, &(struct call){.stream = a, .what = RECORD});
    hold_all(w, true);
    int ahead = launch(w, b, 1);
    int x = world_call(w, &(struct call){.stream = b, .what = WAIT});
    int kept = launch(w, b, 1);
    world_call(w, &(struct call){.stream = a, .what = RECORD});
    vhq_drain(w->stream[a].q, true, false);
    cr_assert(submitted(w, ahead));
    cr_assert(submitted(w, x));
    cr_assert_not(submitted(w, kept));
    device_finish(w);
    world_free(w);
}
