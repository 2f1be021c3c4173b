/*
 * lifetimes.c - what a process that lives for some milliseconds pays for the library at its start
 * and at its end, on the stepped clock: it shows what sleeps, or waits for a sleeping thread.
 */
#include "tests/integration/gpu.h"
#include "tests/integration/sharing/device_log.h"

#include <criterion/criterion.h>
#include <stdio.h>

TestSuite(lifetimes, .init = sandbox_enter, .fini = sandbox_leave);

enum { TIMES = 5, MOST_US = 3000 };

/* The mean life of a process that works for two milliseconds. */
static double life_us(const char *preload)
{
    uint64_t from = device_now_ns();

    for (int i = 0; i < TIMES; i++) {
        struct process *p = process_run(
            (const char *[]){EXAMPLE("be_training"), "--steps", "1", "--batch", "1", NULL},
            (const char *[]){SIMULATOR, preload, NULL}, 60);
        cr_assert_eq(p->status, 0, "%s", process_err(p));
        process_free(p);
    }
    return (double)(device_now_ns() - from) / 1e3 / TIMES;
}

static void costs_little(const char *beside)
{
    double bare = life_us("CUTIN_LOG=error"), ours = life_us(PRELOAD);

    printf("%s: %.0f us, %.0f bare\n", beside, ours, bare);
    if (clock_steps())
        cr_expect_leq(ours, bare + MOST_US, "%s: %.0f us, %.0f bare", beside, ours, bare);
}

Test(lifetimes, library_costs_under_3_ms_without_daemon)
{
    costs_little("without a daemon");
}

Test(lifetimes, library_costs_under_3_ms_beside_idle_daemon)
{
    struct process *daemon = daemon_start();

    costs_little("with a daemon");
    process_free(daemon);
}
