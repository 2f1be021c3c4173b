/*
 * alone.c - no other process wants the device: nothing is counted, and cutin puts nothing into a
 * stream. A client above comes, and what the driver has is closed off; it leaves, and all is as it
 * was.
 */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

/* In tests of the cap the clock stands: the cap lifts after 100 ms without progress. */
enum { BUDGET_US = 100, DEPTH = 8, MANY = 1000 };

static _Atomic uint32_t above, rivals;
static const struct vhq_config config = {
    .budget_us = BUDGET_US, .depth = DEPTH, .above = &above, .rivals = &rivals};

static uint32_t in_device(struct world *w, int stream)
{
    return atomic_load(&w->stream[stream].submitted) - atomic_load(&w->stream[stream].completed);
}

static void launch_many(struct world *w, int stream)
{
    for (int i = 0; i < MANY; i++)
        cr_assert(w->command[launch(w, stream, 1)].inlined);
}

static void complete(struct world *w, int stream, uint32_t commands)
{
    for (uint32_t i = 0; i < commands; i++)
        cr_assert(device_step(w, stream));
}

Test(alone, loose_commands_are_not_counted_and_get_no_marker)
{
    struct world *w = world_new(&config);
    struct vhq_stats stats;
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 2; i++)
        launch_many(w, a);
    cr_assert_eq(w->mark_calls, 0);
    cr_assert_eq(in_device(w, a), 2 * MANY);
    vhq_set_stats(w->set, &stats);
    cr_assert_eq(stats.submitted, 2 * MANY);
    cr_assert_eq(stats.in_flight_now, 0, "nobody knows");
    cr_assert_leq(stats.gpu_ns, 2ull * MANY * 1000, "no longer than it is there, nor than that");
    cr_assert(vhq_loose(w->stream[a].q));
    world_free(w);
}

/* What the driver has stays bounded: a client above may come at any time. */
Test(alone, loose_work_of_a_stream_is_bounded)
{
    clock_freeze();
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING), n = 2 * LOOSE_MOST_NS / (20 * 1000);
    for (int i = 0; i < n; i++)
        launch(w, a, 20);
    WAIT_FOR(in_device(w, a) >= (uint32_t)n / 2);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), (uint32_t)n / 2, "%u", in_device(w, a));
    cr_assert_eq(w->mark_calls, LOOSE_PART, "%d", w->mark_calls);
    device_start(w, 1);
    WAIT_FOR(submitted(w, n - 1));
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

/* Streams run side by side: no stream waits because of what another one has in the driver. */
Test(alone, stream_at_loose_bound_does_not_block_others)
{
    clock_freeze();
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING),
        c = world_stream(w, VHQ_NONBLOCKING), n = LOOSE_MOST_NS / (20 * 1000),
        part = n / LOOSE_PART;
    for (int i = 0; i < 2 * n; i++)
        launch(w, a, 20);
    for (int i = 0; i < 2 * part; i++)
        launch(w, b, 20);
    int first = launch(w, c, LOOSE_MOST_NS / 1000), next = launch(w, c, 20);
    WAIT_FOR(in_device(w, a) >= (uint32_t)n && in_device(w, b) >= (uint32_t)part);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), (uint32_t)n, "%u", in_device(w, a));
    cr_assert_eq(in_device(w, b), (uint32_t)part, "%u", in_device(w, b));
    cr_assert(submitted(w, first), "however long it is");
    cr_assert_not(submitted(w, next), "its stream has enough");
    complete(w, c, 1);
    WAIT_FOR(submitted(w, next));
    complete(w, b, (uint32_t)part);
    WAIT_FOR(in_device(w, b) == (uint32_t)part);
    cr_assert_eq(in_device(w, a), (uint32_t)n, "it has not got on: %u", in_device(w, a));
    device_start(w, 1);
    vhq_set_sync(w->set, false);
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

/* Each process that shares the device has it for a time slice, and a client that comes waits for
 * what all of them have there. */
