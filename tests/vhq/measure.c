/*
 * measure.c - wrong estimates: what completions say of them, and how much of the cap that leaves.
 * The clock moves only when the test says so, so bounds are exact.
 */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

enum {
    BUDGET_US = 200,
    EST_US = 25,
    PAIR = 2 /* commands of one marker: a quarter of the budget */
};

static struct world *w;
static int a;

static _Atomic uint32_t shift;

static void setup(void)
{
    clock_freeze();
    shift = 0;
    w = world_new(&(struct vhq_config){.budget_us = BUDGET_US, .depth = 256, .shift = &shift});
    a = world_stream(w, VHQ_NONBLOCKING);
}

static void teardown(void)
{
    device_start(w, 1);
    vhq_set_sync(w->set, false);
    device_stop(w);
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

TestSuite(measure, .init = setup, .fini = teardown);

static void look(void)
{
    struct vhq_stats stats;
    vhq_set_stats(w->set, &stats);
}

/* SCALE_ONE, 256, means that estimates are right. */
static uint32_t scale(void)
{
    pthread_mutex_lock(&w->set->lock);
    uint32_t scale = w->set->scale;
    pthread_mutex_unlock(&w->set->lock);
    return scale;
}

static uint32_t in_device(void)
{
    return atomic_load(&w->stream[a].submitted) - atomic_load(&w->stream[a].completed);
}

/* Runs commands with a marker behind them, alone in the device, for `us` microseconds, with a look
 * every 10 us. */
static void take(int commands, uint64_t us)
{
    for (int i = 0; i < commands; i++)
        cr_assert(w->command[launch(w, a, EST_US * PAIR)].inlined);
    for (; us > 0; us -= us < 10 ? us : 10) {
        look();
        clock_advance((us < 10 ? us : 10) * 1000);
    }
    device_finish(w);
    look();
}

/* Buffers commands. Returns how many of them go. */
static uint32_t goes(void)
{
    for (int i = 0; i < 3 * BUDGET_US / EST_US; i++)
        launch(w, a, EST_US);
    dispatcher_looks(w);
    return in_device();
}

Test(measure, accurate_estimates_keep_the_full_budget)
{
    for (int i = 0; i < 20; i++)
        take(1, EST_US * PAIR);
    cr_expect_eq(scale(), SCALE_ONE, "%u", scale());
    cr_expect_eq(goes(), BUDGET_US / EST_US, "%u", in_device());
}

/* As with kernels whose grid does not tell how much they do. */
Test(measure, eightfold_overrun_divides_budget_by_eight)
{
    take(1, 8 * EST_US * PAIR);
    cr_expect(scale() > 7 * SCALE_ONE && scale() <= 8 * SCALE_ONE, "%u", scale());
    cr_expect_eq(goes(), 1, "%u", in_device());
}

/* Each unit takes what the other process's time slice takes, too. */
Test(measure, time_slices_of_others_leave_full_budget)
{
    take(1, 8 * EST_US * PAIR);
    cr_assert_gt(scale(), SCALE_ONE, "%u", scale());
    atomic_store(&shift, VHQ_SHIFT_SLICED);
    for (int i = 0; i < 4; i++)
        take(1, 20 * EST_US * PAIR);
    cr_expect_eq(scale(), SCALE_ONE, "%u", scale());
    cr_expect_eq(goes(), BUDGET_US / EST_US, "%u", in_device());
}

Test(measure, long_commands_outweigh_alternating_short_ones)
{
    for (int i = 0; i < 8; i++) {
        take(1, 16 * EST_US * PAIR);
        take(1, EST_US * PAIR);
        cr_assert_gt(scale(), 10 * SCALE_ONE, "%u", scale());
    }
}

Test(measure, single_long_command_is_forgotten)
{
    take(1, 16 * EST_US * PAIR);
    for (int i = 0; i < 16; i++)
        take(1, EST_US * PAIR);
    cr_expect_leq(scale(), SCALE_ONE + SCALE_ONE / 4, "%u", scale());
}

/* One kernel of eight is long, and no parameter tells which: it must not find eight in flight. */
Test(measure, recurring_long_commands_are_remembered)
{
    for (int i = 0; i < 3; i++) {
        take(1, 16 * EST_US * PAIR);
        for (int short_ones = 0; short_ones < 7; short_ones++)
            take(1, EST_US * PAIR);
    }
    cr_expect_gt(scale(), 8 * SCALE_ONE, "%u", scale());
}

/* Most often a short one runs, and a client above waits for its rest in any case. */
static uint32_t goes_where_long_ones_come_again(uint64_t us)
{
    for (int i = 0; i < 3; i++) {
        take(1, 16 * EST_US * PAIR);
        take(1, EST_US * PAIR);
    }
    for (int i = 0; i < 4; i++)
        launch(w, a, us);
    dispatcher_looks(w);
    return in_device();
}

Test(measure, fitting_command_queues_despite_recurring_long_ones)
{
    cr_expect_eq(goes_where_long_ones_come_again(BUDGET_US / 16), 2, "%u", in_device());
}

Test(measure, possibly_overlong_command_does_not_queue)
{
    cr_expect_eq(goes_where_long_ones_come_again(BUDGET_US / 8), 1, "%u", in_device());
}

Test(measure, long_commands_are_forgotten_after_many_short_ones)
{
    for (int i = 0; i < 3; i++) {
        take(1, 16 * EST_US * PAIR);
        take(1, EST_US * PAIR);
    }
    for (int i = 0; i < 64 + 24; i++)
        take(1, EST_US * PAIR);
    cr_expect_leq(scale(), SCALE_ONE + SCALE_ONE / 4, "%u", scale());
}

/* There was no look while it ran: it may have been complete for long. */
Test(measure, late_look_does_not_count_as_long_kernel)
{
    launch(w, a, EST_US * PAIR);
    look();
    clock_advance(10 * 1000 * 1000);
    device_finish(w);
    look();
    cr_expect_eq(scale(), SCALE_ONE, "%u", scale());
}

static void take_held(uint64_t held_us)
{
    launch(w, a, EST_US * PAIR);
    look();
    clock_advance(10 * 1000);
    atomic_store(&w->stream[a].hold_since, clock_ns());
    atomic_store(&w->stream[a].hold, 1);
    for (uint64_t us = 0; us < held_us; us += 100) {
        look();
        clock_advance(100 * 1000);
    }
    atomic_store(&w->stream[a].hold, 0);
    look();
    clock_advance(30 * 1000);
    look();
    device_finish(w);
    look();
}

Test(measure, hold_does_not_count_as_long_kernel)
{
    take_held(1000);
    cr_expect_eq(scale(), SCALE_ONE, "%u", scale());
    take(1, 4 * EST_US * PAIR);
    cr_expect_gt(scale(), 3 * SCALE_ONE, "what came after it counts: %u", scale());
}

/* Commands behind a host function are not measured while that is in the stream. */
Test(measure, host_function_does_not_count_as_long_kernel)
{
    world_call(w, &(struct call){.stream = a, .flags = VHQ_UNCOUNTED});
    take(2, 100 * EST_US * PAIR);
    cr_expect_eq(scale(), SCALE_ONE, "%u", scale());
    world_call(w, &(struct call){.stream = a, .what = RECORD});
    take(1, 4 * EST_US * PAIR);
    cr_expect_gt(scale(), 3 * SCALE_ONE, "a record waits for nothing: %u", scale());
}

Test(measure, stream_below_another_priority_is_not_measured)
{
    int high = world_stream_of_priority(w, -5);
    take(1, 8 * EST_US * PAIR);
    cr_expect_eq(scale(), SCALE_ONE, "%u", scale());
    cr_expect_eq(atomic_load(&w->stream[high].submitted), 0);
}

/* With several streams side by side, each waits for all that the device has. */
Test(measure, time_shared_with_other_streams_is_no_overrun)
{
    int b = world_stream(w, VHQ_NONBLOCKING);
    launch(w, b, EST_US * PAIR);
    launch(w, b, EST_US * PAIR);
    launch(w, a, EST_US * PAIR);
    for (int us = 0; us < 3 * EST_US * PAIR; us += 10) {
        look();
        clock_advance(10 * 1000);
    }
    device_finish(w);
    look();
    cr_expect_eq(scale(), SCALE_ONE, "%u", scale());
}

/* A fast device, or estimates taken while others had the device: more goes while the process is
 * alone, but no more than the budget beside a client above. */
Test(measure, fast_commands_raise_only_the_loose_bound)
{
    for (int i = 0; i < 40; i++)
        take(1, EST_US / 10);
    cr_expect_lt(scale(), SCALE_ONE / 4, "%u", scale());
    cr_expect_gt(peek(w->set->loose_most_ns), 4 * LOOSE_MOST_NS);
    cr_expect_eq(goes(), BUDGET_US / EST_US, "%u", in_device());
}

Test(measure, untried_set_admits_one_command_at_a_time)
{
    struct world *untried =
        world_new(&(struct vhq_config){.budget_us = BUDGET_US, .untried = true});
    int b = world_stream(untried, VHQ_NONBLOCKING);
    world_stream_beside(untried); /* so there is none, whatever is complete */
    cr_expect(untried->command[launch(untried, b, EST_US)].inlined);
    for (int i = 0; i < 20; i++)
        cr_expect_not(untried->command[launch(untried, b, EST_US)].inlined);
    for (int i = 0; i < 20; i++) {
        dispatcher_looks(untried);
        cr_expect_eq(submitted_count(untried), i + 1, "%d", submitted_count(untried));
        cr_expect(device_step(untried, b));
    }
    device_start(untried, 1);
    vhq_set_sync(untried->set, false);
    world_free(untried);
}
