/*
 * bench_options.h - the options that every command has which runs benches: first rows of its table.
 */
#ifndef CUTIN_TOOLS_CUTIN_LATENCY_BENCH_OPTIONS_H
#define CUTIN_TOOLS_CUTIN_LATENCY_BENCH_OPTIONS_H

#include "bench.h"
#include "tools/cutin/subcommand.h"

/* Of the bench_plan `p`. `arrivals`: what they are where they are not given. */
#define BENCH_OPTION_ROWS(p, default_arrivals)                                                     \
    {"sim", NULL, "run on a private simulated GPU", TAKE_FLAG((p).sim)},                           \
        {"rt-kernels", "N", "real-time kernels per sample (1)",                                    \
         TAKE_NUMBER((p).rt_kernels, 1, 1000)},                                                    \
        {"rt-kernel-us", "N", "duration of each real-time kernel (20)",                            \
         TAKE_NUMBER((p).rt_kernel_us, 1, 1000000)},                                               \
        {"arrivals", "KIND",                                                                       \
         "poisson, uniform[:SPREAD], gamma:SHAPE or trace:FILE: latency counts from\n"             \
         "the scheduled arrival; closed: the next request comes a pause after the\n"               \
         "answer, and latency counts from its launch (" default_arrivals ")",                      \
         TAKE_BY(bench_take_arrivals, p)},                                                         \
        {"rate", "N", "mean requests per second (200)", TAKE_BY(bench_take_rate, (p).gap_us)},     \
        {"gap-us", "N",                                                                            \
         "mean gap between requests, instead of --rate; with closed arrivals the\n"                \
         "mean pause (2000)",                                                                      \
         TAKE_NUMBER((p).gap_us, 1, 10000000)},                                                    \
        {"solo-ms", "N", "how long best effort also runs without real time, per mode (1500)",      \
         TAKE_NUMBER((p).solo_ms, 0, 600000)},                                                     \
        {"distance", "TIME",                                                                       \
         "run every mode as if the GPU were this round trip away, such as 8us",                    \
         TAKE_US((p).distance_us, 10000)},                                                         \
        {"warm-up", "N", "requests per mode that are not measured (0)",                            \
         TAKE_NUMBER((p).warm_up, 0, 1000000)},                                                    \
        {"stages", "METHOD",                                                                       \
         "break down each cut-in's time; device times from the simulated device's\n"               \
         "log (log) or from timing events behind every kernel (events); auto: log\n"               \
         "with --sim, else events",                                                                \
         TAKE_BY(bench_take_stages, p)},                                                           \
        {"seed", "N", "random seed of arrivals (1)", TAKE_NUMBER((p).seed, 0, UINT64_MAX)},        \
        {"json", NULL, "one JSON object on stdout, instead of tables", TAKE_FLAG((p).json)},       \
    {                                                                                              \
        "plot", "FILE", "draw the figures to FILE.png or FILE.svg (needs gnuplot)",                \
            TAKE_TEXT((p).plot)                                                                    \
    }

void bench_take_arrivals(const struct subcommand *cmd, int row, void *plan);
void bench_take_rate(const struct subcommand *cmd, int row, void *gap_us);
void bench_take_stages(const struct subcommand *cmd, int row, void *plan);
/* What was not given and follows from the rest. */
void bench_options_fill(struct bench_plan *p);

#endif
