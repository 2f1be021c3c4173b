/*
 * leave.c - streams that come and go: what one leaves in flight counts until it has run. The clock
 * moves only when the test says so.
 */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

enum { BUDGET_US = 200, DEPTH = 8 };

static _Atomic uint32_t above;

static struct world *capped(void)
{
    clock_freeze();
    return world_new(&(struct vhq_config){.budget_us = BUDGET_US, .depth = DEPTH});
}

/* Ends a stream as its owner does. True: it is to be destroyed later. */
static bool stream_ends(struct world *w, int stream, bool marks)
{
    bool left = vhq_leave(w->stream[stream].q, marks);
    if (!left)
        vhq_destroy(w->stream[stream].q);
    return left;
}

static uint32_t in_flight(struct world *w)
{
    struct vhq_stats stats;
    vhq_set_stats(w->set, &stats);
    return stats.in_flight_now;
}

static bool waits(struct world *w, int command)
{
    dispatcher_looks(w);
    return !submitted(w, command);
}

Test(leave, work_of_ended_stream_counts_until_complete)
{
    struct world *w = capped();
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, BUDGET_US);
    cr_assert(stream_ends(w, a, true));
    cr_assert(vhq_set_in_flight(w->set));
    int next = launch(w, b, BUDGET_US);
    cr_assert(waits(w, next), "the budget is used up");
    cr_assert(device_step(w, a));
    WAIT_FOR(submitted(w, next));
    cr_assert_not(vhq_in_flight(w->stream[a].q));
    vhq_destroy(w->stream[a].q);
    world_free(w);
}

/* However many streams come, at most two commands are in flight by the estimates: the cap. */
Test(leave, short_lived_streams_together_stay_within_the_cap)
{
    struct world *w = capped();
    uint64_t most = 0;
    for (int i = 0; i < STREAMS_MAX; i++) {
        int s = world_stream(w, VHQ_NONBLOCKING);
        int n = launch(w, s, BUDGET_US);
        for (int j = 0; j < i && waits(w, n); j++)
            device_step(w, j);
        WAIT_FOR(submitted(w, n));
        stream_ends(w, s, true);
        if (w->command[n].flying_ns > most)
            most = w->command[n].flying_ns;
    }
    cr_assert_leq(most, BUDGET_US * 1000, "%lu", (unsigned long)most);
    device_start(w, 1);
    vhq_set_finish(w->set);
    world_free(w);
}

Test(leave, stream_known_complete_ends_without_marker)
{
    clock_freeze();
    struct world *w = world_new_asked(&(struct vhq_config){.budget_us = BUDGET_US});
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 10);
    cr_assert(device_step(w, a));
    cr_assert_not(stream_ends(w, a, true));
    cr_assert_eq(w->mark_calls, 0, "the driver was asked");
    cr_assert_not(vhq_set_in_flight(w->set));
    world_free(w);
}

/* While the process is alone nothing is counted, but a client above may come. */
Test(leave, end_of_stream_marks_its_loose_work)
{
    clock_freeze();
    struct world *w = world_new(&(struct vhq_config){.budget_us = BUDGET_US, .above = &above});
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 1000);
    cr_assert(vhq_loose(w->stream[a].q));
    cr_assert(stream_ends(w, a, true));
    cr_assert_not(vhq_loose(w->stream[a].q));
    atomic_store(&above, 1);
    int next = launch(w, b, 10);
    cr_assert(waits(w, next));
    cr_assert(device_step(w, a));
    WAIT_FOR(submitted(w, next));
    world_free(w);
}

/* A thread's own stream ends with its thread; after that no other thread can name it. */
Test(leave, unmarked_work_counts_for_its_estimated_time)
{
    struct world *w = capped();
    int a = world_stream(w, VHQ_BLOCKING);
    launch(w, a, 40);
    cr_assert(stream_ends(w, a, false));
    cr_assert_eq(w->mark_calls, 0);
    clock_advance(39 * 1000);
    cr_assert_eq(in_flight(w), 1);
    clock_advance(1000);
    cr_assert_eq(in_flight(w), 0);
    cr_assert_not(vhq_set_in_flight(w->set));
    world_free(w);
}

/* Behind markers that are out, it counts at least until those are reached. */
Test(leave, unmarked_work_counts_until_marker_ahead_is_reached)
{
    struct world *w = capped();
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 100);
    launch(w, a, 40);
    cr_assert_eq(w->mark_calls, 1);
    cr_assert(stream_ends(w, a, false));
    clock_advance(1000 * 1000);
    cr_assert_eq(in_flight(w), 2);
    cr_assert(device_step(w, a));
    cr_assert_eq(in_flight(w), 0);
    world_free(w);
}

/* There is room for the last marker when all others are out. */
Test(leave, last_marker_has_room_when_all_others_are_out)
{
    clock_freeze();
    struct world *w = world_new(&(struct vhq_config){.budget_us = 4, .depth = 1024});
    int a = world_stream(w, VHQ_NONBLOCKING), n = 0;
    uint32_t flying = 0;
    for (; w->mark_calls < UNITS; n++) {
        cap_force(w->stream[a].q, load_make(1000, VHQ_PARTS));
        world_call(w, &(struct call){.stream = a, .flags = VHQ_UNCOUNTED});
        cap_sent(w->stream[a].q, 0, load_make(1000, VHQ_PARTS), 0);
    }
    cap_force(w->stream[a].q, load_make(100, VHQ_PARTS));
    cap_sent(w->stream[a].q, 0, load_make(100, VHQ_PARTS), 0);
    cr_assert(cap_markers_full(w->stream[a].q));
    cr_assert(stream_ends(w, a, true));
    cr_assert_eq(w->mark_calls, UNITS + 1);
    while (device_step(w, a))
        flying++;
    cr_assert_eq(in_flight(w), 0);
    cr_assert_not(vhq_in_flight(w->stream[a].q));
    cr_assert_not(vhq_set_in_flight(w->set));
    cr_assert_eq(flying, (uint32_t)n);
    world_free(w);
}

/* The words are freed with the set: nothing reads them any more. */
Test(leave, finished_set_counts_nothing)
{
    struct world *w = capped();
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, BUDGET_US);
    cr_assert(stream_ends(w, a, true));
    device_start(w, 1);
    vhq_set_finish(w->set);
    cr_assert_not(vhq_in_flight(w->stream[a].q));
    cr_assert_not(vhq_set_in_flight(w->set));
    world_free(w);
}
