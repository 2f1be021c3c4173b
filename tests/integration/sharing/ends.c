/*
 * ends.c - best effort is held as long however a service learns that its work is complete. By the
 * device's log; the ways are tried in turn within one run.
 */
#include "tests/integration/gpu.h"
#include "tests/integration/sharing/device_log.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(ends, .init = sandbox_enter, .fini = sandbox_leave);

#define PROGRAM BIN_DIR "/tests/program_ends"
/* With a look at each tick of 10 ms only, the median would be half a tick. */
enum { WORKS = 100000, MOST_US = 250 };

/* When the job's kernels began, and when the service's ended. */
static struct times {
    uint64_t ns[WORKS];
    size_t n;
} begins, ends;

static int take(const struct device_work *w, const void *user)
{
    struct times *t = w->cost_ns > 50000 ? &begins : &ends;

    if (strcmp(w->kind, "kernel") == 0 && t->n < WORKS)
        t->ns[t->n++] = t == &begins ? w->start_ns : w->end_ns;
    return 0;
}

static int by_value(const void *a, const void *b)
{
    return (*(const uint64_t *)a > *(const uint64_t *)b) -
           (*(const uint64_t *)a < *(const uint64_t *)b);
}

static uint64_t next_begin(uint64_t ns)
{
    for (size_t i = 0; i < begins.n; i++)
        if (begins.ns[i] >= ns)
            return begins.ns[i];
    return UINT64_MAX;
}

/* The median time from the end of the service's work to the job's next kernel, in this mode. */
static double gap_us(const char *said, const char *mode)
{
    static uint64_t gaps[WORKS];
    unsigned long from, to, kernels = 0;
    double seconds = 0;
    size_t n = 0;

    for (const char *at = said; (at = strstr(at, mode)); at++) {
        cr_assert_eq(sscanf(at + strlen(mode), "%lu %lu", &from, &to), 2);
        seconds += (double)(to - from) / 1e9;
        for (size_t i = 0; i < ends.n; i++)
            if (ends.ns[i] >= from && ends.ns[i] < to)
                gaps[n++] = next_begin(ends.ns[i]) - ends.ns[i];
        for (size_t i = 0; i < begins.n; i++)
            kernels += begins.ns[i] >= from && begins.ns[i] < to;
    }
    cr_assert_gt(n, 100, "%s", said);
    qsort(gaps, n, sizeof(gaps[0]), by_value);
    printf("%s: %.0f kernels/s, held for %.0f us at the median\n", mode, (double)kernels / seconds,
           (double)gaps[n / 2] / 1e3);
    return clock_steps() ? (double)gaps[n / 2] / 1e3 : 0;
}

static struct process *start(const char *level, const char *what, const char *rounds)
{
    struct process *p = process_start((const char *[]){CUTIN, "run", "--sim", "--priority", level,
                                                       "--", PROGRAM, what, rounds, NULL},
                                      NULL);

    cr_assert(process_says(p, "ready", 60), "%s", process_err(p));
    return p;
}

Test(ends, hold_ends_promptly_by_sync_host_function_or_word)
{
    struct process *daemon = daemon_start(), *service, *job;

    device_log_open();
    job = start("be", "job", NULL);
    service = start("rt", "service", "6");
    cr_assert_eq(process_wait(service, 60), 0, "%s", process_err(service));
    process_signal(job, SIGTERM);
    cr_assert_eq(process_wait(job, 60), 0, "%s", process_err(job));
    device_log_count(take, NULL);
    qsort(begins.ns, begins.n, sizeof(begins.ns[0]), by_value);
    cr_expect_lt(gap_us(process_out(service), "synchronise "), MOST_US);
    cr_expect_lt(gap_us(process_out(service), "host_function "), MOST_US);
    cr_expect_lt(gap_us(process_out(service), "word "), MOST_US);
    process_free(service);
    process_free(job);
    process_free(daemon);
}
