/*
 * guard.c - what the progress guard lets in although there is no room. The clock is stopped
 * where it matters.
 */
#include "tests/vhq/capped.h"

/* As behind a queue longer than the guard's patience: what the guard lets in must not fill it. */
Test(guard, admits_doubling_numbers_while_nothing_progresses)
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
    cr_assert_eq(st.guard_lifts, 3);
    /* There was progress: the cap is back, and the guard begins anew. */
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

/* Of two seconds in which work has stalled, the guard lets in at most one `part`th. */
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
    clock_advance(2 * 1000000); /* as long as the first one should take */
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
    vhq_drain(q, false, false);
    return NULL;
}

static void *drains_for_end(void *q)
{
    vhq_drain(q, false, true);
    return NULL;
}

/* A host function that sleeps needs nothing, and a client that cuts in waits for all of that. */
Test(guard, admitted_work_is_small_part_of_stalled_time)
{
    int a;
    struct world *w = stands_before(&a);
    lets_in_a_part(w, a, 32);
    settle(w);
    world_free(w);
}

/* The host function may wait for the thread that waits for its commands to be submitted. */
Test(guard, admits_doubling_numbers_while_a_thread_drains)
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

/* Natively a thread that waits for their end waits as long. */
Test(guard, drain_for_end_admits_no_more)
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

/* Longer commands follow those that went before; the guard lets in no round of them. */
Test(guard, admits_one_long_command_each_time)
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

/* The stream that stalled may have thousands of commands, called before those of other streams. */
Test(guard, admits_one_command_of_idle_stream_beside_stalled_one)
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
    launch(w, b, 100); /* so b is not done any more */
    dispatcher_is_blocked(w);
    clock_advance(110 * 1000000);
    WAIT_FOR(in_device(w, a) == 5);
    dispatcher_is_blocked(w);
    cr_assert_eq(in_device(w, b), 1);
    settle(w);
    world_free(w);
}

/* A stream has commands in flight that stand, and more behind them. One command waits in each of
 * `n` other streams. The guard has let in once. */
static struct world *one_stalled(int *stalled, int *other, int n)
{
    struct world *w = capped(100, 32);
    *stalled = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 8; i++)
        launch(w, *stalled, 100);
    for (int i = 0; i < n; i++)
        launch(w, other[i] = world_stream(w, VHQ_NONBLOCKING), 100);
    dispatcher_looks(w);
    clock_advance(60 * 1000);
    WAIT_FOR(in_device(w, *stalled) == 2);
    dispatcher_is_blocked(w);
    clock_advance(110 * 1000000);
    WAIT_FOR(in_device(w, *stalled) == 3 && in_device(w, other[0]) == 1);
    dispatcher_looks(w); /* the marker follows */
    return w;
}

/* Without this, each stream would wait for the guard behind those before it. */
Test(guard, admits_next_idle_stream_when_previous_completes)
{
    enum { N = 20 };
    int stalled, other[N];
    struct world *w = one_stalled(&stalled, other, N);
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
    cr_assert_eq(in_device(w, stalled), 3);
    cr_assert_eq(w->set->past.guard_lifts, 1);
    settle(w);
    world_free(w);
}

/* The stream that stood made progress, so the cap is back. */
Test(guard, progress_of_stalled_stream_restores_the_cap)
{
    int stalled, other[3];
    struct world *w = one_stalled(&stalled, other, 3);
    device_step(w, stalled);
    dispatcher_looks(w);
    cr_assert(device_step(w, other[0]));
    for (int i = 0; i < 3; i++)
        dispatcher_looks(w);
    cr_assert_eq(in_device(w, other[1]), 0);
    settle(w);
    world_free(w);
}

Test(guard, removal_of_stalled_stream_restores_the_cap)
{
    int stalled, other[3];
    struct world *w = one_stalled(&stalled, other, 3);
    dispatcher_looks(w);
    pthread_mutex_lock(&w->set->lock);
    cap_forget(w->stream[stalled].q);
    pthread_mutex_unlock(&w->set->lock);
    cr_assert(device_step(w, other[0]));
    for (int i = 0; i < 3; i++)
        dispatcher_looks(w);
    cr_assert_eq(in_device(w, stalled), 3);
    cr_assert_eq(in_device(w, other[1]), 1, "the cap is the next one's");
    settle(w);
    world_free(w);
}

/* Lets a millisecond pass. Then a command of `stream` completes, and another one is launched. */
static void goes_on(struct world *w, int stream)
{
    clock_advance(1000000);
    dispatcher_looks(w);
    cr_assert(device_step(w, stream));
    launch(w, stream, 100);
    dispatcher_looks(w);
    dispatcher_looks(w);
}

