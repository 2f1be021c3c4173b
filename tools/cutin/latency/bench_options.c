/*
 * bench_options.c - from options to the plan of a bench.
 */
#include "bench_options.h"

#include <getopt.h>

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
