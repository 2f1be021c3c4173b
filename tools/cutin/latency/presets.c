/*
 * presets.c - others' protocols and figures (see presets.h). Where figures come from is in
 * docs/measuring.md.
 */
#include "bench.h"
#include "tools/cutin/result.h"

#include <getopt.h>
#include <math.h>

#define XSCHED_GV100 "XSched, GV100"

const struct preset presets[] = {
    {.name = "xsched",
     .about =
         "XSched: 64 kernels of 0.5 ms at a time, 8 in flight, foreground at 20 % of its peak with "
         "50 % jitter, 300 warm-ups, 1000 requests",
     .differs =
         "XSched draws the next arrival when the last request began (a closed loop) and times a "
         "host call; here arrivals are drawn before, and the device's times count. The "
         "foreground is 8 kernels of 0.5 ms, not a network",
     .arrivals = "uniform:0.5",
     .rate = 50,
     .be_kernel_us = 500,
     .be_batch = 64,
     .rt_kernels = 8,
     .rt_kernel_us = 500,
     .warm_up = 300,
     .samples = 1000,
     .depth = "8",
     .budget_us = "1000000",
     .row = {{PRESET_RESIDUE_KERNELS, "residue p99, kernels of 0.5 ms", "8 (L1), 1 (L2), 0.06 (L3)",
              XSCHED_GV100},
             {PRESET_CUTIN_RATIO, "real-time p99, x alone", "1.02 to 1.30", XSCHED_GV100},
             {PRESET_NATIVE_RATIO, "the same natively", "1.60 to 2.19", XSCHED_GV100},
             {PRESET_BE_OVERHEAD, "best effort loses with nobody above, %", "3.4 at most (L1)",
              XSCHED_GV100}}},
    {.name = "reef",
     .about = "REEF's DISB A: VGG-19, 71 kernels, 100 times a second beside ResNet-152's kernels",
     .differs =
         "REEF skips late arrivals and times from the actual start; here none is skipped. "
         "Kernels have the published mean time at twice the speed, best effort never pauses. "
         "cutin-lab disb has the models whole",
     .arrivals = "uniform:0.1",
     .rate = 100,
     .be_kernel_us = 38,
     .rt_kernels = 71,
     .rt_kernel_us = 37,
     .samples = 1000,
     .row = {{PRESET_PREEMPT_P50, "preemption latency p50, us", "71 to 288, means", "REEF-N, V100"},
             {PRESET_PREEMPT_P99, "preemption latency p99, us", "40 at most, means",
              "REEF, MI50, patched driver"},
             {PRESET_MEAN_ADDED, "added to the mean of alone, %", "2 at most",
              "REEF, MI50, patched driver"},
             {PRESET_BE_OVERHEAD, "best effort loses with nobody above, %", "0.3 at most",
              "REEF, MI50, 4 in flight"}}},
    {.name = "gpreempt",
     .about =
         "GPreempt's variant of DISB A: the same with ResNet-152 as one CUDA graph of 207 kernels",
     .differs =
         "GPreempt takes DISB's arrivals and clock; its best effort has 100 requests a second "
         "and its real time 200 us of preprocessing, in which it pre-empts; here there is "
         "neither",
     .arrivals = "uniform:0.1",
     .rate = 100,
     .be_kernel_us = 38,
     .be_graph = 207,
     .rt_kernels = 71,
     .rt_kernel_us = 37,
     .samples = 1000,
     .row = {{PRESET_PREEMPT_P99, "preemption latency p99, us", "within 40",
              "GPreempt, A100, patched driver"},
             {PRESET_P99_SAVED, "real-time p99 below native, %", "9.6 to 15.3",
              "GPreempt as others ported it, RTX 5090"},
             {PRESET_BE_LOST, "best effort loses beside real time, %", "9",
              "GPreempt as others ported it, RTX 5090"}}},
    {.name = "mlperf-server",
     .about = "MLPerf inference, server scenario: Poisson arrivals, 99 % of answers within 15 ms",
     .differs =
         "MLPerf wants 270,336 queries or early stopping, and the greatest rate; here are 1000 "
         "at one rate, a request of 53 kernels of 40 us, and the limit that so many support",
     .arrivals = "poisson",
     .rate = 100,
     .bound_us = 15000,
     .be_kernel_us = 200,
     .rt_kernels = 53,
     .rt_kernel_us = 40,
     .samples = 1000,
     .row = {{PRESET_LATE, "late under cutin, %", "1 at most", "the rule, any machine"},
             {PRESET_LATE_LIMIT, "late with 99 % confidence, at most %", "1 at most",
              "the rule, any machine"},
             {PRESET_CUTIN_RATIO, "real-time p99, x alone", "no figure", "no machine"}}},
    {0},
};
const char *const preset_names[] = {"xsched", "reef", "gpreempt", "mlperf-server", NULL};

