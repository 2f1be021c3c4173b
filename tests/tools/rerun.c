/*
 * rerun.c - recorded programs on a modelled device: what waits for what, exact to the nanosecond.
 */
#include "tools/lab/predict/rerun.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { US = 1000, MOST = 64 };

/* A program, recorded call by call as the test makes them. */
struct program {
    struct workload w;
    uint64_t device_ns[MOST], latency_ns[MOST], arrival_ns[MOST];
    size_t start[MOST];
    struct rerun_job job;
};

static void call(struct program *p, struct workload_op op)
{
    p->device_ns[p->w.ops] = op.duration_ns;
    cr_assert_eq(workload_add(&p->w, &op), 0);
}

/* 8 blocks of 256 threads fill a multiprocessor. */
static void kernel(struct program *p, uint64_t at_us, uint16_t stream, uint32_t blocks, uint64_t us)
{
    call(p, (struct workload_op){.at_ns = at_us * US,
                                 .duration_ns = us * US,
                                 .stream = stream,
                                 .kind = WORKLOAD_KERNEL,
                                 .grid = {blocks, 1, 1},
                                 .block = {256, 1, 1}});
}

static void copy(struct program *p, uint64_t at_us, uint16_t stream, uint64_t us)
{
    call(p, (struct workload_op){.at_ns = at_us * US,
                                 .duration_ns = us * US,
                                 .stream = stream,
                                 .kind = WORKLOAD_COPY,
                                 .bytes = 1});
}

static void wait_done(struct program *p, uint64_t at_us, uint64_t us)
{
    call(p,
         (struct workload_op){.at_ns = at_us * US, .duration_ns = us * US, .kind = WORKLOAD_SYNC});
}

/* Makes a job of this many requests, a period apart; each consists of all the calls. */
static void job(struct program *p, size_t requests, uint64_t period_us)
{
    p->start[1] = p->w.ops;
    for (size_t i = 0; i < requests; i++)
        p->arrival_ns[i] = i * period_us * US;
    p->job = (struct rerun_job){.w = &p->w,
                                .device_ns = p->device_ns,
                                .host_speed = 1,
                                .start = p->start,
                                .starts = 1,
                                .arrival_ns = p->arrival_ns,
                                .requests = requests,
                                .latency_ns = p->latency_ns};
}

static double alone_us(struct program *p, uint32_t processors)
{
    struct rerun_device device = {.processors = processors};

    cr_assert_eq(rerun(&device, &p->job, 1), 0);
    workload_free(&p->w);
    return (double)p->job.end_ns / US;
}

Test(rerun, streams_run_in_order_and_overlap_where_they_fit)
{
    struct program one = {0}, two = {0}, wide = {0};

    kernel(&one, 0, 0, 8, 100);
    kernel(&one, 0, 0, 8, 100);
    job(&one, 1, 0);
    cr_expect_eq(alone_us(&one, 4), 200);
    kernel(&two, 0, 0, 8, 100);
    kernel(&two, 0, 1, 8, 100);
    job(&two, 1, 0);
    cr_expect_eq(alone_us(&two, 4), 100);
    kernel(&wide, 0, 0, 24, 100); /* takes three of the four multiprocessors */
    kernel(&wide, 0, 1, 16, 100); /* takes two */
    kernel(&wide, 0, 2, 8, 100);  /* takes one: it would fit but does not overtake */
    job(&wide, 1, 0);
    cr_expect_eq(alone_us(&wide, 4), 200);
}

Test(rerun, host_pauses_are_kept_and_scale_with_host_speed)
{
    struct program p = {0}, q = {0};

    kernel(&p, 0, 0, 8, 10);
    kernel(&p, 100, 0, 8, 10);
    job(&p, 1, 0);
    cr_expect_eq(alone_us(&p, 4), 110);
    kernel(&q, 0, 0, 8, 10);
    kernel(&q, 100, 0, 8, 10);
    job(&q, 1, 0);
    q.job.host_speed = 2;
    cr_expect_eq(alone_us(&q, 4), 60);
}