Test(alone, loose_bound_shrinks_beside_other_processes)
{
    clock_freeze();
    static _Atomic uint32_t beside;
    struct vhq_config shared = config;
    shared.beside = &beside;
    struct world *w = world_new(&shared);
    int a = world_stream(w, VHQ_NONBLOCKING), n = LOOSE_MOST_NS / (20 * 1000);
    atomic_store(&beside, 3);
    vhq_set_tick(w->set);
    for (int i = 0; i < n; i++)
        launch(w, a, 20);
    uint32_t few = LOOSE_BESIDE_NS / (20 * 1000);
    WAIT_FOR(in_device(w, a) >= few);
    dispatcher_looks(w);
    cr_assert_leq(in_device(w, a), few + LOOSE_PART, "%u", in_device(w, a));
    atomic_store(&beside, 0);
    vhq_set_tick(w->set);
    WAIT_FOR(in_device(w, a) == (uint32_t)n); /* not always in one look */
    device_start(w, 1);
    vhq_set_sync(w->set, false);
    world_free(w);
}

Test(alone, sync_neither_waits_nor_marks)
{
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch_many(w, a);
    vhq_sync(w->stream[a].q, false); /* the device does not run */
    vhq_set_sync(w->set, false);
    cr_assert_eq(w->mark_calls, 0);
    world_free(w);
}

/* One marker closes it off, before the stream's next command; the cap is then as strict as ever. */
Test(alone, client_arrival_marks_loose_work_and_applies_cap)
{
    clock_freeze();
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING), first = MANY;
    launch_many(w, a);
    atomic_store(&above, 1);
    for (int i = 0; i < 20; i++)
        cr_assert_not(w->command[launch(w, a, 1)].inlined);
    dispatcher_looks(w);
    cr_assert_eq(w->mark_calls, 1);
    complete(w, a, MANY - 1);
    dispatcher_looks(w);
    cr_assert_not(submitted(w, first), "how much of it still ran nobody knew");
    complete(w, a, 1);
    WAIT_FOR(in_device(w, a) == DEPTH);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), DEPTH);
    device_start(w, 1);
    vhq_sync(w->stream[a].q, false);
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

/* Until then no other stream gets room. The clock stands: work that has surely run makes room. */
Test(alone, launch_marks_and_awaits_loose_work_of_quiet_streams)
{
    clock_freeze();
    struct world *w = world_new(&config);
    int quiet[3], b = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 3; i++)
        launch_many(w, quiet[i] = world_stream(w, VHQ_NONBLOCKING));
    atomic_store(&above, 1);
    int next = launch(w, b, 1);
    cr_assert_not(w->command[next].inlined);
    WAIT_FOR(atomic_load(&w->mark_calls) == 3);
    for (int i = 0; i < 3; i++) {
        dispatcher_looks(w);
        cr_assert_not(submitted(w, next));
        complete(w, quiet[i], MANY);
    }
    WAIT_FOR(submitted(w, next));
    cr_assert_eq(w->mark_calls, 3);
    world_free(w);
}

Test(alone, tighten_marks_loose_work_once_client_is_above)
{
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch_many(w, a);
    vhq_set_tick(w->set);
    cr_assert_eq(w->mark_calls, 0, "nobody came");
    atomic_store(&above, 1);
    vhq_set_tick(w->set);
    WAIT_FOR(atomic_load(&w->mark_calls) == 1);
    cr_assert_not(vhq_loose(w->stream[a].q));
    dispatcher_looks(w); /* so that it has left the stream that it gave a marker */
    device_finish(w);
    cr_assert(w->command[launch(w, a, 1)].inlined);
    world_free(w);
}

Test(alone, hold_stops_new_commands)
{
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch_many(w, a);
    hold_all(w, true); /* before the process can know which client came */
    int held = launch(w, a, 5);
    dispatcher_looks(w);
    cr_assert_not(submitted(w, held));
    atomic_store(&above, 1);
    device_finish(w);
    dispatcher_looks(w);
    cr_assert_not(submitted(w, held));
    hold_all(w, false);
    WAIT_FOR(submitted(w, held));
    world_free(w);
}

