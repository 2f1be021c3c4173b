/*
 * gate.c - where gates go, and how deep the cap is because of them. The clock is stopped: only what
 * the test completes leaves the device.
 */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

/* A world with gates and a client above: 100 us between two gates, 16 x 200 us in flight. */
static _Atomic uint32_t gates, above, rivals = 1, shift;
static struct world *gated(void)
{
    clock_freeze();
    atomic_store(&gates, 1);
    atomic_store(&above, 1);
    return world_new(&(struct vhq_config){.budget_us = 200,
                                          .depth = 4,
                                          .above = &above,
                                          .rivals = &rivals,
                                          .gates = &gates,
                                          .shift = &shift});
}

static void end(struct world *w)
{
    hold_all(w, false);
    device_start(w, 1);
    vhq_set_sync(w->set, false);
    device_stop(w);
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

static uint32_t in_device(struct world *w, int stream)
{
    return atomic_load(&w->stream[stream].submitted) - atomic_load(&w->stream[stream].completed);
}

/* Commands of `stream` in the device between its n-th gate and the one before. */
static int between_gates(struct world *w, int stream, int n)
{
    struct stream *s = &w->stream[stream];
    int commands = 0;
    for (uint32_t i = 0; i < s->tail; i++) {
        if (s->work[i].gate && n-- == 0)
            return commands;
        commands = s->work[i].gate ? 0 : commands + (s->work[i].command != NONE);
    }
    return -1;
}

Test(gate, follows_each_half_budget_of_estimated_work)
{
    struct world *w = gated();
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 21; i++)
        launch(w, a, 20);
    cr_assert_eq(w->gate_calls, 4, "%d", w->gate_calls);
    for (int n = 0; n < 4; n++)
        cr_assert_eq(between_gates(w, a, n), 5);
    end(w);
}

Test(gate, goes_before_next_command_not_after_last)
{
    struct world *w = gated();
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 500);
    world_call(w, &(struct call){.stream = a, .flags = VHQ_UNCOUNTED});
    cr_assert_eq(w->gate_calls, 0);
    launch(w, a, 500);
    cr_assert_eq(w->gate_calls, 1);
    cr_assert_eq(between_gates(w, a, 0), 2); /* behind the free stream's command, too */
    end(w);
}

/* At a gate the device would switch to the other process, for a slice. */
Test(gate, gives_way_to_strict_cap_beside_time_slices_of_others)
{
    struct world *w = gated();
    int a = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&shift, VHQ_SHIFT_SLICED);
    for (int i = 0; i < 100; i++)
        launch(w, a, 50);
    cr_expect_eq(w->gate_calls, 0, "%d", w->gate_calls);
    cr_expect_leq(in_device(w, a), 4, "200 us: %u", in_device(w, a));
    atomic_store(&shift, 0);
    device_finish(w);
    dispatcher_looks(w);
    cr_expect_gt(w->gate_calls, 0);
    end(w);
}

Test(gate, relaxes_the_cap)
{
    struct world *w = gated();
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 100; i++)
        launch(w, a, 10);
    WAIT_FOR(in_device(w, a) == 100); /* 1 ms, with a budget of 200 us and a depth of 4 */
    end(w);
}

/* A long command makes the distance between gates short, and that bounds a wait. As much as before
 * stays in flight; otherwise each thread that comes late would let the device run dry. */
Test(gate, relaxes_the_cap_even_for_underestimated_commands)
{
    struct world *w = gated();
    struct vhq_stats stats;
    int a = world_stream(w, VHQ_NONBLOCKING);
    vhq_set_stats(w->set, &stats);
    clock_advance(1000);
    for (int i = 0; i < 2; i++)
        launch(w, a, 120); /* the second has a gate in front, which marks the first */
    clock_advance(1200 * 1000);
    vhq_set_stats(w->set, &stats);
    device_finish(w);
    vhq_set_stats(w->set, &stats);
    pthread_mutex_lock(&w->set->lock);
    cr_expect_gt(w->set->scale, 4 * SCALE_ONE, "%u", w->set->scale);
    pthread_mutex_unlock(&w->set->lock);
    for (int i = 0; i < 100; i++)
        launch(w, a, 50);
    dispatcher_looks(w);
    cr_expect_geq(in_device(w, a), 15, "%u", in_device(w, a));
    cr_expect_eq(between_gates(w, a, 3), 1); /* a gate in front of each */
    end(w);
}