/* ---- from options to the plan --------------------------------------------------------------- */

void bench_take_arrivals(const struct subcommand *cmd, int row, void *plan)
{
    struct bench_plan *p = plan;
    char why[256];

    if (arrivals_parse(&p->arrivals, optarg, why, sizeof(why)) != 0)
        fail_usage(cmd, "--arrivals=%s", why);
    p->arrivals_given = true;
}

void bench_take_rate(const struct subcommand *cmd, int row, void *gap_us)
{
    *(double *)gap_us = 1e6 / options_decimal(cmd, row, optarg, 0.001, 1000000);
}

void bench_take_stages(const struct subcommand *cmd, int row, void *plan)
{
    static const char *const methods[] = {[BENCH_TRACE_LOG] = "log",
                                          [BENCH_TRACE_EVENTS] = "events",
                                          [BENCH_TRACE_AUTO] = "auto",
                                          NULL};
    struct bench_plan *p = plan;

    p->stages = true;
    p->method = (enum bench_trace_method)options_word(cmd, row, optarg, methods);
}

void bench_options_fill(struct bench_plan *p)
{
    if (p->rt_kernels == 0)
        p->rt_kernels = 1;
    if (p->rt_kernel_us == 0)
        p->rt_kernel_us = 20;
    if (p->gap_us == 0)
        p->gap_us = arrivals_open(&p->arrivals) ? 5000 : 2000;
    if (p->method == BENCH_TRACE_AUTO)
        p->method = p->sim ? BENCH_TRACE_LOG : BENCH_TRACE_EVENTS;
}

void preset_fill(struct bench_plan *p, const struct preset *preset)
{
    char why[256];

#define FILL(field)                                                                                \
    if (p->field == 0)                                                                             \
    p->field = preset->field
    FILL(be_kernel_us);
    FILL(be_graph);
    FILL(rt_kernels);
    FILL(rt_kernel_us);
    FILL(warm_up);
    FILL(samples);
    FILL(bound_us);
    FILL(be_batch);
    FILL(depth);
    FILL(budget_us);
#undef FILL
    if (!p->arrivals_given)
        arrivals_parse(&p->arrivals, preset->arrivals, why, sizeof(why));
    if (p->gap_us == 0)
        p->gap_us = 1e6 / preset->rate;
}

/* ---- figures -------------------------------------------------------------------------------- */

double preset_late_limit(uint32_t late, uint32_t n)
{
    double low = (double)late / n, high = 1;

    if (late >= n)
        return 100;
    for (int i = 0; i < 60; i++) {
        double p = (low + high) / 2, sum = 0;

        /* That at most `late` of `n` are late where each is by the chance p. */
        for (uint32_t k = 0; k <= late; k++)
            sum += exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) + k * log(p) +
                       (n - k) * log1p(-p));
        if (sum > 0.01)
            low = p;
        else
            high = p;
    }
    return 100 * high;
}

static double ratio(const struct bench *b, int mode)
{
    const struct bench_estimate *e = &b->mode[mode].estimate[BENCH_P99];

    return e->compared ? e->ratio : NAN;
}