Test(alone, commands_are_loose_again_after_client_leaves)
{
    clock_freeze(); /* else the cap lifts in time, and another marker follows */
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 5; i++) {
        launch_many(w, a);
        atomic_store(&above, 1);
        int next = launch(w, a, 5);
        WAIT_FOR(atomic_load(&w->mark_calls) == i + 1);
        atomic_store(&above, 0);
        vhq_set_configure(w->set, BUDGET_US, DEPTH); /* wakes the dispatcher */
        WAIT_FOR(submitted(w, next) && vhq_set_empty(w->set));
    }
    launch_many(w, a);
    cr_assert_eq(w->mark_calls, 5);
    device_finish(w);
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

Test(alone, settled_commands_need_no_marker)
{
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch_many(w, a);
    uint64_t sent = vhq_sent(w->stream[a].q);
    launch(w, a, 5);
    vhq_note_complete(w->stream[a].q, sent);
    cr_assert(vhq_loose(w->stream[a].q), "there is one more");
    device_finish(w);
    vhq_note_complete(w->stream[a].q, sent + 1);
    cr_assert_not(vhq_loose(w->stream[a].q));
    atomic_store(&above, 1);
    cr_assert(w->command[launch(w, a, 1)].inlined);
    cr_assert_eq(w->mark_calls, 0);
    world_free(w);
}

/* Beside a client above a marker comes only if room is wanted, so none follows the last command. */
Test(alone, settled_last_command_beside_client_needs_no_marker)
{
    struct world *w = world_new(&config);
    struct vhq_stats stats;
    int a = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&above, 1);
    cr_assert(w->command[launch(w, a, 1)].inlined);
    uint64_t sent = vhq_sent(w->stream[a].q);
    cr_assert(vhq_needs_query(w->stream[a].q));
    device_finish(w);
    vhq_note_complete(w->stream[a].q, sent);
    vhq_set_stats(w->set, &stats);
    cr_assert_eq(stats.in_flight_now, 0);
    cr_assert_not(vhq_needs_query(w->stream[a].q));
    cr_assert_eq(w->mark_calls, 0);
    world_free(w);
}

/* With closed gates a thread that asked the driver would wait. */
Test(alone, mark_last_marks_each_stream_once)
{
    struct world *w = world_new(&config);
    struct vhq_stats stats;
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&above, 1);
    cr_assert(w->command[launch(w, a, 1)].inlined);
    cr_assert(w->command[launch(w, b, 1)].inlined);
    cr_assert_eq(w->mark_calls, 0);
    vhq_set_mark_last(w->set);
    dispatcher_looks(w);
    cr_expect_eq(w->mark_calls, 2);
    device_finish(w);
    vhq_set_stats(w->set, &stats);
    cr_expect_eq(stats.in_flight_now, 0);
    launch(w, a, 1);
    dispatcher_looks(w);
    cr_expect_eq(w->mark_calls, 2, "it was for once");
    device_finish(w);
    world_free(w);
}

Test(alone, stream_found_idle_needs_no_marker)
{
    struct world *w = world_new_asked(&config);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    launch_many(w, a);
    device_finish(w);
    atomic_store(&above, 1);
    int next = launch(w, b, 1);
    WAIT_FOR(submitted(w, next));
    cr_assert_eq(w->mark_calls, 0);
    world_free(w);
}

/* A marker in the legacy stream would tie the blocking ones together. */
Test(alone, legacy_stream_is_queried_instead_of_marked)
{
    clock_freeze(); /* else the cap lifts in time */
    struct world *w = world_new_asked(&config);
    int legacy = world_stream(w, VHQ_LEGACY), b = world_stream(w, VHQ_BLOCKING);
    launch_many(w, legacy);
    atomic_store(&above, 1);
    int next = launch(w, b, 1);
    WAIT_FOR(atomic_load(&w->asked) > 3);
    cr_assert_not(submitted(w, next));
    device_finish(w);
    WAIT_FOR(submitted(w, next));
    cr_assert_eq(w->mark_calls, 0);
    world_free(w);
}

