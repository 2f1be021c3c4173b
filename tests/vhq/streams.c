/*
 * streams.c - the cap of several streams that run side by side where the device has room. The clock
 * moves only when the test says so.
 */
#include "tests/vhq/capped.h"

#include <stdlib.h>

static int launch_part(struct world *w, int stream, uint64_t est_us, uint32_t eighths)
{
    return world_call(
        w, &(struct call){.stream = stream, .est_ns = est_us * 1000, .eighths = eighths});
}

/* However many streams have something buffered, and whichever become empty. Which stream's command
 * is in the driver while the holds end one after another is left open. */
Test(streams, earliest_command_among_many_goes_first)
{
    enum { EACH = ROOM_SURE - 4, CALLS = STREAMS_MAX * EACH }; /* one thread dispatches all */
    struct world *w = world_new(&(struct vhq_config){.budget_us = 1000000, .depth = CALLS});
    uint64_t before = 0;
    int late = 0, calls[STREAMS_MAX] = {0};
    for (int i = 0; i < STREAMS_MAX; i++)
        world_stream(w, VHQ_NONBLOCKING);
    hold_all(w, true);
    srand(1);
    for (int i = 0; i < CALLS; i++) {
        int of = rand() % STREAMS_MAX;
        while (calls[of] == EACH)
            of = (of + 1) % STREAMS_MAX;
        calls[of]++;
        launch(w, of, 1);
    }
    atomic_store(&w->run_wait, 1);
    hold_all(w, false);
    WAIT_FOR(atomic_load(&w->in_run) != 0);
    device_start(w, 1);
    atomic_store(&w->run_wait, 0);
    vhq_set_sync(w->set, false);
    device_stop(w);
    for (int i = 0; i < CALLS; i++) {
        late += atomic_load(&w->command[i].submitted) < before;
        before = atomic_load(&w->command[i].submitted);
    }
    cr_assert_leq(late, 1);
    world_free(w);
}

/* Otherwise each look at all heads would let as many short ones go anew. */
Test(streams, unblocked_commands_go_by_short_looks)
{
    enum { CALLS = 8 };
    struct world *w = world_new(&(struct vhq_config){.budget_us = 1000000, .depth = 64});
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&w->run_wait, 1);
    for (int i = 0; i <= CALLS; i++)
        world_call(w, &(struct call){
                          .stream = i < CALLS ? a : b, .flags = VHQ_MUST_BUFFER, .est_ns = 1000});
    atomic_store(&w->stream[b].full, true);
    atomic_store(&w->run_wait, 0);
    WAIT_FOR(atomic_load(&w->stream[a].submitted) == CALLS && atomic_load(&w->in_run) == 1);
    pthread_mutex_lock(&w->set->lock);
    uint32_t left = w->set->short_looks;
    pthread_mutex_unlock(&w->set->lock);
    atomic_store(&w->stream[b].full, false);
    cr_assert_leq(left, SHORT_LOOKS - CALLS / 2);
    settle(w);
    world_free(w);
}

/* Each stream has its own budget, as far as the device has room for the streams side by side. */
Test(streams, each_has_its_own_budget_while_device_has_room)
{
    struct world *w = capped(200, 32);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    int c = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 20; i++)
        launch_part(w, a, 20, 1);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), 10); /* one after another: 200 us, however narrow they are */
    for (int i = 0; i < 20; i++)
        launch_part(w, b, 20, 4);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, b), 10); /* an eighth and a half of the device */
    for (int i = 0; i < 20; i++)
        launch_part(w, c, 20, 8);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, c), 3); /* 25 + 100 + 60 us of the whole device */
    for (int i = 0; i < 10; i++)
        device_step(w, b);
    dispatcher_looks(w);
    uint32_t more_b = in_device(w, b), more_c = in_device(w, c) - 3; /* markers tell of 8 of b's */
    cr_assert_leq(abs((int)more_b - (int)more_c), 1, "%u and %u", more_b, more_c);
    cr_assert_geq(25 + 10 * more_b + 20 * (3 + more_c), 200 - 2 * 20 - 20);
    device_finish(w);
    settle(w);
    cr_assert_null(check_order(w));
    world_free(w);
}

