/*
 * ablation.c - `cutin-lab ablation`: what each means of holding back is worth. It repeats one
 * measurement with a cap on commands only, with a cap on estimated time, with that cap also while
 * no client is above, with padding, with gates, and with suspending, over short and long
 * best-effort kernels. Each row has the throughput that is left to best effort, beside real time
 * and by itself.
 */
#include "lab.h"
#include "tools/cutin/latency/bench.h"
#include "tools/cutin/progress.h"
#include "tools/cutin/result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A closed loop, because in some variants real time waits for longer than a gap. */
static struct bench_plan given = {
    .arrivals = {.kind = ARRIVALS_CLOSED}, .samples = 300, .solo_ms = 1500, .seed = 1};

static const struct option_row options[] = {
    BENCH_OPTION_ROWS(given, "closed"),
    {"samples", "N", "samples per mode and variant (300)", TAKE_NUMBER(given.samples, 1, 1000000)},
    {"be-kernel-us", "N", "duration of best-effort kernels (20, 200, 2000 and 50000, in turn)",
     TAKE_NUMBER(given.be_kernel_us, 1, 1000000)},
    {0},
};

static const uint32_t kernels_us[] = {20, 200, 2000, 50000};
enum { KERNELS = sizeof(kernels_us) / sizeof(kernels_us[0]) };

/* A time budget of a second is in effect no bound. */
static const struct variant {
    const char *name, *gates, *depth, *budget_us, *alone, *pad, *suspend;
} variants[] = {
    {"depth 1", "off", "1", "1000000", "free", "off", "off"},
    {"depth 4", "off", "4", "1000000", "free", "off", "off"},
    {"depth 16", "off", "16", "1000000", "free", "off", "off"},
    {"depth 32", "off", "32", "1000000", "free", "off", "off"},
    {"time budget", "off", NULL, NULL, "free", "off", "off"},
    {"capped alone", "off", NULL, NULL, "capped", "off", "off"},
    {"padding", "off", NULL, NULL, "free", "on", "off"},
    {"gates", "on", NULL, NULL, "free", "off", "off"},
    {"suspend", "off", NULL, NULL, "free", "off", "on"},
};
enum { VARIANTS = sizeof(variants) / sizeof(variants[0]) };

struct row {
    const char *variant;
    uint32_t be_kernel_us;
    double added_p50_us, added_p99_us;
    bool p99_known;
    double ratio;      /* best effort beside real time, to it alone on the plain driver */
    double solo_ratio; /* best effort with no client above, to the same */
    double gate_us;
    struct figures wait; /* from the call to the first real-time kernel; with --stages */
};

/* Settings that a variant does not name stay as the user has them. */
static int measure(struct bench *b, const struct variant *v)
{
    bool suspends = strcmp(v->suspend, "on") == 0;
    const struct variable set[] = {
        {"CUTIN_GATES", v->gates},
        {"CUTIN_DEPTH", v->depth},
        {"CUTIN_BUDGET_US", v->budget_us},
        {"CUTIN_ALONE", v->alone},
        {"CUTIN_PAD", v->pad},
        {"CUTIN_SUSPEND", v->suspend},
        /* only the simulator reads this */
        {"SIMGPU_RM", suspends && !getenv("SIMGPU_RM") ? "accept" : NULL},
        {0},
    };

    int rc;

    b->plan.set = set;
    rc = bench_run(b);
    b->plan.set = NULL;
    return rc;
}

static void print_heading(const struct bench_plan *plan)
{
    printf("%-12s %9s %9s %9s %9s %9s", "variant", "kernel us", "added p50", "p99", "be ratio",
           "be alone");
    if (plan->stages)
        printf(" %9s %9s", "wait p50", "p99");
    putchar('\n');
}

static void print_row(const struct row *r, bool stages)
{
    printf("%-12s %9u %9.1f %9.1f %9.3f %9.3f", r->variant, r->be_kernel_us, r->added_p50_us,
           r->added_p99_us, r->ratio, r->solo_ratio);
    if (stages)
        printf(" %9.1f %9.1f", r->wait.p50_us, r->wait.p99_us);
    putchar('\n');
    fflush(stdout);
}

