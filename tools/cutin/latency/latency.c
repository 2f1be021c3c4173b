/*
 * latency.c - `cutin latency`: how long does real-time work wait on a busy GPU?
 *
 * A best-effort process keeps the GPU busy; a real-time process launches a short kernel for each
 * request and measures, on the host, from the request's arrival until it knows the kernel complete.
 * Arrivals are drawn before the run, the same for every mode (arrivals.h). Three modes alternate in
 * rounds, so that whatever else the machine does hits all alike: `alone` (no best
 * effort), `native` (both on the plain driver), `cutin` (both under libcutin.so, with a daemon of
 * their own); and `ungated`, where best effort launches CUDA graphs, the same without gates in
 * them. Best effort also runs by itself in each round: what it loses with nobody above. Its updates
 * do not commute, so its checksum tells whether one was lost, repeated or swapped.
 */
#include "ablation.h"
#include "attach.h"
#include "bench.h"
#include "presets.h"
#include "tools/cutin/subcommand.h"
#include "tools/cutin/plot/plot.h"
#include "tools/cutin/progress.h"
#include "tools/cutin/plot/result.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OPT_SIM,
    OPT_PRESET,
    OPT_SAMPLES,
    OPT_BE_KERNEL_US,
    OPT_BE_GRAPH,
    OPT_MODE,
    OPT_RT_KERNELS,
    OPT_RT_KERNEL_US,
    OPT_ARRIVALS,
    OPT_RATE,
    OPT_GAP_US,
    OPT_SOLO_MS,
    OPT_FLOOR_MS,
    OPT_PERCENTILE,
    OPT_DISTANCE,
    OPT_WARM_UP,
    OPT_BOUND,
    OPT_STAGES,
    OPT_BREAK,
    OPT_BREAK_TRACE,
    OPT_SEED,
    OPT_JSON,
    OPT_PLOT,
    OPT_HISTOGRAM,
    OPT_ABLATION,
    OPT_ATTACH,
    OPT_SECONDS,
    OPT_SOCKET,
    OPT_WORKER,
};

static const struct option_row options[] = {
    [OPT_SIM] = {"sim", NULL, "on a simulated GPU of this run's own"},
    [OPT_PRESET] = {"preset", "NAME",
                    "the protocol of others, with what they report: xsched, reef, gpreempt or\n"
                    "mlperf-server; what is given beside it counts"},
    [OPT_SAMPLES] = {"samples", "N", "per mode (1000)"},
    [OPT_BE_KERNEL_US] = {"be-kernel-us", "N", "duration of best-effort kernels (200)"},
    [OPT_BE_GRAPH] = {"be-graph", "N", "best effort launches a CUDA graph of N such kernels"},
    [OPT_MODE] = {"mode", "MODE",
                  "alone, native or cutin; with --be-graph also ungated; may be\nrepeated (all)"},
    [OPT_RT_KERNELS] = {"rt-kernels", "N", "real-time kernels per sample (1)"},
    [OPT_RT_KERNEL_US] = {"rt-kernel-us", "N", "duration of each (20)"},
    [OPT_ARRIVALS] = {"arrivals", "KIND",
                      "poisson (the default), uniform[:SPREAD], gamma:SHAPE or trace:FILE, an\n"
                      "open loop: latency counts from when a request was to come; or closed:\n"
                      "the next one comes a pause after the answer, and counts from its launch"},
    [OPT_RATE] = {"rate", "N", "requests per second (200)"},
    [OPT_GAP_US] = {"gap-us", "N",
                    "the same as a mean gap; in a closed loop the mean pause (2000)"},
    [OPT_SOLO_MS] = {"solo-ms", "N", "how long best effort runs with nobody above (1500)"},
    [OPT_FLOOR_MS] = {"floor-ms", "N",
                      "how long to look for the machine's own noise first; 0: not at all (300)"},
    [OPT_PERCENTILE] = {"percentile", "P",
                        "also this one, such as 99.9, with its interval; refused where --samples\n"
                        "are too few for it"},
    [OPT_DISTANCE] = {"distance", "TIME",
                      "as if the GPU were a round trip of that long away, such as 8us, in every\n"
                      "mode"},
    [OPT_WARM_UP] = {"warm-up", "N", "requests before the samples, in all (0)"},
    [OPT_BOUND] = {"bound", "US", "say how many answers are later than that"},
    [OPT_STAGES] = {"stages", "METHOD",
                    "also what each cut-in's time was spent on, by the simulated device's log\n"
                    "(log) or by timing events behind every kernel (events); auto takes the log\n"
                    "where there is one"},
    [OPT_BREAK] = {"break", "US",
                   "end at the first answer under cutin that takes longer, and leave a trace\n"
                   "of the last 50 ms of all processes for ui.perfetto.dev"},
    [OPT_BREAK_TRACE] = {"break-trace", "FILE", "where (break.json)"},
    [OPT_SEED] = {"seed", "N", "of arrivals (1)"},
    [OPT_JSON] = {"json", NULL, "one JSON object on stdout, instead of table and histogram"},
    [OPT_PLOT] =
        {"plot", "FILE",
         "the distributions, or the ablation, as a picture, FILE.png or\nFILE.svg (gnuplot)"},
    [OPT_HISTOGRAM] = {"histogram", "FILE",
                       "the latencies as HDR histograms: FILE.json, or for each mode the text of\n"
                       "HdrHistogram's plotters, in FILE with the mode before its ending"},
    [OPT_ABLATION] = {"ablation", NULL,
                      "a table of caps, time budget, alone mode, padding, gates and\n"
                      "suspending, with kernels of 20, 200, 2000 and 50000 us"},
    [OPT_ATTACH] = {"attach", "PID",
                    "measure this running process instead, or the busiest of a level (1, 2, rt),\n"
                    "by its page and its trace, without touching it"},
    [OPT_SECONDS] = {"seconds", "N", "for how long (5)"},
    [OPT_SOCKET] = {"socket", "PATH", "the daemon's socket, with --attach"},
    [OPT_WORKER] = {"worker", "ROLE", NULL},
    {0},
};

