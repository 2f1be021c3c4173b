/*
 * bench_options.h - the options that every command has which runs benches: first rows of its table.
 */
#ifndef CUTIN_TOOLS_CUTIN_LATENCY_BENCH_OPTIONS_H
#define CUTIN_TOOLS_CUTIN_LATENCY_BENCH_OPTIONS_H

#include "bench.h"
#include "tools/cutin/subcommand.h"

enum {
    BENCH_OPT_SIM,
    BENCH_OPT_RT_KERNELS,
    BENCH_OPT_RT_KERNEL_US,
    BENCH_OPT_ARRIVALS,
    BENCH_OPT_RATE,
    BENCH_OPT_GAP_US,
    BENCH_OPT_SOLO_MS,
    BENCH_OPT_DISTANCE,
    BENCH_OPT_WARM_UP,
    BENCH_OPT_STAGES,
    BENCH_OPT_SEED,
    BENCH_OPT_JSON,
    BENCH_OPT_PLOT,
    BENCH_OPTIONS,
};

/* `arrivals`: what they are where they are not given. */
#define BENCH_OPTION_ROWS(default_arrivals)                                                        \
    [BENCH_OPT_SIM] = {"sim", NULL, "on a simulated GPU of this run's own"},                       \
    [BENCH_OPT_RT_KERNELS] = {"rt-kernels", "N", "real-time kernels per sample (1)"},              \
    [BENCH_OPT_RT_KERNEL_US] = {"rt-kernel-us", "N", "duration of each (20)"},                     \
    [BENCH_OPT_ARRIVALS] =                                                                         \
        {"arrivals", "KIND",                                                                       \
         "poisson, uniform[:SPREAD], gamma:SHAPE or trace:FILE, an open loop:\n"                   \
         "latency counts from when a request was to come; or closed: the next\n"                   \
         "one comes a pause after the answer, and counts from its launch "                         \
         "(" default_arrivals ")"},                                                                \
    [BENCH_OPT_RATE] = {"rate", "N", "requests per second (200)"},                                 \
    [BENCH_OPT_GAP_US] = {"gap-us", "N",                                                           \
                          "the same as a mean gap; in a closed loop the mean pause (2000)"},       \
    [BENCH_OPT_SOLO_MS] = {"solo-ms", "N", "how long best effort runs with nobody above (1500)"},  \
    [BENCH_OPT_DISTANCE] = {"distance", "TIME",                                                    \
                            "as if the GPU were a round trip of that long away, such as 8us, in\n" \
                            "every mode"},                                                         \
    [BENCH_OPT_WARM_UP] = {"warm-up", "N", "requests before the samples, in all (0)"},             \
    [BENCH_OPT_STAGES] =                                                                           \
        {"stages", "METHOD",                                                                       \
         "also what each cut-in's time was spent on, by the simulated device's\n"                  \
         "log (log) or by timing events behind every kernel (events); auto takes\n"                \
         "the log where there is one"},                                                            \
    [BENCH_OPT_SEED] = {"seed", "N", "of arrivals (1)"},                                           \
    [BENCH_OPT_JSON] = {"json", NULL, "one JSON object on stdout, instead of tables"},             \
    [BENCH_OPT_PLOT] = {"plot", "FILE",                                                            \
                        "the figures as a picture, FILE.png or FILE.svg (gnuplot)"}

/* Takes the option of this row, or returns false: it is one of the command's own. */
bool bench_option(struct bench_plan *p, const struct subcommand *cmd, int row);
/* What was not given and follows from the rest. */
void bench_options_fill(struct bench_plan *p);

#endif
