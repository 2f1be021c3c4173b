/*
 * latency.c - `cutin latency`: how long does real-time work wait on a busy GPU?
 *
 * A best-effort process keeps the GPU busy. A real-time process launches a short kernel for each
 * request; it measures on the host from the request's arrival until it knows the kernel complete.
 * Arrivals are drawn before the run, the same for every mode (arrivals.h). Modes alternate in
 * rounds, so other work of the machine hits all alike: `alone` (no best effort), `native` (both on
 * the plain driver), `cutin` (both under libcutin.so, with a private daemon), and, if best effort
 * launches CUDA graphs, `ungated` (as cutin, without gates in them). In each round best effort also
 * runs by itself, which shows what it loses with no client above. Its updates do not commute, so
 * its checksum shows whether one was lost, repeated or swapped.
 */
#include "bench.h"
#include "tools/cutin/progress.h"

static struct bench bench = {.plan = BENCH_ONE_PLAN};
static struct attach_plan attach = {.seconds = 5};
static const char *worker;

static const struct option_row options[] = {
    BENCH_ONE_OPTION_ROWS(bench.plan),
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

static int latency(int argc, char **argv)
{
    options_read(&subcommand_latency, argc, argv);
    if (worker)
        return worker_main(worker);
    options_no_operands(&subcommand_latency, argc, argv);
    if (!attach.who)
        return bench_command(&subcommand_latency, &bench, argc, argv, NULL);
    progress_begin();
    attach.json = bench.plan.json;
    return attach_run(&attach, argc, argv);
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
