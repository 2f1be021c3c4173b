/*
 * jobs.c - best-effort jobs run, then a real-time service comes: the device's log says what is in
 * its way. On most machines they come in this order; the other one proves less.
 */
#include "tests/integration/gpu.h"
#include "tests/integration/sharing/device_log.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(jobs, .init = sandbox_enter, .fini = sandbox_leave);

enum { MOST_JOBS = 8, WORKS = 400000, BUDGET_US = 200, REQUESTS = 60 };

#define PROGRAM BIN_DIR "/tests/program_jobs"

static struct process *job[MOST_JOBS];

/* Each job has launched a thousand kernels, so the driver has what it takes. */
static void jobs_start(int n, const char *lengths_us, const char *mutant)
{
    const char *preload = mutant ? "LD_PRELOAD=" LIB_DIR "/tests/libcutin-mutants.so" : PRELOAD;

    for (int i = 0; i < n; i++)
        job[i] = process_start((const char *[]){PROGRAM, "be", lengths_us, NULL},
                               (const char *[]){SIMULATOR, preload, mutant, NULL});
    for (int i = 0; i < n; i++)
        cr_assert(process_says(job[i], "launched.", 60), "stderr: %s", process_err(job[i]));
}

static void jobs_end(int n)
{
    for (int i = 0; i < n; i++)
        process_signal(job[i], SIGTERM);
    for (int i = 0; i < n; i++) {
        cr_expect_eq(process_wait(job[i], 60), 0, "stderr: %s", process_err(job[i]));
        cr_expect_not_null(strstr(process_out(job[i]), "right"), "%s", process_out(job[i]));
        process_free(job[i]);
    }
}

/* Runs the service: a kernel per request, after the jobs have settled. Returns its process id. */
static uint64_t service_run(void)
{
    struct process *rt =
        process_run((const char *[]){PROGRAM, "rt", "60", "50", "1", "50", "200", NULL},
                    (const char *[]){PRELOAD, SIMULATOR, "CUTIN_PRIORITY=rt", NULL}, 120);
    uint64_t pid = (uint64_t)rt->pid;

    cr_assert_eq(rt->status, 0, "stderr: %s", process_err(rt));
    process_free(rt);
    return pid;
}

/* ---- the log --------------------------------------------------------------------------------- */

static struct device_work work[WORKS];
static int works;

static int keep_kernel(const struct device_work *w, const void *unused)
{
    if (strcmp(w->kind, "kernel") != 0)
        return 0;
    cr_assert_lt(works, WORKS);
    work[works++] = *w;
    return 1;
}

/* The work of jobs that the driver had, and that had not run, when the service launched `asks`. */
static uint64_t in_the_way_of(const struct device_work *asks)
{
    uint64_t ns = 0;

    for (int i = 0; i < works; i++) {
        const struct device_work *w = &work[i];
        if (w->submit_ns > asks->submit_ns || w->end_ns <= asks->submit_ns || w->pid == asks->pid)
            continue;
        ns += w->start_ns < asks->submit_ns && w->end_ns - asks->submit_ns < w->cost_ns
                  ? w->end_ns - asks->submit_ns
                  : w->cost_ns;
    }
    return ns;
}

static uint64_t found_us[REQUESTS]; /* sorted, for each request */

static int by_length(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* What each request of the service found in its way. On a host that is late a request may come long
 * before it was expected (vhq/gaps.c), so nothing is tested there. */
static void in_the_way(uint64_t service)
{
    int requests = 0;

    works = 0;
    device_log_count(keep_kernel, NULL);
    for (int i = 0; i < works; i++)
        if (work[i].pid == service) {
            cr_assert_lt(requests, REQUESTS);
            found_us[requests++] = clock_steps() ? in_the_way_of(&work[i]) / 1000 : 0;
        }
    cr_assert_eq(requests, REQUESTS);
    qsort(found_us, REQUESTS, sizeof(*found_us), by_length);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static uint64_t service_beside(int jobs, const char *lengths_us, const char *mutant)
{
    struct process *daemon;
    uint64_t service;

    device_log_open();
    daemon = daemon_start();
    jobs_start(jobs, lengths_us, mutant);
    service = service_run();
    jobs_end(jobs);
    process_free(daemon);
    in_the_way(service);
    return service;
}

static void service_finds(int jobs, const char *lengths_us)
{
    service_beside(jobs, lengths_us, NULL);
}

/* The phase in which all began decides how many shifts end when a request comes: then two jobs have
 * a budget each in flight. */
static void finds_one_budget(int jobs)
{
    const uint64_t *most = &found_us[REQUESTS - 1], *but_a_tenth = most - REQUESTS / 10;

    service_finds(jobs, "100");
    cr_expect_leq(*but_a_tenth, BUDGET_US + 100, "%lu us", (unsigned long)*but_a_tenth);
    cr_expect_leq(*most, 2 * BUDGET_US, "%lu us at most", (unsigned long)*most);
}

/* What each job had in the driver, with the others in between, took longer than the guard waits for
 * progress. */
Test(jobs, four_jobs_together_keep_one_budget_in_flight)
{
    finds_one_budget(4);
}

/* They take shifts once the daemon has seen that all are busy. So the work of one job is in the
 * way, or of two between shifts. */
Test(jobs, eight_jobs_together_keep_one_budget_in_flight)
{
    finds_one_budget(MOST_JOBS);
}

/* Estimates are of little use here: the longest kernel takes a millisecond. */
Test(jobs, varying_kernels_leave_at_most_budget_plus_longest)
{
    uint64_t most_us;

    service_finds(1, "500,20,1000,50");
    most_us = found_us[REQUESTS - 1];
    cr_expect_leq(most_us, BUDGET_US + 1000, "%lu us", (unsigned long)most_us);
}

/* ---- dear switches --------------------------------------------------------------------------- */

/* The longest wait of the service's kernels, except for the worst tenth, beside `jobs` jobs of 100
 * us. Contexts have slices of 1,024 us, and a switch takes 150 us. */
static uint64_t waits_us(int jobs, const char *mutant)
{
    uint64_t service, us[REQUESTS];
    int requests = 0;

    setenv("SIMGPU_TIMESLICE_US", "1024", 1);
    setenv("SIMGPU_SWITCH_US", "150", 1);
    service = service_beside(jobs, "100", mutant);
    for (int i = 0; i < works && requests < REQUESTS; i++)
        if (work[i].pid == service)
            us[requests++] = (work[i].start_ns - work[i].submit_ns) / 1000;
    qsort(us, REQUESTS, sizeof(*us), by_length);
    return us[REQUESTS - 1 - REQUESTS / 10];
}

/* One budget and one switch, as beside one job, since shifts leave each job its whole budget. */
Test(jobs, four_jobs_cost_service_no_more_switches_than_one)
{
    uint64_t one_us, four_us, unshifted_us;

    if (!clock_steps())
        cr_skip_test("a busy host is late itself");
    one_us = waits_us(1, NULL);
    four_us = waits_us(4, NULL);
    unshifted_us = waits_us(4, "CUTIN_MUTANT=shifts_unknown");
    cr_expect_leq(four_us, one_us + 150, "%lu us beside four, %lu beside one",
                  (unsigned long)four_us, (unsigned long)one_us);
    cr_expect_gt(unshifted_us, one_us + 300, "%lu us without shifts, %lu beside one",
                 (unsigned long)unshifted_us, (unsigned long)one_us);
}