Test(alone, rival_arrival_brings_the_relaxed_cap)
{
    clock_freeze();
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING);
    world_stream_beside(w);
    launch_many(w, a);
    atomic_store(&rivals, 1);
    for (int i = 0; i < MANY; i++)
        cr_assert_not(w->command[launch(w, a, 1)].inlined);
    WAIT_FOR(atomic_load(&w->mark_calls) == 1);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), MANY, "there is more of it than that: %u", in_device(w, a));
    complete(w, a, MANY);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), RELAX_DEPTH, "%u", in_device(w, a));
    device_start(w, 1);
    vhq_set_sync(w->set, false);
    device_stop(w);
    for (int i = 0; i < 2 * RIVALS_FACTOR; i++)
        launch(w, a, BUDGET_US);
    dispatcher_looks(w);
    cr_assert_eq(in_device(w, a), RIVALS_FACTOR, "%u", in_device(w, a));
    world_free(w);
}

/* There is no room for a marker: it follows when one of those that are out is complete. */
Test(alone, launch_waits_for_loose_work_with_all_markers_out)
{
    clock_freeze();
    struct world *w = world_new(&(struct vhq_config){.depth = 256, .above = &above});
    int a = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&above, 1);
    for (int i = 0; i < UNITS; i++) {
        launch(w, a, 0);
        cr_assert_eq(cap_mark(w->stream[a].q), MARK_OK);
    }
    cr_assert(cap_markers_full(w->stream[a].q));
    atomic_store(&above, 0);
    launch_many(w, a);
    atomic_store(&above, 1);
    int next = launch(w, a, 1);
    dispatcher_looks(w);
    cr_assert_not(submitted(w, next));
    device_start(w, 1);
    WAIT_FOR(submitted(w, next));
    world_free(w);
}

Test(alone, refused_marker_blocks_no_other_stream)
{
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    launch_many(w, a);
    w->refuse_marks = true;
    atomic_store(&above, 1);
    int next = launch(w, b, 1);
    WAIT_FOR(submitted(w, next));
    world_free(w);
}

/* What is in flight may wait for what is buffered. */
Test(alone, guard_admits_launch_past_stalled_loose_work)
{
    clock_freeze();
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    struct vhq_stats stats;
    for (int i = 0; i < 5; i++)
        launch_many(w, a);
    atomic_store(&above, 1);
    int next = launch(w, b, 1);
    for (int i = 0; i < 4; i++) {
        dispatcher_looks(w);
        cr_assert_not(submitted(w, next));
        clock_advance(30 * 1000000);
    }
    WAIT_FOR(submitted(w, next));
    vhq_set_stats(w->set, &stats);
    cr_assert_eq(stats.guard_lifts, 1);
    world_free(w);
}

/* A process that comes may meet a service that it does not know of yet, with kernels that were
 * never timed. So one command goes at a time (or the next one when it should be nearly over) until
 * enough of them were measured. */
Test(alone, untried_set_is_capped_until_commands_are_measured)
{
    clock_freeze(); /* nothing is nearly over */
    struct vhq_config untried = config;
    untried.untried = untried.expects = true;
    struct world *w = world_new(&untried);
    int a = world_stream(w, VHQ_NONBLOCKING), n = 0;
    world_stream_beside(w);
    for (int i = 0; i < MANY; i++)
        launch(w, a, BUDGET_US / 4);
    while (!vhq_set_alone(w->set)) {
        dispatcher_looks(w);
        uint32_t in = in_device(w, a);
        cr_assert(in <= 2 || vhq_set_alone(w->set), "%u after %d", in, n);
        complete(w, a, 1);
        WAIT_FOR(vhq_set_alone(w->set) || in_device(w, a) > 0);
        cr_assert_leq(++n, 32);
    }
    cr_assert_geq(n, 8);
    WAIT_FOR(in_device(w, a) > 2 * DEPTH);
    world_free(w);
}