static json_t *row_json(const struct row *r, bool stages)
{
    json_t *row = json_pack(
        "{s:s, s:i, s:{s:o, s:o}, s:o, s:o}", "variant", r->variant, "be_kernel_us",
        (int)r->be_kernel_us, "added_us", "p50", result_number(r->added_p50_us), "p99",
        r->p99_known ? result_number(r->added_p99_us) : json_null(), "be_throughput_ratio",
        result_number(r->ratio), "be_alone_ratio", result_number(r->solo_ratio));

    if (r->gate_us > 0)
        json_object_set_new(row, "gate_us", result_number(r->gate_us));
    if (stages)
        json_object_set_new(row, "wait_us",
                            json_pack("{s:o, s:o}", "p50", result_number(r->wait.p50_us), "p99",
                                      r->p99_known ? result_number(r->wait.p99_us) : json_null()));
    return row;
}

/* Measures the plain driver once for each length of kernels, with the first variant. A row that is
 * interrupted is dropped. `part` of `parts`: how many rows were measured before. */
static int kernel_rows(const struct bench_plan *plan, uint32_t us, double part, double parts,
                       json_t *rows, json_t **config)
{
    double native = 0;
    int rc = 0;

    for (int v = 0; v < VARIANTS && rc == 0; v++) {
        struct bench b = {.plan = *plan, .part = part + v, .parts = parts};
        struct row row = {.variant = variants[v].name, .be_kernel_us = us};

        b.plan.be_kernel_us = us;
        b.plan.floor_ms = 0;
        b.plan.modes = 1u << BENCH_ALONE | 1u << BENCH_CUTIN | (v == 0 ? 1u << BENCH_NATIVE : 0);
        rc = measure(&b, &variants[v]);
        if (progress_cancel)
            rc = -ECANCELED;
        if (rc != 0 && rc != -ECANCELED)
            say(&subcommand_ablation, "%s", b.why);
        if (rc == 0 && v == 0)
            native = bench_rate(&b.mode[BENCH_NATIVE].solo);
        row.added_p50_us = b.mode[BENCH_CUTIN].added_p50_us;
        row.added_p99_us = b.mode[BENCH_CUTIN].added_p99_us;
        row.p99_known = b.mode[BENCH_CUTIN].p99_known;
        row.ratio = native > 0 ? bench_rate(&b.mode[BENCH_CUTIN].shared) / native : 0;
        row.solo_ratio = native > 0 ? bench_rate(&b.mode[BENCH_CUTIN].solo) / native : 0;
        row.gate_us = b.engagement.gate_us;
        row.wait = b.stages.figures[STAGE_begin];
        if (rc == 0 && b.checked && !b.identical) {
            say(&subcommand_ablation, "%s, %u us: best effort's result is wrong", row.variant, us);
            rc = -EIO;
        }
        if (rc == 0 && !plan->json)
            print_row(&row, plan->stages);
        if (rc == 0)
            json_array_append_new(rows, row_json(&row, plan->stages));
        if (rc == 0 && !*config)
            *config = bench_config_json(&b);
        bench_free(&b);
    }
    return rc;
}

static int run(const struct bench_plan *plan, int argc, char **argv)
{
    json_t *rows = json_array(), *config = NULL, *root;
    int kernels = plan->be_kernel_us ? 1 : KERNELS, rc = 0;

    if (!plan->json)
        print_heading(plan);
    for (int k = 0; k < kernels && rc == 0; k++)
        rc = kernel_rows(plan, plan->be_kernel_us ? plan->be_kernel_us : kernels_us[k],
                         k * VARIANTS, kernels * VARIANTS, rows, &config);
    if (rc == -ECANCELED && json_array_size(rows) > 0)
        rc = 0;
    if (progress_cancel)
        say(&subcommand_ablation, "interrupted%s",
            rc == 0 ? "; the incomplete row is left out" : " before anything was measured");
    root = json_pack("{s:o, s:b, s:o*}", "rows", rows, "interrupted", (int)progress_cancel,
                     "config", config);
    if (config)
        json_object_set_new(config, "command", result_command(argc, argv));
    if (json_array_size(rows) == 0)
        json_decref(root);
    else if (result_give(root, plan->json) != EXIT_SUCCESS)
        rc = -EIO;
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int ablation(const struct subcommand *cmd, int argc, char **argv)
{
    options_read(cmd, argc, argv);
    options_no_operands(cmd, argc, argv);
    bench_options_fill(&given);
    progress_begin();
    return run(&given, argc, argv);
}

const struct subcommand subcommand_ablation = {
    .name = "ablation",
    .summary = "compare the ways of holding best effort back",
    .synopsis = "[OPTIONS]",
    .about =
        "Measures as `cutin latency` does, with a cap on commands, the cap on time, the cap while\n"
        "alone, padding, gates and suspending, one at a time: what each adds to real time's\n"
        "latency, and the throughput that it leaves to best effort.",
    .options = options,
    .run = ablation,
};