const char *const bench_mode_names[] = {"alone", "native", "ungated", "cutin", NULL};

static void parse_arrivals(struct bench_plan *p, const struct subcommand *cmd, const char *text)
{
    char why[256];

    if (arrivals_parse(&p->arrivals, text, why, sizeof(why)) != 0)
        fail_usage(cmd, "--arrivals=%s", why);
}

/* What was not given. */
static void fill(struct bench_plan *p)
{
    if (p->preset)
        preset_fill(p, p->preset);
    if (p->rt_kernels == 0)
        p->rt_kernels = 1;
    if (p->rt_kernel_us == 0)
        p->rt_kernel_us = 20;
    /* Some variants keep real time waiting for longer than a gap. */
    if (p->ablation && !p->arrivals_given)
        p->arrivals.kind = ARRIVALS_CLOSED;
    if (p->samples == 0)
        p->samples = p->ablation ? 300 : 1000;
    if (p->be_kernel_us == 0 && !p->ablation)
        p->be_kernel_us = 200;
    if (p->gap_us == 0)
        p->gap_us = arrivals_open(&p->arrivals) ? 5000 : 2000;
    if (p->modes == 0)
        p->modes = ((1u << BENCH_MODES) - 1) & ~(p->be_graph ? 0 : 1u << BENCH_UNGATED);
}

static struct attach_plan attach = {.seconds = 5};

static void parse(struct bench_plan *p, int argc, char **argv)
{
    const struct subcommand *cmd = &subcommand_latency;
    static const char *const methods[] = {"auto", "log", "events", NULL};
    int row, method = 0;

#define NUMBER(field, least, most)                                                                 \
    p->field = (__typeof__(p->field))options_number(cmd, row, optarg, least, most);                \
    break
    while ((row = options_next(cmd, argc, argv)) != OPTIONS_END) {
        switch (row) {
        case OPT_SIM:
            p->sim = true;
            break;
        case OPT_PRESET:
            p->preset = &presets[options_word(cmd, row, optarg, preset_names)];
            break;
        case OPT_SAMPLES:
            NUMBER(samples, 1, 1000000);
        case OPT_BE_KERNEL_US:
            NUMBER(be_kernel_us, 1, 1000000);
        case OPT_BE_GRAPH:
            NUMBER(be_graph, 1, 100000);
        case OPT_MODE:
            p->modes |= 1u << options_word(cmd, row, optarg, bench_mode_names);
            break;
        case OPT_RT_KERNELS:
            NUMBER(rt_kernels, 1, 1000);
        case OPT_RT_KERNEL_US:
            NUMBER(rt_kernel_us, 1, 1000000);
        case OPT_ARRIVALS:
            parse_arrivals(p, cmd, optarg);
            p->arrivals_given = true;
            break;
        case OPT_RATE:
            p->gap_us = 1e6 / options_decimal(cmd, row, optarg, 0.001, 1000000);
            break;
        case OPT_GAP_US:
            NUMBER(gap_us, 1, 10000000);
        case OPT_SOLO_MS:
            NUMBER(solo_ms, 0, 600000);
        case OPT_FLOOR_MS:
            NUMBER(floor_ms, 0, 600000);
        case OPT_PERCENTILE:
            p->percentile = options_decimal(cmd, row, optarg, 0.001, 99.9999);
            break;
        case OPT_DISTANCE:
            options_us(cmd, row, optarg, 10000, p->distance_us);
            break;
        case OPT_WARM_UP:
            NUMBER(warm_up, 0, 1000000);
        case OPT_BOUND:
            p->bound_us = options_decimal(cmd, row, optarg, 0.001, 1e9);
            break;
        case OPT_STAGES:
            p->stages = true;
            method = options_word(cmd, row, optarg, methods);
            break;
        case OPT_BREAK:
            p->break_us = options_decimal(cmd, row, optarg, 0.001, 1e9);
            break;
        case OPT_BREAK_TRACE:
            p->break_trace = optarg;
            break;
        case OPT_SEED:
            NUMBER(seed, 0, UINT64_MAX);
        case OPT_JSON:
            p->json = true;
            break;
        case OPT_PLOT:
            p->plot = optarg;
            break;
        case OPT_HISTOGRAM:
            p->histogram = optarg;
            break;
        case OPT_ABLATION:
            p->ablation = true;
            break;
        case OPT_ATTACH:
            attach.who = optarg;
            break;
        case OPT_SECONDS:
            attach.seconds = options_decimal(cmd, row, optarg, 0.01, 86400);
            break;
        case OPT_SOCKET:
            attach.socket = optarg;
            break;
        case OPT_WORKER:
            exit(worker_main(optarg));
        }
    }
#undef NUMBER
    options_no_operands(cmd, argc, argv);
    if (p->ablation && p->histogram)
        fail_usage(cmd, "--ablation prints a table, no --histogram");
    if (p->ablation && p->modes)
        fail_usage(cmd, "--ablation has modes of its own");
    if (p->ablation && p->preset)
        fail_usage(cmd, "--ablation has kernels of its own, no --preset");
    if (p->ablation && p->be_graph)
        fail_usage(cmd, "--ablation launches kernels one by one, not --be-graph");
    if ((p->modes >> BENCH_UNGATED & 1) && !p->be_graph)
        fail_usage(cmd, "--mode ungated needs --be-graph");
    fill(p);
    if (p->preset && p->modes >> BENCH_CUTIN & 1)
        p->stages = true;
    p->method = method == 2 || (method == 0 && !p->sim) ? BENCH_TRACE_EVENTS : BENCH_TRACE_LOG;
    if (p->break_us > 0 && !(p->modes >> BENCH_CUTIN & 1))
        fail_usage(cmd, "--break is for --mode cutin");
    if (p->break_us > 0 && p->stages && p->method == BENCH_TRACE_EVENTS)
        fail_usage(cmd, "--break keeps the newest records, --stages events the first: one of them");
    if (p->stages && !(p->modes >> BENCH_CUTIN & 1))
        fail_usage(cmd, "--stages are those of --mode cutin");
    if (p->samples < figures_least_samples(p->percentile))
        fail_usage(cmd, "--percentile %g needs at least %zu samples, not %u", p->percentile,
                   figures_least_samples(p->percentile), p->samples);
}

