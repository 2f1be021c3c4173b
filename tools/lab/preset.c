/*
 * preset.c - `cutin-lab preset`: measures by the protocols of others, and shows what they report.
 *
 * A preset is a set of options; options that are given override it. Its rows are beside those that
 * the papers report of other machines and GPUs: this does not compare the systems. Where the
 * figures come from is in docs/measuring.md.
 */
#include "lab.h"
#include "tools/cutin/latency/bench.h"
#include "tools/cutin/result.h"

#include <getopt.h>
#include <math.h>
#include <string.h>

enum metric {
    RESIDUE_KERNELS, /* p99 of what real time waited for, in lengths of a best-effort kernel */
    PREEMPT_P50,     /* from the call until the first kernel began, us */
    PREEMPT_P99,
    CUTIN_RATIO, /* p99 relative to alone */
    NATIVE_RATIO,
    MEAN_ADDED,  /* added to the mean of alone, percent */
    P99_SAVED,   /* how far cutin's p99 is below native's, percent */
    BE_OVERHEAD, /* with no client above, percent of native */
    BE_LOST,     /* beside real time, percent of native beside it */
    LATE,        /* requests beyond the bound, percent */
    LATE_LIMIT,  /* the most that may be late, with 99 % confidence */
};

struct row {
    enum metric metric;
    const char *what, *paper, *machine;
};

enum { ROWS = 5 };

struct preset {
    const char *name;
    const char *about, *differs; /* how it differs from the original; one line each */
    const char *arrivals;
    double rate, bound_us; /* 0: none */
    uint32_t be_kernel_us, be_graph, be_batch, rt_kernels, rt_kernel_us, warm_up, samples;
    const char *depth, *budget_us; /* of best effort; NULL: cutin's default */
    struct row row[ROWS];
};

#define XSCHED_GV100 "XSched, GV100"