Test(rerun, sync_lasts_for_remaining_work_plus_return_delay)
{
    struct program p = {0};

    kernel(&p, 0, 0, 8, 50);
    wait_done(&p, 5, 1000); /* the recorded wait was much longer */
    kernel(&p, 1010, 0, 8, 50);
    job(&p, 1, 0);
    p.job.wait_ns = 7 * US;
    /* 50 us of work, 7 until the host knows, 5 until the next call, 50 of work, and 7. */
    cr_expect_eq(alone_us(&p, 4), 50 + 7 + 5 + 50 + 7);
}

Test(rerun, time_in_blocking_copy_is_no_host_pause)
{
    struct program p = {0};

    copy(&p, 0, 0, 40);
    wait_done(&p, 90, 0); /* recorded after the copy, when that was over */
    kernel(&p, 91, 0, 8, 10);
    job(&p, 1, 0);
    cr_expect_eq(alone_us(&p, 4), 40 + 1 + 10);
}

Test(rerun, only_two_copies_run_at_once)
{
    struct program p = {0};

    for (uint16_t i = 0; i < 3; i++)
        copy(&p, 0, i, 40);
    kernel(&p, 0, 3, 8, 60);
    job(&p, 1, 0);
    cr_expect_eq(alone_us(&p, 4), 80);
}

Test(rerun, latency_counts_from_the_arrival)
{
    struct program p = {0};

    kernel(&p, 0, 0, 8, 100);
    job(&p, 3, 60);
    cr_expect_eq(alone_us(&p, 4), 300);
    cr_expect_eq(p.latency_ns[0], 100 * US);
    cr_expect_eq(p.latency_ns[1], 140 * US);
    cr_expect_eq(p.latency_ns[2], 180 * US);
}

/* Two kernels that fill the device are launched at once. Events say 100 us for one and 200 for the
 * other, which waited for it. */
Test(rerun, kernel_time_excludes_wait_for_room)
{
    struct program p = {0};

    kernel(&p, 0, 0, 32, 100);
    kernel(&p, 0, 1, 32, 200);
    kernel(&p, 0, 1, 32, 50);
    job(&p, 1, 0);
    p.job.work_ns = p.device_ns;
    cr_expect_eq(alone_us(&p, 4), 250);
    cr_expect_eq(p.device_ns[0], 100 * US);
    cr_expect_eq(p.device_ns[1], 100 * US);
    cr_expect_eq(p.device_ns[2], 50 * US, "it headed its stream only then");
}

/* ---- beside real time ----------------------------------------------------------------------- */

/* Best effort runs kernels of 30 us in one stream. Real time runs one of 20 us, at `at_us`. */
static void beside(struct program *be, struct program *rt, uint64_t at_us, uint64_t budget_us)
{
    struct rerun_device device = {.processors = 4, .budget_ns = budget_us * US};
    struct rerun_job jobs[2];

    for (int i = 0; i < 10; i++)
        kernel(be, 0, 0, 8, 30);
    job(be, 1, 0);
    kernel(rt, 0, 0, 8, 20);
    job(rt, 1, 0);
    rt->arrival_ns[0] = at_us * US;
    jobs[0] = be->job;
    jobs[1] = rt->job;
    cr_assert_eq(rerun(&device, jobs, 2), 0);
    be->job = jobs[0];
    rt->job = jobs[1];
    workload_free(&be->w);
    workload_free(&rt->w);
}

Test(rerun, real_time_waits_only_for_the_running_kernel)
{
    struct program be = {0}, rt = {0};

    beside(&be, &rt, 40, 1);
    cr_expect_eq(rt.latency_ns[0], (20 + 20) * US, "until 60, and its own 20");
    cr_expect_eq(be.job.end_ns, 320 * US, "best effort goes on where it was");
}

Test(rerun, real_time_waits_for_the_budget_in_flight)
{
    struct program be = {0}, rt = {0};

    /* It waits 20 us for the kernel that runs, and 60 for two others. */
    beside(&be, &rt, 40, 85);
    cr_expect_eq(rt.latency_ns[0], (20 + 60 + 20) * US);
    cr_expect_eq(be.job.end_ns, 320 * US);
}

Test(rerun, best_effort_is_not_held_before_real_time_arrives)
{
    struct program be = {0}, rt = {0};

    beside(&be, &rt, 1000, 1);
    cr_expect_eq(be.job.end_ns, 300 * US);
    cr_expect_eq(rt.job.served, 0, "the run ends with best effort");
}