static int report(struct bench *b, int argc, char **argv)
{
    json_t *root = bench_json(b);
    int rc;

    json_object_set_new(json_object_get(root, "config"), "command", result_command(argc, argv));
    if (!b->plan.json) {
        bench_print(b);
    }
    rc = result_give(&subcommand_latency, root, b->plan.json, b->plan.plot);
    if (b->plan.histogram && bench_histogram(b, b->plan.histogram, b->why, sizeof(b->why)) != 0) {
        say(&subcommand_latency, "%s", b->why);
        rc = EXIT_FAILURE;
    }
    if (b->cancelled && rc == EXIT_SUCCESS)
        say(&subcommand_latency, "interrupted; the figures are of what was measured");
    if (b->checked && !b->identical)
        rc = EXIT_FAILURE;
    if (bench_has(b, BENCH_CUTIN) && !bench_engaged(b) && !b->cancelled && !b->broke.broke) {
        say(&subcommand_latency,
            "cutin held nobody (%" PRIu64 " cut-ins, %" PRIu64 " holds, %" PRIu64
            " gates): these figures are not its",
            b->engagement.cut_ins, b->engagement.holds, b->engagement.gates);
        rc = EXIT_FAILURE;
    }
    return rc;
}

static int latency(int argc, char **argv)
{
    static struct bench bench = {
        .plan = {.break_trace = "break.json", .solo_ms = 1500, .floor_ms = 300, .seed = 1}};
    int rc;

    parse(&bench.plan, argc, argv);
    if (bench.plan.plot && plot_check(bench.plan.plot, bench.why, sizeof(bench.why)) != 0) {
        say(&subcommand_latency, "%s", bench.why);
        return EXIT_FAILURE;
    }
    progress_begin();
    attach.json = bench.plan.json;
    if (attach.who)
        return attach_run(&attach, argc, argv);
    if (bench.plan.ablation)
        return ablation_run(&bench.plan, argc, argv);
    rc = bench_run(&bench);
    if (rc != 0)
        say(&subcommand_latency, "%s", bench.why);
    rc = rc == 0 ? report(&bench, argc, argv) : EXIT_FAILURE;
    bench_free(&bench);
    return rc;
}

const struct subcommand subcommand_latency = {
    .name = "latency",
    .summary = "how long does real-time work wait on a busy GPU?",
    .synopsis = "[OPTIONS]",
    .about =
        "Measures from a request's arrival to the completion of its short kernel: alone, beside a\n"
        "busy best-effort process on the plain driver (native), and with both under cutin.",
    .options = options,
    .run = latency,
};