static const struct preset presets[] = {
    {.name = "xsched",
     .about =
         "XSched: 64 kernels of 0.5 ms at a time, 8 in flight, foreground at 20 % of its peak with "
         "50 % jitter, 300 warm-ups, 1000 requests",
     .differs = "XSched draws the next arrival when the last request began (a closed loop) and "
                "times a host call; here arrivals are drawn in advance, and the device's times "
                "count. The foreground is 8 kernels of 0.5 ms, not a network",
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
     .row = {{RESIDUE_KERNELS, "residue p99, kernels of 0.5 ms", "8 (L1), 1 (L2), 0.06 (L3)",
              XSCHED_GV100},
             {CUTIN_RATIO, "real-time p99, x alone", "1.02 to 1.30", XSCHED_GV100},
             {NATIVE_RATIO, "the same natively", "1.60 to 2.19", XSCHED_GV100},
             {BE_OVERHEAD, "best effort loses without real time, %", "3.4 at most (L1)",
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
     .row = {{PREEMPT_P50, "preemption latency p50, us", "71 to 288, means", "REEF-N, V100"},
             {PREEMPT_P99, "preemption latency p99, us", "40 at most, means",
              "REEF, MI50, patched driver"},
             {MEAN_ADDED, "added to the mean of alone, %", "2 at most",
              "REEF, MI50, patched driver"},
             {BE_OVERHEAD, "best effort loses without real time, %", "0.3 at most",
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
     .row = {{PREEMPT_P99, "preemption latency p99, us", "within 40",
              "GPreempt, A100, patched driver"},
             {P99_SAVED, "real-time p99 below native, %", "9.6 to 15.3",
              "GPreempt as others ported it, RTX 5090"},
             {BE_LOST, "best effort loses beside real time, %", "9",
              "GPreempt as others ported it, RTX 5090"}}},
    {.name = "mlperf-server",
     .about = "MLPerf inference, server scenario: Poisson arrivals, 99 % of answers within 15 ms",
     .differs = "MLPerf asks for 270,336 queries or early stopping, and for the highest rate; here "
                "1000 requests of 53 kernels of 40 us come at one rate, and the limit is the one "
                "that so many support",
     .arrivals = "poisson",
     .rate = 100,
     .bound_us = 15000,
     .be_kernel_us = 200,
     .rt_kernels = 53,
     .rt_kernel_us = 40,
     .samples = 1000,
     .row = {{LATE, "late under cutin, %", "1 at most", "the rule, any machine"},
             {LATE_LIMIT, "late with 99 % confidence, at most %", "1 at most",
              "the rule, any machine"},
             {CUTIN_RATIO, "real-time p99, x alone", "no figure", "no machine"}}},
    {0},
};

/* Fills in what was not given (0). */
static void fill(struct bench_plan *p, const struct preset *preset)
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
    FILL(rate);
#undef FILL
    if (!p->arrivals_given)
        arrivals_parse(&p->arrivals, preset->arrivals, why, sizeof(why));
    p->stages |= !p->modes || p->modes >> BENCH_CUTIN & 1;
}

/* ---- figures -------------------------------------------------------------------------------- */

static double ratio(const struct bench *b, int mode)
{
    const struct bench_estimate *e = &b->mode[mode].estimate[BENCH_P99];

    return e->compared ? e->ratio : NAN;
}

static double stage_us(const struct bench *b, enum stage stage, double percent)
{
    const struct figures *f = &b->stages.figures[stage];

    if (f->samples < figures_least_samples(percent))
        return NAN;
    return percent > 50 ? f->p99_us : f->p50_us;
}

static double mean_us(const struct bench_result *r)
{
    double sum = 0;

    for (uint32_t i = 0; i < r->n; i++)
        sum += (double)r->latency_ns[i] / 1000;
    return sum / r->n;
}

/* By how many percent `value` is less than `of`. */
static double less(double value, double of)
{
    return of > 0 ? 100 * (1 - value / of) : NAN;
}

/* NAN: not measured. */
static double value_of(const struct bench *b, enum metric metric)
{
    const struct bench_result *alone = &b->mode[BENCH_ALONE], *native = &b->mode[BENCH_NATIVE],
                              *cutin = &b->mode[BENCH_CUTIN];

    switch (metric) {
    case RESIDUE_KERNELS:
        return stage_us(b, STAGE_residue, 99) / b->plan.be_kernel_us;
    case PREEMPT_P50:
        return stage_us(b, STAGE_begin, 50);
    case PREEMPT_P99:
        return stage_us(b, STAGE_begin, 99);
    case CUTIN_RATIO:
        return ratio(b, BENCH_CUTIN);
    case NATIVE_RATIO:
        return ratio(b, BENCH_NATIVE);
    case MEAN_ADDED:
        return -less(mean_us(cutin), mean_us(alone));
    case P99_SAVED:
        return bench_enough(b, BENCH_NATIVE, 99) && bench_enough(b, BENCH_CUTIN, 99)
                   ? less(cutin->figures.p99_us, native->figures.p99_us)
                   : NAN;
    case BE_OVERHEAD:
        return less(bench_rate(&cutin->solo), bench_rate(&native->solo));
    case BE_LOST:
        return less(bench_rate(&cutin->shared), bench_rate(&native->shared));
    case LATE:
        return cutin->n ? 100.0 * cutin->late / cutin->n : NAN;
    case LATE_LIMIT:
        return cutin->n ? bench_late_limit(cutin->late, cutin->n) : NAN;
    }
    return NAN;
}

/* ---- the command --------------------------------------------------------------------------- */

static const struct preset *preset;
static struct bench bench = {.plan = BENCH_ONE_PLAN};

static const struct option_row options[] = {BENCH_ONE_OPTION_ROWS(bench.plan), {0}};

/* Gives the rows: as text without --json, and as a member of the object. */
static void give_rows(const struct bench *b, json_t *root)
{
    json_t *rows = json_array();

    if (!b->plan.json) {
        printf("\n%s\ndiffers: %s\n", preset->about, preset->differs);
        if (b->plan.samples != preset->samples)
            printf("differs: %u requests of %u\n", b->plan.samples, preset->samples);
        printf("%-42s %12s   %-28s %s\n", "", "here", "their paper", "another machine");
    }
    for (const struct row *r = preset->row; r < preset->row + ROWS && r->what; r++) {
        double value = value_of(b, r->metric);
        char here[32] = "-";

        if (!isnan(value))
            snprintf(here, sizeof(here), "%.2f", value);
        if (!b->plan.json)
            printf("%-42s %12s   %-28s another machine: %s\n", r->what, here, r->paper, r->machine);
        json_array_append_new(rows, json_pack("{s:s, s:o, s:s, s:s, s:b}", "what", r->what, "here",
                                              isnan(value) ? json_null() : result_number(value),
                                              "paper", r->paper, "paper_machine", r->machine,
                                              "another_machine", 1));
    }
    json_object_set_new(root, "preset",
                        json_pack("{s:s, s:s, s:s, s:i, s:o}", "name", preset->name, "about",
                                  preset->about, "differs", preset->differs, "samples",
                                  (int)preset->samples, "rows", rows));
}

static int run(const struct subcommand *cmd, int argc, char **argv)
{
    options_read(cmd, argc, argv);
    for (preset = presets; optind < argc && preset->name; preset++)
        if (strcmp(preset->name, argv[optind]) == 0)
            break;
    if (optind + 1 != argc || !preset->name)
        fail_usage(cmd, "give one of xsched, reef, gpreempt and mlperf-server");
    fill(&bench.plan, preset);
    return bench_command(cmd, &bench, argc, argv, give_rows);
}

const struct subcommand subcommand_preset = {
    .name = "preset",
    .summary = "measure latency by a published protocol, beside its figures",
    .synopsis = "NAME [OPTIONS]",
    .about = "Measures as `cutin latency` does, with the options of xsched, reef, gpreempt or\n"
             "mlperf-server, and shows what their papers report, each of another machine.\n"
             "Other options override the preset.",
    .options = options,
    .anywhere = true,
    .run = run,
};
