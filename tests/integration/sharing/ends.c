/*
 * ends.c - what best effort gets does not depend on how a service learns that its work is complete.
 * By the device's log, the ways in turn within one run.
 */
#include "tests/integration/gpu.h"
#include "tests/integration/sharing/device_log.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

TestSuite(ends, .init = sandbox_enter, .fini = sandbox_leave, .timeout = 300);

#define PROGRAM BIN_DIR "/tests/program_ends"

struct span {
    uint64_t from_ns, to_ns;
};

static int is_job(const struct device_work *w, const void *user)
{
    const struct span *span = user;

    return strcmp(w->kind, "kernel") == 0 && w->cost_ns > 50000 && w->start_ns >= span->from_ns &&
           w->start_ns < span->to_ns;
}

/* Kernels of the job a second, while the service learned it that way. */
static double rate(const char *said, const char *mode)
{
    size_t length = strlen(mode);
    double kernels = 0, seconds = 0;
    struct span span;

    for (const char *at = said; (at = strstr(at, mode)); at += length)
        if (sscanf(at + length, "%lu %lu", &span.from_ns, &span.to_ns) == 2) {
            kernels += device_log_count(is_job, &span);
            seconds += (double)(span.to_ns - span.from_ns) / 1e9;
        }
    cr_assert_gt(seconds, 0, "no %s in %s", mode, said);
    return kernels / seconds;
}

static struct process *start(const char *level, const char *what, const char *rounds)
{
    struct process *p = process_start((const char *[]){CUTIN, "run", "--sim", "--priority", level,
                                                       "--", PROGRAM, what, rounds, NULL},
                                      NULL);

    cr_assert(process_says(p, "ready", 60), "%s", process_err(p));
    return p;
}

/* With a look every 10 ms alone the last two are 0.35 of the first. */
Test(ends, best_effort_gets_as_much_however_a_service_learns_of_its_completion)
{
    struct process *daemon = daemon_start(), *service, *job;
    double told, called, polled;

    device_log_open();
    job = start("be", "job", NULL);
    service = start("rt", "service", "6");
    cr_assert_eq(process_wait(service, 60), 0, "%s", process_err(service));
    process_signal(job, SIGTERM);
    cr_assert_eq(process_wait(job, 60), 0, "%s", process_err(job));
    told = rate(process_out(service), "synchronise ");
    called = rate(process_out(service), "host_function ");
    polled = rate(process_out(service), "word ");
    printf("kernels/s: %.0f synchronise, %.0f host function, %.0f word\n", told, called, polled);
    cr_expect_gt(called, 0.8 * told, "%.0f of %.0f", called, told);
    cr_expect_gt(polled, 0.8 * told, "%.0f of %.0f", polled, told);
    process_free(service);
    process_free(job);
    process_free(daemon);
}
