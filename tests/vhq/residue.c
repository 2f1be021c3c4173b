/*
 * residue.c - what the device still has to do, by the estimates, before another process can have
 * it. The clock is stopped.
 */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

static _Atomic uint32_t gates, above = 1, rivals = 1;

static struct world *world(bool gated)
{
    clock_freeze();
    atomic_store(&gates, gated);
    return world_new(&(struct vhq_config){.budget_us = 1000,
                                          .depth = 32,
                                          .above = &above,
                                          .rivals = &rivals,
                                          .gates = gated ? &gates : NULL});
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

static struct vhq_residue residue(struct world *w)
{
    struct vhq_residue r;
    vhq_set_residue(w->set, &r);
    return r;
}

Test(residue, idle_set_has_none)
{
    struct world *w = world(false);
    world_stream(w, VHQ_NONBLOCKING);
    struct vhq_residue r = residue(w);
    cr_expect_not(r.running);
    cr_expect_eq(r.ns, 0);
    end(w);
}

Test(residue, equals_work_of_the_longest_stream)
{
    struct world *w = world(false);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 3; i++)
        launch(w, a, 100);
    launch(w, b, 100);
    struct vhq_residue r = residue(w);
    cr_expect(r.running);
    cr_expect_eq(r.ns, 300 * 1000, "%lu", (unsigned long)r.ns);
    end(w);
}

Test(residue, shrinks_as_oldest_command_runs)
{
    struct world *w = world(false);
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 500);
    clock_advance(200 * 1000);
    cr_expect_eq(residue(w).ns, 300 * 1000, "%lu", (unsigned long)residue(w).ns);
    clock_advance(400 * 1000);
    cr_expect_eq(residue(w).ns, 500 * 1000, "longer than estimated: nobody knows how long");
    end(w);
}

Test(residue, is_zero_once_everything_completed)
{
    struct world *w = world(false);
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 500);
    uint32_t before = residue(w).markers;
    device_finish(w);
    struct vhq_residue r = residue(w);
    cr_expect_not(r.running);
    cr_expect_eq(r.ns, 0);
    cr_expect_eq(r.markers, before + 1);
    end(w);
}

/* The marker at the last gate is complete once the commands before it are, so what is behind it
 * runs only if the gate is open. */
Test(residue, reaches_to_next_gate_and_is_zero_when_stopped)
{
    struct world *w = world(true);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 30; i++)
        launch(w, a, 100);
    cr_assert_gt(w->gate_calls, 1);
    uint64_t all = residue(w).ns;
    cr_expect_leq(all, 500 * 1000, "%lu", (unsigned long)all);
    cr_expect_gt(all, 0);
    hold_all(w, true);
    cr_expect_eq(residue(w).ns, all, "the gate is not reached yet");
    while (device_step(w, a))
        ;
    struct vhq_residue r = residue(w);
    cr_expect_not(r.running, "it stands at the gate");
    cr_expect_eq(r.ns, 0);
    hold_all(w, false);
    cr_expect_gt(residue(w).ns, 0, "it goes on");
    end(w);
}

/* A long command passed its gate before the hold, and nothing stops it. */
Test(residue, includes_command_that_passed_its_gate_before_hold)
{
    struct world *w = world(true);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 30; i++)
        launch(w, a, 100);
    struct vhq *q = w->stream[a].q;
    while (!(q->complete_mark && q->gate_units >> q->complete_mark % UNITS & 1)) {
        cr_assert(device_step(w, a));
        residue(w);
    }
    clock_advance(10 * 1000);
    atomic_store(&w->stream[a].hold_since, clock_ns());
    hold_all(w, true);
    struct vhq_residue r = residue(w);
    cr_expect(r.running);
    cr_expect_gt(r.ns, 0);
    end(w);
}
