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
#include "bench.h"
#include "tools/cutin/progress.h"
#include "tools/cutin/result.h"

#include <inttypes.h>
#include <stdlib.h>

static struct bench bench = {.plan = {.break_trace = "break.json",
                                      .solo_ms = 1500,
                                      .floor_ms = 300,
                                      .method = BENCH_TRACE_AUTO,
                                      .seed = 1}};
static struct attach_plan attach = {.seconds = 5};
static int preset = -1;
static const char *worker;

static const struct option_row options[] = {
    BENCH_OPTION_ROWS(bench.plan, "poisson"),
    {"preset", "NAME",
     "use a published protocol and show its figures: xsched, reef, gpreempt or\n"
     "mlperf-server; other options override the preset",
     TAKE_WORD(preset, preset_names)},
    {"samples", "N", "samples per mode (1000)", TAKE_NUMBER(bench.plan.samples, 1, 1000000)},
    {"be-kernel-us", "N", "duration of best-effort kernels (200)",
     TAKE_NUMBER(bench.plan.be_kernel_us, 1, 1000000)},
    {"be-graph", "N", "best effort launches CUDA graphs of N kernels",
     TAKE_NUMBER(bench.plan.be_graph, 1, 100000)},
    {"mode", "MODE",
     "measure only this mode: alone, native, cutin or, with --be-graph, ungated;\n"
     "may be repeated (all)",
     TAKE_WORDS(bench.plan.modes, bench_mode_names)},
    {"floor-ms", "N", "how long to measure the machine's own noise first; 0: not at all (300)",
     TAKE_NUMBER(bench.plan.floor_ms, 0, 600000)},
    {"percentile", "P",
     "also print this percentile, such as 99.9, with its interval; needs enough\n"
     "--samples",
     TAKE_DECIMAL(bench.plan.percentile, 0.001, 99.9999)},
    {"bound", "US", "count the answers that take longer",
     TAKE_DECIMAL(bench.plan.bound_us, 0.001, 1e9)},
    {"break", "US",
     "stop at the first answer under cutin that takes longer, and write a trace\n"
     "of the last 50 ms of all processes for ui.perfetto.dev",
     TAKE_DECIMAL(bench.plan.break_us, 0.001, 1e9)},
    {"break-trace", "FILE", "the trace of --break (break.json)", TAKE_TEXT(bench.plan.break_trace)},
    {"histogram", "FILE",
     "write the latencies as HDR histograms: to FILE.json, or as one text file\n"
     "per mode for HdrHistogram's plotters (FILE.cutin.hgrm for FILE.hgrm)",
     TAKE_TEXT(bench.plan.histogram)},
    {"attach", "PID",
     "measure a running process from outside: PID, or the busiest process of a\n"
     "level (1, 2, rt)",
     TAKE_TEXT(attach.who)},
    {"seconds", "N", "how long to measure, with --attach (5)",
     TAKE_DECIMAL(attach.seconds, 0.01, 86400)},
    {"socket", "PATH", "the daemon's socket, with --attach", TAKE_TEXT(attach.socket)},
    {"worker", "ROLE", NULL, TAKE_TEXT(worker)},
    {0},
};

static void check(struct bench_plan *p)
{
    const struct subcommand *cmd = &subcommand_latency;

    if ((p->modes >> BENCH_UNGATED & 1) && !p->be_graph)
        fail_usage(cmd, "--mode ungated needs --be-graph");
    /* What was not given. */
    if (p->preset)
        preset_fill(p, p->preset);
    if (p->samples == 0)
        p->samples = 1000;
    if (p->be_kernel_us == 0)
        p->be_kernel_us = 200;
    if (p->modes == 0)
        p->modes = ((1u << BENCH_MODES) - 1) & ~(p->be_graph ? 0 : 1u << BENCH_UNGATED);
    bench_options_fill(p);
    if (p->preset && p->modes >> BENCH_CUTIN & 1)
        p->stages = true;
    if (p->break_us > 0 && !(p->modes >> BENCH_CUTIN & 1))
        fail_usage(cmd, "--break needs --mode cutin");
    if (p->break_us > 0 && p->stages && p->method == BENCH_TRACE_EVENTS)
        fail_usage(cmd,
                   "--break keeps the newest trace records, --stages events the first: use one");
    if (p->stages && !(p->modes >> BENCH_CUTIN & 1))
        fail_usage(cmd, "--stages needs --mode cutin");
    if (p->samples < figures_least_samples(p->percentile))
        fail_usage(cmd, "--percentile %g needs at least %zu samples, not %u", p->percentile,
                   figures_least_samples(p->percentile), p->samples);
}

static int report(struct bench *b, int argc, char **argv)
{
    json_t *root = bench_json(b);
    int rc;

    json_object_set_new(json_object_get(root, "config"), "command", result_command(argc, argv));
    if (!b->plan.json)
        bench_print(b);
    rc = result_give(root, b->plan.json);
    if (b->plan.histogram && bench_histogram(b, b->plan.histogram, b->why, sizeof(b->why)) != 0)
        rc = say(&subcommand_latency, "%s", b->why);
    if (b->cancelled && rc == EXIT_SUCCESS)
        say(&subcommand_latency, "interrupted; the figures are of what was measured");
    if (b->checked && !b->identical)
        rc = EXIT_FAILURE;
    if (bench_has(b, BENCH_CUTIN) && !bench_engaged(b) && !b->cancelled && !b->broke.broke)
        rc = say(&subcommand_latency,
                 "cutin held nobody (%" PRIu64 " cut-ins, %" PRIu64 " holds, %" PRIu64
                 " gates): the figures do not show its effect",
                 b->engagement.cut_ins, b->engagement.holds, b->engagement.gates);
    return rc;
}

static int latency(int argc, char **argv)
{
    int rc;

    options_read(&subcommand_latency, argc, argv);
    if (worker)
        return worker_main(worker);
    options_no_operands(&subcommand_latency, argc, argv);
    if (preset >= 0)
        bench.plan.preset = &presets[preset];
    check(&bench.plan);
    if (output_check(&subcommand_latency, bench.plan.histogram) != 0 ||
        (bench.plan.break_us > 0 && output_check(&subcommand_latency, bench.plan.break_trace) != 0))
        return EXIT_FAILURE;
    progress_begin();
    attach.json = bench.plan.json;
    if (attach.who)
        return attach_run(&attach, argc, argv);
    rc = bench_run(&bench);
    rc = rc == 0 ? report(&bench, argc, argv) : say(&subcommand_latency, "%s", bench.why);
    bench_free(&bench);
    return rc;
}

const struct subcommand subcommand_latency = {
    .name = "latency",
    .summary = "measure how long real-time work waits on a busy GPU",
    .synopsis = "[OPTIONS]",
    .about =
        "Measures the time from a request's arrival to the completion of its short kernel: alone,\n"
        "beside a busy best-effort process on the plain driver (native), and with both under\n"
        "cutin.",
    .options = options,
    .run = latency,
};
