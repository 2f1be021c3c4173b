/*
 * bench_figures.c - what the samples of a run tell, and what they do not.
 */
#include "tools/cutin/latency/bench.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct bench b;

static void add_samples(int mode, const struct worker_sample *s, uint32_t n)
{
    struct bench_result *r = &b.mode[mode];

    r->sample = calloc(n, sizeof(*r->sample));
    r->latency_ns = calloc(n, sizeof(*r->latency_ns));
    cr_assert(r->sample && r->latency_ns);
    for (r->n = 0; r->n < n; r->n++)
        r->sample[r->n] = s[r->n];
    r->block_end[r->blocks++] = n;
}

static void describe(enum arrivals_kind kind)
{
    static struct worker_shared nothing[2];

    b.plan.arrivals.kind = kind;
    for (int side = BENCH_NATIVE; side <= BENCH_CUTIN; side++) {
        b.be[side].shared = &nothing[1];
        if (!b.rt[side].shared)
            b.rt[side].shared = &nothing[side == BENCH_CUTIN];
    }
    bench_describe(&b);
}

/* Requests of 5 us, one every 2 us. */
static const struct worker_sample busy[] = {
    {.arrival_ns = 0, .start_ns = 0, .end_ns = 5000},
    {.arrival_ns = 2000, .start_ns = 5000, .end_ns = 10000},
    {.arrival_ns = 4000, .start_ns = 10000, .end_ns = 15000},
    {.arrival_ns = 6000, .start_ns = 15000, .end_ns = 20000},
};

Test(bench_figures, open_loop_latency_counts_from_arrival)
{
    add_samples(BENCH_ALONE, busy, 4);
    describe(ARRIVALS_POISSON);
    cr_expect_eq(b.mode[BENCH_ALONE].figures.min_us, 5);
    cr_expect_eq(b.mode[BENCH_ALONE].figures.max_us, 14);
    cr_expect_eq(b.mode[BENCH_ALONE].backlog.most, 1);
    cr_expect_eq(b.mode[BENCH_ALONE].backlog.late, 3);
    cr_expect_eq(b.mode[BENCH_ALONE].backlog.mean, 0.5);
}

Test(bench_figures, closed_loop_latency_counts_from_launch)
{
    add_samples(BENCH_ALONE, busy, 4);
    describe(ARRIVALS_CLOSED);
    cr_expect_eq(b.mode[BENCH_ALONE].figures.max_us, 5);
}

Test(bench_figures, pause_between_blocks_makes_no_request_late)
{
    add_samples(BENCH_ALONE, busy, 2);
    b.mode[BENCH_ALONE].block_end[0] = 1;
    b.mode[BENCH_ALONE].block_end[b.mode[BENCH_ALONE].blocks++] = 2;
    describe(ARRIVALS_POISSON);
    cr_expect_eq(b.mode[BENCH_ALONE].backlog.late, 0);
}

Test(bench_figures, result_below_the_noise_floor_is_marked)
{
    static struct worker_shared shared = {
        .floor = {.most_ns = 4000}, .floor_launch_ns = {3000, 9000}, .floor_launches = 2};

    b.rt[BENCH_NATIVE].shared = &shared;
    add_samples(BENCH_NATIVE, busy, 4); /* a p99 of 14 us */
    add_samples(BENCH_CUTIN, busy, 3);  /* and one of 11 us */
    describe(ARRIVALS_POISSON);
    cr_expect_eq(b.floor.launch.samples, 2);
    cr_expect_eq(b.floor.p99_us, 9 + 4);
    cr_expect_not(b.mode[BENCH_NATIVE].in_floor);
    cr_expect(b.mode[BENCH_CUTIN].in_floor);
}

Test(bench_figures, gaps_below_the_threshold_are_not_counted)
{
    struct floor_spin f = {0};

    floor_add(&f, 1000, 1000 + FLOOR_GAP_NS - 1);
    cr_expect_eq(f.gaps, 0);
    floor_add(&f, 0, FLOOR_GAP_NS);
    floor_add(&f, 0, 3 * FLOOR_GAP_NS);
    cr_expect_eq(f.gaps, 2);
    cr_expect_eq(f.gap_ns, 4 * FLOOR_GAP_NS);
    cr_expect_eq(f.most_ns, 3 * FLOOR_GAP_NS);
    floor_spin(&f, 1000000);
    cr_expect_geq(f.ns, 1000000);
}

Test(bench_figures, claim_text_names_what_was_refused)
{
    char text[128];

    cr_expect_str_eq(claim_text(&(struct claim){.cpu = 3, .locked = true}, text, sizeof(text)),
                     "pinned to processor 3, locked in memory, not in a real-time class");
    cr_expect_str_eq(claim_text(&(struct claim){.cpu = -1, .realtime = true}, text, sizeof(text)),
                     "not pinned, not locked in memory, in a real-time class");
}

Test(bench_figures, engagement_needs_both_a_cut_in_and_a_hold)
{
    b.engagement = (struct bench_engagement){.cut_ins = 5};
    describe(ARRIVALS_CLOSED);
    cr_expect_not(b.engagement.engaged);
    b.engagement.gates = 1;
    describe(ARRIVALS_CLOSED);
    cr_expect(b.engagement.engaged);
    b.engagement = (struct bench_engagement){.holds = 5};
    describe(ARRIVALS_CLOSED);
    cr_expect_not(b.engagement.engaged);
}

Test(bench_figures, too_few_samples_give_no_estimate)
{
    add_samples(BENCH_ALONE, busy, 4);
    b.plan.percentile = 20;
    describe(ARRIVALS_POISSON);
    cr_expect_not(b.mode[BENCH_ALONE].estimate[BENCH_P50].known);
    cr_expect_not(b.mode[BENCH_ALONE].estimate[BENCH_P99].known);
    cr_expect(b.mode[BENCH_ALONE].estimate[BENCH_ASKED].known);
    cr_expect_eq(b.mode[BENCH_ALONE].estimate[BENCH_ASKED].us, 5);
}

/* 0.99 to the power of 459 is the first power below 0.01. */
Test(bench_figures, one_percent_limit_needs_459_timely_answers)
{
    cr_expect_leq(bench_late_limit(0, 459), 1);
    cr_expect_gt(bench_late_limit(0, 458), 1);
}

Test(bench_figures, late_answers_raise_the_limit)
{
    cr_expect_gt(bench_late_limit(1, 459), bench_late_limit(0, 459));
    cr_expect_lt(bench_late_limit(10, 10000), bench_late_limit(1, 1000));
    cr_expect_float_eq(bench_late_limit(5, 10), 85.0, 0.5); /* from binomial tables */
    cr_expect_eq(bench_late_limit(10, 10), 100);
}