Test(gate, hold_stops_work_already_in_flight)
{
    struct world *w = gated();
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 40; i++)
        launch(w, a, 20);
    cr_assert_eq(in_device(w, a), 40);
    device_step(w, a);
    hold_all(w, true);
    device_finish(w);
    cr_assert_eq(atomic_load(&w->stream[a].completed), 5);
    hold_all(w, false);
    device_finish(w);
    cr_assert_eq(atomic_load(&w->stream[a].completed), 40);
    end(w);
}

Test(gate, distance_grows_with_only_rivals)
{
    struct world *w = gated();
    int a = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&above, 0);
    for (int i = 0; i < 21; i++)
        launch(w, a, 100);
    cr_assert_eq(w->gate_calls, 2);
    end(w);
}

Test(gate, concurrent_streams_share_the_distance)
{
    struct world *w = gated();
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    struct vhq_stats stats;
    launch(w, a, 10);
    launch(w, b, 10);
    vhq_set_stats(w->set, &stats); /* a look: both are known to be in flight */
    for (int i = 0; i < 21; i++)
        launch(w, i % 2 ? a : b, 50);
    cr_assert_eq(w->gate_calls, 19, "%d", w->gate_calls);
    end(w);
}

/* Two commands of 300 us with a gate between them are in the device in `a`; `b` gets one more. */
static uint32_t beside_long_ones(struct world *w, uint32_t eighths, uint32_t flags)
{
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    struct call c = {.stream = a, .est_ns = 300000, .eighths = eighths, .flags = flags};
    struct vhq_stats stats;
    world_call(w, &c);
    world_call(w, &c);
    vhq_set_stats(w->set, &stats); /* a look: it is known to be in flight */
    cr_assert_eq(in_device(w, a), 2);
    c.stream = b;
    world_call(w, &c);
    dispatcher_looks(w);
    return in_device(w, b);
}

Test(gate, full_device_long_command_blocks_other_streams)
{
    struct world *w = gated();
    cr_expect_eq(beside_long_ones(w, 8, 0), 0);
    end(w);
}

Test(gate, long_commands_that_fit_together_go_in_parallel)
{
    struct world *w = gated();
    cr_expect_eq(beside_long_ones(w, 4, 0), 1);
    end(w);
}

Test(gate, self_gated_graph_does_not_block_other_streams)
{
    struct world *w = gated();
    cr_expect_eq(beside_long_ones(w, 8, VHQ_GATED), 1);
    end(w);
}

Test(gate, never_separates_overlapping_commands)
{
    struct world *w = gated();
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 500);
    for (int i = 0; i < 5; i++)
        world_call(w, &(struct call){.stream = a, .flags = VHQ_OVERLAPS, .est_ns = 500000});
    device_start(w, 1); /* no gate: the strict cap lets them in one by one */
    WAIT_FOR(submitted_count(w) == 6);
    cr_assert_eq(w->gate_calls, 0);
    launch(w, a, 500);
    vhq_drain(w->stream[a].q, false, false);
    cr_assert_eq(w->gate_calls, 1);
    device_stop(w);
    end(w);
}

