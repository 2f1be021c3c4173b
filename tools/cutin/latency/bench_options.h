/*
 * bench_options.h - the options that every command has which runs benches: first rows of its table.
 */
#ifndef CUTIN_TOOLS_CUTIN_LATENCY_BENCH_OPTIONS_H
#define CUTIN_TOOLS_CUTIN_LATENCY_BENCH_OPTIONS_H

#include "bench.h"
#include "tools/cutin/subcommand.h"

/* Of the bench_plan `p`. `arrivals`: what they are where they are not given. */
#define BENCH_OPTION_ROWS(p, default_arrivals)                                                     \
    {"sim", NULL, "on a simulated GPU of this run's own", TAKE_FLAG((p).sim)},                     \
        {"rt-kernels", "N", "real-time kernels per sample (1)",                                    \
         TAKE_NUMBER((p).rt_kernels, 1, 1000)},                                                    \
        {"rt-kernel-us", "N", "duration of each (20)", TAKE_NUMBER((p).rt_kernel_us, 1, 1000000)}, \
        {"arrivals", "KIND",                                                                       \
         "poisson, uniform[:SPREAD], gamma:SHAPE or trace:FILE, an open loop:\n"                   \
         "latency counts from when a request was to come; or closed: the next\n"                   \
         "one comes a pause after the answer, and counts from its launch "                         \
         "(" default_arrivals ")",                                                                 \
         TAKE_BY(bench_take_arrivals, p)},                                                         \
        {"rate", "N", "requests per second (200)", TAKE_BY(bench_take_rate, (p).gap_us)},          \
        {"gap-us", "N", "the same as a mean gap; in a closed loop the mean pause (2000)",          \
         TAKE_NUMBER((p).gap_us, 1, 10000000)},                                                    \
        {"solo-ms", "N", "how long best effort runs with nobody above (1500)",                     \
         TAKE_NUMBER((p).solo_ms, 0, 600000)},                                                     \
        {"distance", "TIME",                                                                       \
         "as if the GPU were a round trip of that long away, such as 8us, in\n"                    \
         "every mode",                                                                             \
         TAKE_US((p).distance_us, 10000)},                                                         \
        {"warm-up", "N", "requests before the samples, in all (0)",                                \
         TAKE_NUMBER((p).warm_up, 0, 1000000)},                                                    \
        {"stages", "METHOD",                                                                       \
         "also what each cut-in's time was spent on, by the simulated device's\n"                  \
         "log (log) or by timing events behind every kernel (events); auto takes\n"                \
         "the log where there is one",                                                             \
         TAKE_BY(bench_take_stages, p)},                                                           \
        {"seed", "N", "of arrivals (1)", TAKE_NUMBER((p).seed, 0, UINT64_MAX)},                    \
        {"json", NULL, "one JSON object on stdout, instead of tables", TAKE_FLAG((p).json)},       \
    {                                                                                              \
        "plot", "FILE", "the figures as a picture, FILE.png or FILE.svg (gnuplot)",                \
            TAKE_TEXT((p).plot)                                                                    \
    }

void bench_take_arrivals(const struct subcommand *cmd, int row, void *plan);
void bench_take_rate(const struct subcommand *cmd, int row, void *gap_us);
void bench_take_stages(const struct subcommand *cmd, int row, void *plan);
/* What was not given and follows from the rest. */
void bench_options_fill(struct bench_plan *p);

#endif
