/* shift.c - processes that share the device by the clock. The clock of the tests is stopped. */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

enum { ROUNDS = 200, BUDGET_US = 100 };

static bool has_it(uint32_t place, uint32_t of, uint64_t now)
{
    return shift_from(place, of, SHIFT_BASE_NS, now) <= now;
}

/* Each process finds out by itself which shift it has. */
static void one_has_each_shift(uint32_t of)
{
    bool moves = false;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint32_t first = of, had = 0;
        for (uint32_t i = 0; i < of; i++) {
            uint64_t now = ((round * of + i) * SHIFT_BASE_NS) + SHIFT_BASE_NS / 3;
            uint32_t who = of;
            for (uint32_t place = 0; place < of; place++) {
                if (!has_it(place, of, now))
                    continue;
                cr_assert_eq(who, of, "both %u and %u of %u", who, place, of);
                who = place;
            }
            cr_assert_lt(who, of, "nobody of %u", of);
            first = i == 0 ? who : first;
            had += who;
        }
        cr_assert_eq(had, of * (of - 1) / 2, "each once");
        moves |= first != 0;
    }
    cr_assert(moves, "requests that come at a pace would always meet the same one");
}

Test(shift, each_process_has_exactly_one_per_round)
{
    one_has_each_shift(2);
    one_has_each_shift(3);
    one_has_each_shift(8);
}

Test(shift, recurs_within_two_rounds)
{
    for (uint64_t now = 0; now < ROUNDS * SHIFT_BASE_NS; now += SHIFT_BASE_NS / 7) {
        uint64_t from = shift_from(1, 5, SHIFT_BASE_NS, now);
        cr_assert_gt(from + SHIFT_BASE_NS, now);
        cr_assert_leq(from, now + 2 * 5 * SHIFT_BASE_NS, "within two rounds");
    }
}

static _Atomic uint32_t word;
static struct world *w;
static int a;

static void world_of_two(void)
{
    clock_freeze();
    word = 2 * VHQ_SHIFT_OF;
    w = world_new(&(struct vhq_config){.budget_us = BUDGET_US, .depth = 32, .shift = &word});
    a = world_stream(w, VHQ_NONBLOCKING);
}

static uint32_t in_device(void)
{
    return atomic_load(&w->stream[a].submitted) - atomic_load(&w->stream[a].completed);
}

/* Moves the clock to the middle of a shift that is (or is not) this process's, at least `least`
 * later, in one step: a look on the way would find another shift. */
static void advance_past(uint64_t least, bool own)
{
    uint64_t now = clock_ns(), from = now + least,
             to = from - from % SHIFT_BASE_NS + SHIFT_BASE_NS + SHIFT_BASE_NS / 2;
    while (has_it(0, 2, to) != own)
        to += SHIFT_BASE_NS;
    clock_advance(to - now);
}

static void advance_to(bool own)
{
    advance_past(0, own);
}