/* A thread may wait until what is behind the standing command is submitted, and then end it. */
Test(guard, admits_more_of_stalled_stream_beside_running_one)
{
    int stalled, other[1];
    struct world *w = one_stalled(&stalled, other, 1);
    for (int i = 0; i < 350; i++) {
        goes_on(w, other[0]);
        cr_assert_eq(in_device(w, other[0]), 1);
    }
    cr_assert_eq(in_device(w, stalled), 8, "%u", in_device(w, stalled));
    settle(w);
    world_free(w);
}

/* As above, but the other stream needs no guard: stalled work leaves most of the device free. */
Test(guard, admits_more_of_stalled_stream_while_others_have_room)
{
    struct world *w = capped(100, 32);
    int stalled = world_stream(w, VHQ_NONBLOCKING), other = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 8; i++)
        world_call(w, &(struct call){.stream = stalled, .est_ns = 100 * 1000, .eighths = 1});
    clock_advance(60 * 1000);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, stalled), 2);
    launch(w, other, 100);
    launch(w, other, 100);
    for (int i = 0; i < 500; i++) {
        goes_on(w, other);
        cr_assert_leq(in_device(w, other), 2, "%u", in_device(w, other));
    }
    cr_assert_eq(in_device(w, stalled), 8, "%u", in_device(w, stalled));
    settle(w);
    world_free(w);
}

/* A kernel stays for good, and another stream goes on: no command waits for the guard. */
Test(guard, admits_nothing_when_stalled_stream_has_no_more)
{
    struct vhq_stats st;
    struct world *w = capped(100, 32);
    int stalled = world_stream(w, VHQ_NONBLOCKING), other = world_stream(w, VHQ_NONBLOCKING);
    launch(w, stalled, 100);
    for (int i = 0; i < 8; i++)
        launch(w, other, 100);
    clock_advance(110 * 1000);
    dispatcher_looks(w);
    for (int i = 0; i < 500; i++) {
        goes_on(w, other);
        cr_assert_leq(in_device(w, other), 2, "%u", in_device(w, other));
    }
    vhq_set_stats(w->set, &st);
    cr_assert_eq(st.guard_lifts, 0);
    settle(w);
    world_free(w);
}

/* Otherwise, of streams that wait for each other, only two commands would go each time if a command
 * of another stream went between any two of theirs. */
Test(guard, completion_of_admitted_command_keeps_doubling)
{
    int stalled, other[3];
    struct world *w = one_stalled(&stalled, other, 3);
    cr_assert(device_step(w, other[0]));
    dispatcher_looks(w);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, other[1]), 1);
    for (uint32_t in = 5; in <= 9; in += 4) {
        dispatcher_is_blocked(w);
        clock_advance(110 * 1000000);
        WAIT_FOR(in_device(w, stalled) >= (in < 8 ? in : 8));
        dispatcher_looks(w);
        cr_assert_eq(in_device(w, stalled), in < 8 ? in : 8, "%u", in_device(w, stalled));
    }
    settle(w);
    world_free(w);
}

/* The guard let in as many as there were, and more. */
static struct world *more_admitted_than_there_are(int *stalled)
{
    struct world *w = capped(100, 32);
    *stalled = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 4; i++)
        launch(w, *stalled, 100);
    dispatcher_looks(w);
    clock_advance(60 * 1000);
    WAIT_FOR(in_device(w, *stalled) == 2);
    for (uint32_t in = 3; in <= 4; in++) {
        dispatcher_is_blocked(w);
        clock_advance(110 * 1000000);
        WAIT_FOR(in_device(w, *stalled) == in);
        dispatcher_looks(w);
    }
    return w;
}

/* The next command has to wait for the guard anew. */
Test(guard, removal_of_stalled_stream_cancels_admissions)
{
    int stalled;
    struct world *w = more_admitted_than_there_are(&stalled);
    int other = world_stream(w, VHQ_NONBLOCKING);
    pthread_mutex_lock(&w->set->lock);
    cap_forget(w->stream[stalled].q);
    pthread_mutex_unlock(&w->set->lock);
    for (int i = 0; i < 3; i++)
        launch(w, other, 100);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, other), 1, "%u", in_device(w, other));
    settle(w);
    world_free(w);
}

/* When a client above comes, what ran before is closed off in all streams at once. So the longest
 * need not be the oldest. */
Test(guard, waits_for_longest_command_in_flight)
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
    cr_assert_eq(st.guard_lifts, 1);
    settle(w);
    world_free(w);
}

/* Half a second is the longest time that an estimate in flight can hold. */
Test(guard, waits_for_commands_known_to_take_seconds)
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
    cr_assert_eq(st.guard_lifts, 1);
    settle(w);
    world_free(w);
}

/* Real-time requests are closer than the guard's time: that must not begin anew at each. */
Test(guard, admits_despite_recurring_holds)
{
    struct world *w = capped(100, 32);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 8; i++)
        launch(w, a, 100);
    dispatcher_looks(w);
    /* The dispatcher may miss some of the moments in which nothing is held. */
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

Test(guard, admits_no_held_command)
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
