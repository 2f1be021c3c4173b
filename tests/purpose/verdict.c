/*
 * verdict.c - the judge of cutin-purpose says no where it must, on event logs made by hand.
 */
#include <criterion/criterion.h>

#include "judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MS = 1000000, US = 1000, BUSY = 300 * MS, JOB_PID = 1, OTHER_PID = 2, SERVICE_PID = 3 };

static struct {
    struct workload workload;
    struct record *record[WORKERS];
    struct run run;
    char path[64];
    FILE *log;
    uint64_t end_ns;
} bench;

static void setup(void)
{
    static const pid_t pids[WORKERS] = {[0] = JOB_PID, [1] = OTHER_PID, [SERVICE] = SERVICE_PID};
    bench.workload = (struct workload){.jobs = 1, .ms = 500, .service = {.there = true}};
    for (int i = 0; i < JOBS; i++)
        bench.workload.job[i].end_ms = 1000;
    bench.run = (struct run){.workload = &bench.workload,
                             .log = bench.path,
                             .end_ns = 500 * MS,
                             .budget_us = 200,
                             .slack_us = 100,
                             .stepped = true};
    for (int i = 0; i < WORKERS; i++) {
        if (!pids[i])
            continue;
        struct record *r = bench.record[i] = calloc(1, sizeof(*r));
        r->begun_ns = 1;
        r->per_call[0] = 1;
        r->stream_id[0] = 7;
        bench.run.pid[i] = pids[i];
        bench.run.record[i] = r;
    }
    strcpy(bench.path, "/tmp/verdict.XXXXXX");
    bench.log = fdopen(mkstemp(bench.path), "w");
}

static void teardown(void)
{
    unlink(bench.path);
}

TestSuite(verdict, .init = setup, .fini = teardown);

/* Times are in us after BUSY, when all processes have been there for long enough. */
static void ran_by_name(int pid, const char *kind, const char *name, int64_t submit, int64_t start,
                        int64_t end)
{
    fprintf(bench.log,
            "pid=%d context=1 stream=1 seq=1 kind=%s name=%s submit=%lld start=%lld end=%lld "
            "cost=%lld ran=1 id=7\n",
            pid, kind, name, (long long)(BUSY + submit * US), (long long)(BUSY + start * US),
            (long long)(BUSY + end * US), (long long)((end - start) * US));
}

static void ran(int pid, const char *kind, int64_t submit, int64_t start, int64_t end)
{
    ran_by_name(pid, kind, "x", submit, start, end);
}

/* A graph of two kernels, which wait in the driver until there is room for them. */
static void ran_graph(int64_t launch, int64_t room, int64_t start)
{
    ran_by_name(JOB_PID, "mark", "graph_start", launch, start, start);
    ran(JOB_PID, "kernel", room, start, start + 100);
    ran(JOB_PID, "kernel", room + 1, start + 100, start + 200);
    ran_by_name(JOB_PID, "mark", "graph_end", room + 2, start + 200, start + 200);
}

static void asked(int worker, int64_t at)
{
    struct record *r = bench.record[worker];
    r->call_ns[0][r->calls[0]++] = (uint64_t)(BUSY + at * US);
}

static struct verdict verdict(void)
{
    struct verdict v;
    fclose(bench.log);
    cr_assert_eq(judge(&bench.run, &v), 0);
    return v;
}

Test(verdict, waiting_for_the_running_kernel_is_no_fault)
{
    ran(JOB_PID, "kernel", -10, 0, 1000);
    ran(SERVICE_PID, "kernel", 100, 1050, 1060);
    struct verdict v = verdict();
    cr_assert(v.judged[RULE_wait]);
    cr_expect(!v.failed[RULE_wait]);
    cr_expect_float_eq(v.figure[RULE_wait], 50, 0.01);
    cr_expect(!v.failed[RULE_after]);
}

