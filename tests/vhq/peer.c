/* peer.c - what goes in spite of a hold, because a peer outside the process may wait for it. */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"

enum { PEER_US = 5000, BIT_BOUNDED = 1, BIT_UNBOUNDED = 1 << 4 };

static struct world *w;
static _Atomic uint32_t rings;
static int a, b;

static void open_with(uint32_t peer_us)
{
    clock_freeze();
    w = world_new(&(struct vhq_config){.budget_us = 1000,
                                       .depth = 64,
                                       .peer_us = peer_us,
                                       .unbounded = BIT_UNBOUNDED,
                                       .rings = &rings});
    a = world_stream(w, VHQ_NONBLOCKING);
    b = world_stream(w, VHQ_NONBLOCKING);
}

static void setup(void)
{
    open_with(PEER_US);
}

static void teardown(void)
{
    world_free(w);
}

TestSuite(peer, .init = setup, .fini = teardown);

static void hold(uint32_t word)
{
    atomic_store(&w->stream[a].hold, word);
    atomic_store(&w->stream[b].hold, word);
}

static int ring(int stream)
{
    return world_call(w, &(struct call){.stream = stream, .flags = VHQ_UNCOUNTED | VHQ_PEER});
}

static void time_passes(uint64_t us)
{
    dispatcher_looks(w);
    clock_advance(us * 1000);
    dispatcher_looks(w);
}

static bool finished(int command)
{
    device_finish(w); /* again and again: markers may come late */
    return submitted(w, command);
}

static uint64_t releases(void)
{
    struct vhq_stats st;

    vhq_set_stats(w->set, &st);
    return st.peer_releases;
}

Test(peer, overdue_write_goes_with_only_what_is_ahead)
{
    hold(BIT_BOUNDED);
    int ahead = launch(w, a, 10), first = ring(a), between = launch(w, a, 10), second = ring(a);
    int behind = launch(w, a, 10);

    time_passes(PEER_US - 1);
    cr_assert_not(submitted(w, ahead));
    time_passes(1);
    WAIT_FOR(submitted(w, first));
    dispatcher_looks(w);
    cr_expect(submitted(w, ahead));
    cr_expect_not(submitted(w, between));
    cr_expect_eq(releases(), 1);

    time_passes(PEER_US - 1);
    cr_expect_not(submitted(w, between), "the second write has its own time");
    time_passes(1);
    WAIT_FOR(submitted(w, second));
    time_passes(10 * PEER_US);
    cr_expect_not(submitted(w, behind), "nobody waits for it");
    cr_expect_eq(releases(), 2);
}

Test(peer, overdue_write_takes_its_dependencies_in_other_queues)
{
    hold(BIT_BOUNDED);
    int ahead = launch(w, b, 10);
    int record = world_call(w, &(struct call){.stream = b, .what = RECORD, .flags = VHQ_UNCOUNTED});
    world_call(w, &(struct call){.stream = a, .what = WAIT, .flags = VHQ_UNCOUNTED});
    int write = ring(a), behind = launch(w, b, 10);

    time_passes(PEER_US);
    WAIT_FOR(submitted(w, write));
    dispatcher_looks(w);
    cr_expect(submitted(w, ahead));
    cr_expect(submitted(w, record));
    cr_expect_not(submitted(w, behind));
}

/* Ends the hold for long enough that one command goes. */
static void gap(int command)
{
    atomic_store(&w->run_wait, 1);
    hold(0);
    WAIT_FOR(atomic_load(&w->in_run) == 1);
    hold(BIT_BOUNDED);
    atomic_store(&w->run_wait, 0);
    WAIT_FOR(submitted(w, command));
}

Test(peer, interrupted_holds_do_not_delay_a_write)
{
    int ahead[3];

    hold(BIT_BOUNDED);
    for (int i = 0; i < 3; i++)
        ahead[i] = launch(w, a, 1);
    int write = ring(a);
    for (int i = 0; i < 2; i++) {
        time_passes(PEER_US / 2 - 1);
        gap(ahead[i]);
    }
    dispatcher_looks(w);
    cr_expect_not(submitted(w, ahead[2]));
    time_passes(2);
    WAIT_FOR(submitted(w, write));
    cr_expect(submitted(w, ahead[2]));
}

Test(peer, overdue_write_stays_within_the_budget)
{
    int kernel[3];

    hold(BIT_BOUNDED);
    for (int i = 0; i < 3; i++)
        kernel[i] = launch(w, a, 2000);
    int write = ring(a);
    time_passes(PEER_US);
    WAIT_FOR(submitted(w, kernel[0]));
    dispatcher_looks(w);
    cr_expect_not(submitted(w, kernel[1]), "more than the budget would be in flight");
    device_start(w, 1);
    WAIT_FOR(submitted(w, write));
}

Test(peer, pause_and_application_hold_have_no_bound)
{
    hold(BIT_BOUNDED | BIT_UNBOUNDED);
    int write = ring(a);
    time_passes(10 * PEER_US);
    cr_expect_not(submitted(w, write), "an administrator's pause");
    hold(BIT_BOUNDED);
    vhq_hold(w->stream[a].q);
    time_passes(10 * PEER_US);
    cr_expect_not(submitted(w, write), "the application's own hold");
    vhq_release(w->stream[a].q);
    time_passes(PEER_US);
    WAIT_FOR(submitted(w, write));
}

Test(peer, work_without_writes_stays_held)
{
    hold(BIT_BOUNDED);
    int kernel = launch(w, a, 10);
    time_passes(100 * PEER_US);
    cr_expect_not(submitted(w, kernel));
    cr_expect_eq(releases(), 0);
}

Test(peer, ringing_kernels_go_one_budget_at_a_time)
{
    int kernel[5];

    atomic_store(&rings, 1);
    hold(BIT_BOUNDED);
    for (int i = 0; i < 5; i++)
        kernel[i] = launch(w, a, i < 3 ? 400 : 4000);
    time_passes(PEER_US);
    WAIT_FOR(submitted(w, kernel[1]));
    dispatcher_looks(w);
    cr_expect_not(submitted(w, kernel[2]), "1200 us are more than the budget");
    time_passes(PEER_US);
    WAIT_FOR(finished(kernel[2]));
    dispatcher_looks(w);
    cr_expect_not(submitted(w, kernel[3]));
    time_passes(PEER_US);
    WAIT_FOR(finished(kernel[3]));
    dispatcher_looks(w);
    cr_expect_not(submitted(w, kernel[4]));
    cr_expect_eq(releases(), 3);
}

TestSuite(peer_unbounded, .fini = teardown);

Test(peer_unbounded, write_waits_until_hold_ends)
{
    open_with(0);
    hold(BIT_BOUNDED);
    int write = ring(a);
    time_passes(60000000);
    cr_expect_not(submitted(w, write));
    hold(0);
    dispatcher_looks(w);
    WAIT_FOR(submitted(w, write));
}