Test(gate, refusing_stream_is_under_strict_cap)
{
    struct world *w = gated();
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    w->refuse_gates = true;
    for (int i = 0; i < 40; i++)
        launch(w, a, 60);
    for (int i = 0; i < 5; i++) { /* the dispatcher has been looking */
        world_call(w, &(struct call){.stream = b, .flags = VHQ_UNCOUNTED | VHQ_MUST_BUFFER});
        vhq_drain(w->stream[b].q, false, false);
    }
    cr_assert_leq(in_device(w, a), 4, "%u", in_device(w, a));
    cr_assert_gt(w->mark_calls, 0);
    pthread_mutex_lock(&w->lock);
    w->refuse_gates = false;
    pthread_mutex_unlock(&w->lock);
    device_start(w, 1);
    WAIT_FOR(submitted_count(w) == 45);
    device_stop(w);
    struct vhq_stats stats;
    vhq_get_stats(w->stream[a].q, &stats);
    cr_assert_gt(stats.gates, 0);
    end(w);
}

Test(gate, is_never_placed_while_switched_off)
{
    struct world *w = gated();
    int a = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&gates, 0);
    device_start(w, 1);
    for (int i = 0; i < 50; i++)
        launch(w, a, 60);
    vhq_drain(w->stream[a].q, false, false);
    cr_assert_eq(w->gate_calls, 0);
    device_stop(w);
    end(w);
}

Test(gate, never_lacks_room_for_its_marker)
{
    struct world *w = gated();
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 200; i++)
        launch(w, a, 100);
    struct vhq_stats stats;
    device_start(w, 7);
    vhq_drain(w->stream[a].q, false, false);
    device_stop(w);
    vhq_get_stats(w->stream[a].q, &stats);
    cr_assert_eq(stats.gates, 199, "%lu",
                 (unsigned long)stats.gates); /* in front of each but one */
    end(w);
}

static _Atomic bool synced;

static void *syncs(void *arg)
{
    vhq_sync(arg, false);
    atomic_store(&synced, true);
    return NULL;
}

/* However long that is. The driver is polled, so it is seen that the thread looks and goes on
 * waiting. */
Test(gate, sync_waits_behind_a_closed_gate)
{
    struct world *w = gated();
    int a = world_stream_polled(w, VHQ_NONBLOCKING), polls;
    pthread_t thread;
    for (int i = 0; i < 40; i++)
        launch(w, a, 20);
    cr_assert_eq(in_device(w, a), 40);
    hold_all(w, true);
    device_start(w, 3);
    WAIT_FOR(atomic_load(&w->stream[a].completed) == 5);
    polls = atomic_load(&w->polls);
    pthread_create(&thread, NULL, syncs, w->stream[a].q);
    for (int i = 0; i < 3; i++) {
        WAIT_FOR(atomic_load(&synced) || atomic_load(&w->polls) > polls + 2);
        cr_assert_not(atomic_load(&synced));
        clock_advance(2 * GUARD_MS * NS_PER_MS);
        polls = atomic_load(&w->polls);
    }
    cr_assert_eq(atomic_load(&w->stream[a].completed), 5);
    hold_all(w, false);
    pthread_join(thread, NULL);
    cr_assert_eq(atomic_load(&w->stream[a].completed), 40);
    device_stop(w);
    end(w);
}

static bool dispatcher_is_blocked(struct world *w)
{
    pthread_mutex_lock(&w->set->lock);
    bool blocked = w->set->blocked_since_ns != 0;
    pthread_mutex_unlock(&w->set->lock);
    return blocked;
}

/* Behind a closed gate there is no progress, but that is no reason for the cap to give way. */
Test(gate, hold_time_does_not_trigger_progress_guard)
{
    struct world *w = gated();
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 200; i++)
        launch(w, a, 100);
    dispatcher_looks(w);
    WAIT_FOR(dispatcher_is_blocked(w));
    uint32_t full = in_device(w, a);
    atomic_store(&w->stream[a].hold, 1);
    dispatcher_looks(w);
    clock_advance(10000000000);
    dispatcher_looks(w);
    atomic_store(&w->stream[a].hold, 0);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), full);
    clock_advance(1000000000);
    dispatcher_looks(w); /* else it sleeps for as long as the clock is ahead */
    WAIT_FOR(in_device(w, a) == full + 1);
    end(w);
}