Test(verdict, waiting_for_kernel_being_switched_to_is_no_fault)
{
    ran(JOB_PID, "kernel", 90, 110, 1110);
    ran(SERVICE_PID, "kernel", 100, 1130, 1140);
    struct verdict v = verdict();
    cr_expect(!v.failed[RULE_wait]);
    cr_expect_float_eq(v.figure[RULE_wait], 20, 0.01);
}

Test(verdict, waiting_for_a_queued_kernel_is_a_fault)
{
    ran(JOB_PID, "kernel", -10, 0, 1000);
    ran(JOB_PID, "kernel", -9, 1000, 2000);
    ran(SERVICE_PID, "kernel", 100, 2000, 2010);
    struct verdict v = verdict();
    cr_expect(v.failed[RULE_wait]);
    cr_expect_float_eq(v.figure[RULE_wait], 1000, 0.01);
}

Test(verdict, waiting_for_a_best_effort_copy_is_a_fault)
{
    ran(JOB_PID, "copy", -10, 0, 1000);
    ran(SERVICE_PID, "copy", 100, 1000, 1010);
    ran(SERVICE_PID, "kernel", 101, 1010, 1020);
    struct verdict v = verdict();
    cr_expect(v.failed[RULE_wait]);
    cr_expect_float_eq(v.figure[RULE_wait], 900, 0.01);
}

Test(verdict, submission_during_a_hold_is_a_fault)
{
    ran(SERVICE_PID, "kernel", 0, 0, 1000);
    ran(JOB_PID, "kernel", 200, 1000, 1100);
    struct verdict v = verdict();
    cr_expect(v.failed[RULE_after]);
    cr_expect_float_eq(v.figure[RULE_after], 1, 0.01);
}

Test(verdict, graph_launched_during_a_hold_counts_once)
{
    bench.record[0]->per_call[0] = 2;
    ran(SERVICE_PID, "kernel", 0, 0, 1000);
    ran_graph(200, 300, 1000);
    struct verdict v = verdict();
    cr_expect_float_eq(v.figure[RULE_after], 1, 0.01);
}

Test(verdict, graph_launched_before_the_hold_is_no_fault)
{
    bench.record[0]->per_call[0] = 2;
    ran(SERVICE_PID, "kernel", 0, 0, 1000);
    ran_graph(-10, 300, 1000);
    cr_expect(!verdict().failed[RULE_after]);
}

Test(verdict, kernel_submitted_behind_earlier_graph_counts)
{
    bench.record[0]->per_call[0] = 2;
    ran(SERVICE_PID, "kernel", 0, 0, 1000);
    ran_graph(-10, -5, 1000);
    ran(JOB_PID, "kernel", 400, 1200, 1300);
    struct verdict v = verdict();
    cr_expect_float_eq(v.figure[RULE_after], 1, 0.01);
}

Test(verdict, late_return_of_best_effort_is_a_fault)
{
    asked(0, 0);
    ran(SERVICE_PID, "kernel", 0, 0, 20);
    ran(JOB_PID, "kernel", 900, 900, 1000);
    struct verdict v = verdict();
    cr_expect(v.failed[RULE_again]);
    cr_expect_float_eq(v.figure[RULE_again], 880, 0.01);
}

Test(verdict, late_return_is_found_behind_100000_kernels)
{
    enum { KERNELS = 100000, LENGTH = 3, END = KERNELS * LENGTH };
    bench.run.end_ns = BUSY + (END + 1000) * US;
    for (int64_t i = 0; i < KERNELS; i++) {
        asked(0, i * LENGTH);
        ran(JOB_PID, "kernel", i * LENGTH, i * LENGTH, (i + 1) * LENGTH);
    }
    asked(0, END);
    ran(SERVICE_PID, "kernel", END, END, END + 20);
    ran(JOB_PID, "kernel", END + 900, END + 900, END + 1000);
    struct verdict v = verdict();
    cr_expect(v.failed[RULE_again]);
    cr_expect_float_eq(v.figure[RULE_again], 880, 0.01);
}