/* The device begins a stream's next kernel when the one before has ended. By then another stream's
 * has begun, however many were called before it. */
Test(streams, take_turns_when_only_one_has_room)
{
    struct world *w = capped(100, 32);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING),
        c = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 40; i++)
        launch(w, a, 1000);
    for (int i = 0; i < 2; i++) {
        launch(w, b, 1000);
        launch(w, c, 1000);
    }
    /* The first one went at once, without taking a turn. */
    static const char turns[] = "aabcabcaaaa";
    for (const char *turn = turns; *turn; turn++) {
        int of = *turn == 'a' ? a : *turn == 'b' ? b : c;
        dispatcher_looks(w);
        cr_assert_eq(in_device(w, of), 1, "%s", turn);
        cr_assert(device_step(w, of), "%s", turn);
    }
    settle(w);
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

/* Now and then a command of another stream goes. */
Test(streams, higher_priority_takes_no_turns_with_lower)
{
    struct world *w = capped(100, 32);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream_of_priority(w, -5);
    for (int i = 0; i < 12; i++)
        launch(w, a, 1000);
    for (int i = 0; i < 12; i++)
        launch(w, b, 1000);
    uint32_t went_a = 0, went_b = 0;
    while (went_b < 12) {
        dispatcher_looks(w);
        bool is_b = in_device(w, b) != 0;
        cr_assert(device_step(w, is_b ? b : a));
        went_a += !is_b;
        went_b += is_b;
    }
    cr_expect_leq(went_a, 3, "%u", went_a);
    settle(w);
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

/* All commands were called before the first of them went. */
Test(streams, take_turns_when_all_commands_are_buffered)
{
    struct world *w = capped(100, 32);
    int of[3];
    uint32_t went[3] = {0};
    for (int i = 0; i < 3; i++)
        of[i] = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 3; i++)
        for (int n = 0; n < 12; n++)
            launch(w, of[i], 1000);
    for (int turn = 0; turn < 24; turn++) {
        int i = 0;
        dispatcher_looks(w);
        while (i < 3 && in_device(w, of[i]) == 0)
            i++;
        cr_assert_lt(i, 3);
        cr_assert(device_step(w, of[i]));
        went[i]++;
        cr_assert(turn < 3 ||
                      (went[i] <= went[0] + 1 && went[i] <= went[1] + 2 && went[i] <= went[2] + 2),
                  "turn %d: %u %u %u", turn, went[0], went[1], went[2]);
    }
    settle(w);
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

/* As many go as fit natively: four of a quarter each. */
Test(streams, blocks_convert_to_device_parts_rounded_up)
{
    cr_expect_eq(vhq_parts(54, 216), VHQ_PARTS / 4);
    cr_expect_eq(vhq_parts(108, 216), VHQ_PARTS / 2);
    cr_expect_eq(vhq_parts(55, 216), VHQ_PARTS / 4 + 1);
    cr_expect_eq(vhq_parts(1, 216), 1);
    cr_expect_eq(vhq_parts(215, 216), VHQ_PARTS);
    cr_expect_eq(vhq_parts(500, 216), VHQ_PARTS);
}

/* Sets the time since which no client above holds. */
static void nobody_since(struct world *w, uint64_t ns)
{
    pthread_mutex_lock(&w->set->lock);
    w->set->gaps = (struct gaps){.hold = &w->stream[0].hold,
                                 .since = &w->stream[0].hold_since,
                                 .over_ns = ns,
                                 .seen_ns = ns};
    pthread_mutex_unlock(&w->set->lock);
}

/* Launches two long commands in each of four streams; no two of one stream may be in flight. */
static void long_side_by_side(bool somebody_rests, const char *in)
{
    const int eighths[] = {2, 2, somebody_rests ? 4 : 1, 1};
    struct world *w = capped(100, 32);
    int of[4];
    for (int i = 0; i < 4; i++)
        of[i] = world_stream(w, VHQ_NONBLOCKING);
    nobody_since(w, somebody_rests ? 1 : clock_ns());
    for (int i = 0; i < 4; i++) {
        launch_part(w, of[i], 3000, eighths[i]);
        launch_part(w, of[i], 3000, 1);
    }
    dispatcher_looks(w);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(in_device(w, of[i]), (uint32_t)(in[i] - '0'), "%d", i);
    device_step(w, of[0]);
    nobody_since(w, somebody_rests ? 1 : clock_ns());
    dispatcher_looks(w);
    uint32_t n = 0;
    for (int i = 0; i < 4; i++) {
        cr_assert_leq(in_device(w, of[i]), 1, "%d", i);
        n += in_device(w, of[i]);
    }
    cr_assert_eq(n, somebody_rests ? 4 : 3, "%u", n);
    settle(w);
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

/* However long they are, a client above that comes and goes finds half of the device free. */
Test(streams, long_commands_fill_half_the_device_after_recent_hold)
{
    long_side_by_side(false, "1100");
}

/* All of them end with the longest. */
Test(streams, long_commands_fill_the_device_long_after_a_hold)
{
    long_side_by_side(true, "1110");
}

/* These kernels have one multiprocessor each: the device has room for all of them. */
Test(streams, narrow_commands_do_not_wait_for_each_other)
{
    struct world *w = capped(200, 32);
    for (int i = 0; i < 16; i++) {
        struct call c = {
            .stream = world_stream(w, VHQ_NONBLOCKING), .est_ns = 200 * 1000, .parts = 1};
        cr_assert(w->command[world_call(w, &c)].inlined, "of stream %d", i);
    }
    cr_assert_eq(atomic_load(&w->set->area_ns), 16 * 200 * 1000 / VHQ_PARTS);
    device_finish(w);
    settle(w);
    world_free(w);
}

/* Microseconds from now to the next look of a dispatcher that the cap blocks. */
static uint64_t due_in_us(struct world *w)
{
    dispatcher_is_blocked(w);
    pthread_mutex_lock(&w->set->lock);
    w->set->waits = 0; /* the next look is not half-way */
    uint64_t now = clock_ns(), due_ns = blocked_wake_ns(w->set, 0, now);
    pthread_mutex_unlock(&w->set->lock);
    return (due_ns - now) / 1000;
}

Test(streams, next_look_is_when_first_stream_has_room)
{
    struct world *w = capped(200, 32);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    launch_part(w, a, 400, 1);
    launch_part(w, a, 400, 1);
    cr_assert_eq(due_in_us(w), 200, "and not 300: a look for each budget");
    launch_part(w, b, 160, 1);
    launch_part(w, b, 160, 1);
    WAIT_FOR(due_in_us(w) == 60);
    clock_advance(61 * 1000);
    WAIT_FOR(in_device(w, b) == 2);
    cr_assert_eq(in_device(w, a), 1);
    device_finish(w);
    settle(w);
    world_free(w);
}

/* A stream has nothing to do for want of a look, however busy the other one is. */
Test(streams, idle_stream_beside_busy_one_hastens_looks)
{
    struct world *w = capped(200, 32);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    launch_part(w, a, 1200, 1);
    launch_part(w, a, 1200, 1);
    launch_part(w, b, 160, 1);
    launch_part(w, b, 160, 1);
    WAIT_FOR(due_in_us(w) == 60);
    cr_assert_eq(pace(w), 256);
    pthread_mutex_lock(&w->set->lock); /* else the dispatcher looks between the two */
    device_step(w, b);
    clock_advance(70 * 1000);
    pthread_mutex_unlock(&w->set->lock);
    WAIT_FOR(in_device(w, b) == 1 && submitted_count(w) == 3);
    cr_assert_lt(pace(w), 256);
    device_finish(w);
    settle(w);
    world_free(w);
}
