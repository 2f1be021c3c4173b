/*
 * quanta.c - which client has the quantum of the policy fair, by pages and a clock of the test's
 * own.
 */
enum { PEERS = 2 };
#include "tests/scheduler/peers/made_up.h"

#include <inttypes.h>

#include "scheduler/policy/policy.h"

static void set_up(void)
{
    peers_make((struct peer){.client = true, .weight = 1, .queues = true});
}

TestSuite(quanta, .init = set_up);

static struct page_counters *of(uint32_t i)
{
    return &page[i].device[SLOT].counters;
}

static bool held(uint32_t i)
{
    return atomic_load(&page[i].device[SLOT].want[0]) & PAGE_BIT_POLICY;
}

/* A millisecond, in which the client that is not held works. `long_ms`: the first one's kernels
 * take so long, which no estimate knows. Returns the index of the one that worked. */
static uint32_t millisecond(uint32_t long_ms)
{
    static uint32_t into;
    uint32_t who = !held(0) ? 0 : 1;

    if (who == 1 || !long_ms) {
        of(who)->gpu_ns += MS;
        of(who)->submitted++;
    } else if (++into == long_ms) {
        of(0)->gpu_ns += MS;
        of(0)->submitted++;
        into = 0;
    }
    policy_tick(peer, &policy_fair, now += MS);
    return who;
}

static uint32_t second_of(uint32_t ms, uint32_t long_ms)
{
    uint32_t second = 0;

    for (uint32_t i = 0; i < ms; i++)
        second += millisecond(long_ms);
    return second;
}

static void both_have_work(void)
{
    of(0)->in_flight = of(1)->in_flight = 1;
    of(0)->waiting = of(1)->waiting = 1;
}

Test(quanta, are_split_evenly_between_two_clients)
{
    both_have_work();
    cr_expect_leq(abs((int)second_of(10000, 0) - 5000), 500);
}

/* A kernel that began in a quantum goes on, so the other client has what is left of the time. */
Test(quanta, unestimated_kernels_are_charged_by_the_clock)
{
    both_have_work();
    cr_expect_geq(second_of(10000, 1500), 3000);
}

Test(quanta, ignore_time_used_at_another_level)
{
    both_have_work();
    peer[0].level = 2;
    for (uint32_t i = 0; i < 20000; i++) {
        of(1)->submitted++;
        millisecond(0);
    }
    peer[0].level = 0;
    cr_expect_leq(second_of(2000, 0), 1200);
}

/* It waits for the host, or for the other one, which is no longer held. The progress guard lets
 * more in behind it. */
Test(quanta, are_denied_to_work_without_progress)
{
    both_have_work();
    for (uint32_t i = 0; i < 50; i++) {
        of(0)->submitted++;
        of(0)->in_flight++;
        second_of(100, UINT32_MAX);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        of(1)->submitted++;
        millisecond(UINT32_MAX);
        cr_assert_not(held(1));
    }
}

/* A client above holds both, by one word of each. */
Test(quanta, are_not_charged_while_both_clients_are_held)
{
    enum { ABOVE = 1u << 20 };
    both_have_work();
    second_of(1000, 0);
    uint64_t used[PEERS] = {peer[0].device[SLOT].memory, peer[1].device[SLOT].memory};
    for (uint32_t i = 0; i < PEERS; i++)
        atomic_fetch_or(&page[i].device[SLOT].hold[0], ABOVE);
    for (uint32_t i = 0; i < 1500; i++)
        policy_tick(peer, &policy_fair, now += MS);
    for (uint32_t i = 0; i < PEERS; i++) {
        /* In units of 16 ns, from bit 8 on: policy_fair.c. */
        uint64_t more_ns = ((peer[i].device[SLOT].memory >> 8) - (used[i] >> 8)) * 16;
        cr_expect_leq(more_ns, 20 * MS, "%u: %" PRIu64, i, more_ns);
    }
}