Test(verdict, best_effort_without_requests_is_not_late)
{
    asked(0, 900);
    ran(SERVICE_PID, "kernel", 0, 0, 20);
    ran(JOB_PID, "kernel", 900, 900, 1000);
    cr_expect(!verdict().judged[RULE_again]);
}

Test(verdict, idle_device_with_pending_requests_is_a_fault)
{
    bench.run.end_ns = BUSY + 2000 * US;
    asked(0, 0);
    asked(0, 0);
    ran(JOB_PID, "kernel", 0, 0, 500);
    ran(JOB_PID, "kernel", 1000, 1000, 2000);
    struct verdict v = verdict();
    cr_expect(v.failed[RULE_idle]);
    cr_expect_float_eq(v.figure[RULE_idle], 25, 0.01);
}

Test(verdict, idle_device_without_requests_is_no_fault)
{
    bench.run.end_ns = BUSY + 2000 * US;
    asked(0, 0);
    asked(0, 1000);
    ran(JOB_PID, "kernel", 0, 0, 500);
    ran(JOB_PID, "kernel", 1000, 1000, 2000);
    cr_expect(!verdict().failed[RULE_idle]);
}

Test(verdict, requests_of_an_ended_job_do_not_count)
{
    bench.workload.jobs = 2;
    bench.workload.job[1].end_ms = 300;
    bench.run.end_ns = BUSY + 2000 * US;
    asked(1, -10);
    asked(0, 1000);
    ran(JOB_PID, "kernel", 0, 0, 500);
    ran(JOB_PID, "kernel", 1000, 1000, 2000);
    cr_expect(!verdict().failed[RULE_idle]);
}

Test(verdict, memory_above_the_jobs_total_is_a_fault)
{
    bench.workload.job[0] = (struct job){.pool_mb = 64, .streams = 1, .end_ms = 1000};
    bench.record[SERVICE]->memory_high = (64ull + 60) << 20;
    cr_expect(!verdict().failed[RULE_memory]);
    bench.record[SERVICE]->memory_high = (64ull + 70) << 20;
    bench.log = fopen(bench.path, "a");
    cr_expect(verdict().failed[RULE_memory]);
}

Test(verdict, unfair_share_is_a_fault)
{
    bench.workload.fair = true;
    bench.workload.jobs = 2;
    bench.workload.job[0].weight = bench.workload.job[1].weight = 1;
    ran(JOB_PID, "kernel", 0, 0, 300);
    ran(OTHER_PID, "kernel", 0, 300, 1000);
    struct verdict v = verdict();
    cr_expect(v.failed[RULE_share]);
    cr_expect_float_eq(v.figure[RULE_share], 20, 0.01);
}

Test(verdict, solo_much_slower_than_native_is_a_fault)
{
    static const struct solo any;
    bench.workload.solo = &any;
    bench.run.native_ns = 100 * MS;
    bench.record[0]->begun_ns = 300 * MS;
    bench.record[0]->done_ns = 420 * MS;
    struct verdict v = verdict();
    cr_expect(v.judged[RULE_pace] && !v.failed[RULE_pace]);
    cr_expect_float_eq(v.figure[RULE_pace], 20, 0.01);
    bench.record[0]->done_ns = 430 * MS;
    bench.log = fopen(bench.path, "a");
    cr_expect(verdict().failed[RULE_pace]);
    bench.record[0]->done_ns = 0; /* it never finishes */
    bench.log = fopen(bench.path, "a");
    v = verdict();
    cr_expect_eq(v.took_ns, 200 * MS);
}

Test(verdict, seed_determines_the_workload)
{
    struct workload a, b, c;
    workload_draw(&a, 5);
    workload_draw(&b, 5);
    workload_draw(&c, 6);
    cr_expect_arr_eq(&a, &b, sizeof(a));
    cr_expect_neq(memcmp(a.job, c.job, sizeof(a.job)), 0);
}