static void done(void)
{
    atomic_store(&word, 0);
    device_start(w, 1);
    vhq_set_sync(w->set, false);
    device_stop(w);
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

Test(shift, blocks_all_but_the_process_that_has_it)
{
    world_of_two();
    advance_to(false);
    for (int i = 0; i < 4; i++)
        cr_assert_not(w->command[launch(w, a, BUDGET_US)].inlined);
    dispatcher_looks(w);
    cr_assert_eq(in_device(), 0, "%u", in_device());
    advance_to(true);
    dispatcher_looks(w);
    cr_assert_eq(in_device(), 1, "%u", in_device());
    advance_to(false); /* before there is room */
    device_finish(w);
    dispatcher_looks(w);
    cr_assert_eq(in_device(), 0, "%u", in_device());
    done();
}

/* Moves the clock, in one step, to `left` ns before the end of this or the next own shift. */
static void advance_to_end(uint64_t length, uint64_t left, uint64_t now)
{
    uint64_t from = shift_from(0, 2, length, now);
    clock_advance(from + length - left - clock_ns());
}

Test(shift, long_command_waits_if_remaining_time_is_too_short)
{
    world_of_two();
    const uint64_t length = (uint64_t)SHIFT_BASE_NS << 5;
    word += 5 * VHQ_SHIFT_DOUBLED;
    advance_to_end(length, 600 * 1000, clock_ns());
    cr_assert_not(w->command[launch(w, a, 601)].inlined);
    dispatcher_looks(w);
    cr_assert_eq(in_device(), 0, "%u", in_device());
    advance_to_end(length, 602 * 1000, clock_ns() + 600 * 1000);
    dispatcher_looks(w);
    cr_assert_eq(in_device(), 1, "%u", in_device());
    device_finish(w);
    launch(w, a, 150);
    dispatcher_looks(w);
    cr_assert_eq(in_device(), 1, "at most one and a half budgets: %u", in_device());
    device_finish(w);
    launch(w, a, 10 * 1000);
    dispatcher_looks(w);
    cr_assert_eq(in_device(), 1, "so much is not lost for it: %u", in_device());
    device_finish(w);
    done();
}

/* What was in flight took 16 times as long as estimated. What is left of a shift is compared with
 * estimates without that factor, or its last part would be lost. */
Test(shift, remaining_time_is_compared_with_unscaled_estimate)
{
    world_of_two();
    const uint64_t length = (uint64_t)SHIFT_BASE_NS << 5;
    word += 5 * VHQ_SHIFT_DOUBLED;
    pthread_mutex_lock(&w->set->lock);
    measure_scale(w->set, SCALE_MOST);
    pthread_mutex_unlock(&w->set->lock);
    advance_to_end(length, 5 * 1000 * 1000, clock_ns());
    launch(w, a, 600);
    dispatcher_looks(w);
    cr_assert_eq(in_device(), 1, "%u", in_device());
    device_finish(w);
    done();
}

Test(shift, owner_gets_the_full_budget)
{
    world_of_two();
    advance_to(true);
    for (int i = 0; i < 20; i++)
        launch(w, a, BUDGET_US / 5);
    dispatcher_looks(w);
    cr_assert_eq(in_device(), 5, "%u", in_device());
    done();
}

Test(shift, does_not_restrict_a_single_process)
{
    world_of_two();
    atomic_store(&word, VHQ_SHIFT_OF);
    advance_to(false);
    cr_assert(w->command[launch(w, a, BUDGET_US / 5)].inlined);
    cr_assert(w->command[launch(w, a, BUDGET_US / 5)].inlined);
    done();
}

/* What is in flight may wait for what is buffered, in this process or in one that waits for it. */
Test(shift, guard_ignores_time_of_other_processes)
{
    enum { GUARD_NS = 100 * 1000000, STEP_NS = 100 * 1000 };
    world_of_two();
    advance_to(true);
    for (int i = 0; i < 8; i++)
        launch(w, a, BUDGET_US);
    dispatcher_looks(w);
    uint32_t before = in_device(); /* and it makes no progress */
    for (uint64_t ns = 0; ns < GUARD_NS; ns += STEP_NS) {
        clock_advance(STEP_NS);
        dispatcher_looks(w);
    }
    cr_assert_leq(in_device(), before + 1, "half of that time was another's: %u", in_device());
    before = in_device();
    for (uint64_t ns = 0; ns < 2 * GUARD_NS; ns += STEP_NS) {
        clock_advance(STEP_NS);
        dispatcher_looks(w);
    }
    cr_assert_gt(in_device(), before);
    done();
}

/* Launches commands, and lets them go in three shifts of this process, until no more goes. */
static void launch_until_full(int commands)
{
    advance_to(true);
    for (int i = 0; i < commands; i++)
        launch(w, a, BUDGET_US);
    for (int i = 0; i < 3; i++) {
        advance_to(true);
        dispatcher_looks(w);
    }
}

/* A hold begins in another process's shift. */
Test(shift, hold_in_time_of_another_process_counts_once)
{
    enum { HELD_NS = 60 * 1000000 };
    world_of_two();
    launch_until_full(8);
    cr_assert_neq(w->set->blocked_since_ns, 0);
    advance_to(false);
    dispatcher_looks(w);
    clock_advance(HELD_NS);
    pthread_mutex_lock(&w->set->lock);
    uint64_t held_until = clock_ns();
    blocked_excuse(w->set, held_until - HELD_NS, held_until);
    pthread_mutex_unlock(&w->set->lock);
    advance_to(true);
    dispatcher_looks(w);
    cr_assert_eq(w->set->past.guard_lifts, 0);
    done();
}

/* The guard lets in one of each other stream; in this shift they would all follow at once. */
Test(shift, guard_admits_no_idle_stream_in_time_of_others)
{
    world_of_two();
    int b = world_stream(w, VHQ_NONBLOCKING), c = world_stream(w, VHQ_NONBLOCKING);
    launch_until_full(8);
    int first = launch(w, b, BUDGET_US), second = launch(w, c, BUDGET_US);
    dispatcher_looks(w);
    advance_past(110 * 1000000, true);
    WAIT_FOR(submitted(w, first));
    dispatcher_looks(w);
    advance_to(false);
    cr_assert(device_step(w, b));
    for (int i = 0; i < 4; i++)
        dispatcher_looks(w);
    cr_assert_not(submitted(w, second));
    advance_to(true);
    dispatcher_looks(w);
    WAIT_FOR(submitted(w, second));
    cr_assert_eq(w->set->past.guard_lifts, 1);
    done();
}

/* The guard let in more than there was. What comes later may go, but not in this shift. */
Test(shift, guard_admits_no_later_command_in_time_of_others)
{
    world_of_two();
    launch_until_full(4);
    for (uint32_t in = in_device(); in < 4; in = in_device()) {
        advance_past(110 * 1000000, true);
        WAIT_FOR(in_device() > in);
        dispatcher_looks(w);
    }
    cr_assert_gt(w->set->admits, 0);
    advance_to(false);
    int later = launch(w, a, BUDGET_US);
    dispatcher_looks(w);
    cr_assert_not(submitted(w, later));
    advance_to(true);
    dispatcher_looks(w);
    WAIT_FOR(submitted(w, later));
    done();
}

/* By that the guard tells a long queue from a fault: one command each time, not twice as many. */
Test(shift, progress_of_others_keeps_guard_from_doubling)
{
    word = 0;
    clock_freeze();
    w = world_new(&(struct vhq_config){.budget_us = BUDGET_US, .depth = 32, .shift = &word});
    a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 8; i++)
        launch(w, a, BUDGET_US);
    dispatcher_looks(w);
    clock_advance(60 * 1000);
    WAIT_FOR(in_device() == 2);
    for (uint32_t in = 3; in < 7; in++) {
        dispatcher_looks(w);
        atomic_fetch_add(&word, VHQ_SHIFT_PROGRESS);
        clock_advance(110 * 1000000);
        WAIT_FOR(in_device() == in);
        dispatcher_looks(w);
        cr_assert_eq(in_device(), in, "%u", in_device());
    }
    done();
}
