/*
 * usage.c - how clients' figures add up to a device's time, with pages of the test's own.
 */
enum { PEERS = 3 };
#include "tests/scheduler/peers/made_up.h"

static uint64_t before[PEERS];

static void set_up(void)
{
    peers_make((struct peer){.client = true});
    usage_scan(peer, now);
}

TestSuite(usage, .init = set_up);

/* Reports `gpu_ms` in the next 100 ms, of which `unsure_ms` are unsure. */
static void tells(uint32_t i, uint32_t gpu_ms, uint32_t unsure_ms)
{
    page[i].device[SLOT].counters.gpu_ns += (uint64_t)gpu_ms * MS;
    page[i].device[SLOT].counters.unsure_ns += (uint64_t)unsure_ms * MS;
}

static void look(void)
{
    for (uint32_t i = 0; i < PEERS; i++)
        before[i] = peer[i].device[SLOT].used_ns;
    usage_scan(peer, now += USAGE_SCAN_MS * MS);
}

static void had(uint32_t i, uint32_t ms)
{
    cr_expect_eq((usage_ns(&peer[i].device[SLOT]) - before[i] + MS / 2) / MS, ms,
                 "client %u: %.1f ms", i,
                 (double)(usage_ns(&peer[i].device[SLOT]) - before[i]) / MS);
}

Test(usage, equals_reports_that_fit_the_time)
{
    tells(0, 40, 40);
    tells(1, 60, 0);
    look();
    had(0, 40);
    had(1, 60);
    had(2, 0);
}

Test(usage, of_parallel_clients_adds_up_to_elapsed_time)
{
    tells(0, 90, 45);
    tells(1, 90, 45);
    look();
    had(0, 50);
    had(1, 50);
    tells(0, 100, 90); /* its kernels vary */
    tells(1, 100, 0);
    tells(2, 100, 0);
    look();
    had(0, 5);
    had(1, 48);
    had(2, 48);
}

Test(usage, unsure_time_is_cut_first)
{
    tells(0, 30, 0);
    tells(1, 100, 80);
    look();
    had(0, 30);
    had(1, 70);
}

Test(usage, is_reported_before_next_look)
{
    look();
    tells(0, 7, 7);
    before[0] = peer[0].device[SLOT].used_ns;
    had(0, 7);
    usage_scan(peer, now + MS);
    had(0, 7);
}

/* It counted before this daemon came. */
Test(usage, from_before_daemon_start_does_not_reduce_others)
{
    tells(1, 100000, 1000);
    atomic_store(&page[1].counted_since_ns, 1);
    tells(0, 90, 0);
    look();
    had(0, 90);
    had(1, 100000);
    tells(0, 60, 0);
    tells(1, 40, 0);
    look();
    had(0, 60);
    had(1, 40);
}

/* A question in between is answered with more than there will be: that answer does not go down. */
Test(usage, shown_value_never_decreases)
{
    look();
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t shown[PEERS];

        tells(0, 90, 45);
        tells(1, 90, 45);
        for (uint32_t k = 0; k < PEERS; k++)
            shown[k] = usage_ns(&peer[k].device[SLOT]);
        look();
        for (uint32_t k = 0; k < PEERS; k++)
            cr_assert_geq(usage_ns(&peer[k].device[SLOT]), shown[k], "client %u, look %u", k, i);
    }
    cr_expect_leq(usage_ns(&peer[0].device[SLOT]), 20 * 50ull * MS + 40 * MS);
}