static double stage_us(const struct bench *b, enum stage stage, double percent)
{
    const struct bench_stages *s = &b->stages;

    if (s->n[stage] < figures_least_samples(percent))
        return NAN;
    return percent > 50 ? s->figures[stage].p99_us : s->figures[stage].p50_us;
}

static double mean_us(const struct bench_result *r)
{
    double sum = 0;

    for (uint32_t i = 0; i < r->n; i++)
        sum += (double)r->latency_ns[i] / 1000;
    return sum / r->n;
}

/* Percent of `of` that `value` is less. */
static double less(double value, double of)
{
    return of > 0 ? 100 * (1 - value / of) : NAN;
}

double preset_value(const struct bench *b, enum preset_metric metric)
{
    const struct bench_result *alone = &b->mode[BENCH_ALONE], *native = &b->mode[BENCH_NATIVE],
                              *cutin = &b->mode[BENCH_CUTIN];

    switch (metric) {
    case PRESET_RESIDUE_KERNELS:
        return stage_us(b, STAGE_residue, 99) / b->plan.be_kernel_us;
    case PRESET_PREEMPT_P50:
        return stage_us(b, STAGE_begin, 50);
    case PRESET_PREEMPT_P99:
        return stage_us(b, STAGE_begin, 99);
    case PRESET_CUTIN_RATIO:
        return ratio(b, BENCH_CUTIN);
    case PRESET_NATIVE_RATIO:
        return ratio(b, BENCH_NATIVE);
    case PRESET_MEAN_ADDED:
        return -less(mean_us(cutin), mean_us(alone));
    case PRESET_P99_SAVED:
        return bench_enough(b, BENCH_NATIVE, 99) && bench_enough(b, BENCH_CUTIN, 99)
                   ? less(cutin->figures.p99_us, native->figures.p99_us)
                   : NAN;
    case PRESET_BE_OVERHEAD:
        return less(bench_rate(&cutin->solo), bench_rate(&native->solo));
    case PRESET_BE_LOST:
        return less(bench_rate(&cutin->shared), bench_rate(&native->shared));
    case PRESET_LATE:
        return cutin->n ? 100.0 * cutin->late / cutin->n : NAN;
    case PRESET_LATE_LIMIT:
        return cutin->n ? preset_late_limit(cutin->late, cutin->n) : NAN;
    }
    return NAN;
}

/* ---- output --------------------------------------------------------------------------------- */

void preset_print(const struct bench *b)
{
    const struct preset *p = b->plan.preset;

    printf("\n%s\ndiffers: %s\n", p->about, p->differs);
    if (b->plan.samples != p->samples)
        printf("differs: %u requests of %u\n", b->plan.samples, p->samples);
    printf("%-42s %12s   %-28s %s\n", "", "here", "their paper", "another machine");
    for (const struct preset_row *r = p->row; r < p->row + PRESET_ROWS && r->what; r++) {
        double value = preset_value(b, r->metric);
        char here[32] = "-";
        if (!isnan(value))
            snprintf(here, sizeof(here), "%.2f", value);
        printf("%-42s %12s   %-28s another machine: %s\n", r->what, here, r->paper, r->machine);
    }
}

json_t *preset_json(const struct bench *b)
{
    const struct preset *p = b->plan.preset;
    json_t *rows = p ? json_array() : NULL;

    if (!p)
        return NULL;
    for (const struct preset_row *r = p->row; r < p->row + PRESET_ROWS && r->what; r++) {
        double value = preset_value(b, r->metric);
        json_array_append_new(rows, json_pack("{s:s, s:o, s:s, s:s, s:b}", "what", r->what, "here",
                                              isnan(value) ? json_null() : result_number(value),
                                              "paper", r->paper, "paper_machine", r->machine,
                                              "another_machine", 1));
    }
    return json_pack("{s:s, s:s, s:s, s:i, s:o}", "name", p->name, "about", p->about, "differs",
                     p->differs, "samples", (int)p->samples, "rows", rows);
}
