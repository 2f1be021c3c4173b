/*
 * bench_options.c - from options to the plan of a bench.
 */
#include "bench_options.h"

#include <getopt.h>

static void take_arrivals(struct bench_plan *p, const struct subcommand *cmd, const char *text)
{
    char why[256];

    if (arrivals_parse(&p->arrivals, text, why, sizeof(why)) != 0)
        fail_usage(cmd, "--arrivals=%s", why);
    p->arrivals_given = true;
}

bool bench_option(struct bench_plan *p, const struct subcommand *cmd, int row)
{
    static const char *const methods[] = {[BENCH_TRACE_LOG] = "log",
                                          [BENCH_TRACE_EVENTS] = "events",
                                          [BENCH_TRACE_AUTO] = "auto",
                                          NULL};

    switch (row) {
    case BENCH_OPT_SIM:
        p->sim = true;
        return true;
    case BENCH_OPT_RT_KERNELS:
        p->rt_kernels = (uint32_t)options_number(cmd, row, optarg, 1, 1000);
        return true;
    case BENCH_OPT_RT_KERNEL_US:
        p->rt_kernel_us = (uint32_t)options_number(cmd, row, optarg, 1, 1000000);
        return true;
    case BENCH_OPT_ARRIVALS:
        take_arrivals(p, cmd, optarg);
        return true;
    case BENCH_OPT_RATE:
        p->gap_us = 1e6 / options_decimal(cmd, row, optarg, 0.001, 1000000);
        return true;
    case BENCH_OPT_GAP_US:
        p->gap_us = (double)options_number(cmd, row, optarg, 1, 10000000);
        return true;
    case BENCH_OPT_SOLO_MS:
        p->solo_ms = (uint32_t)options_number(cmd, row, optarg, 0, 600000);
        return true;
    case BENCH_OPT_DISTANCE:
        options_us(cmd, row, optarg, 10000, p->distance_us);
        return true;
    case BENCH_OPT_WARM_UP:
        p->warm_up = (uint32_t)options_number(cmd, row, optarg, 0, 1000000);
        return true;
    case BENCH_OPT_STAGES:
        p->stages = true;
        p->method = (enum bench_trace_method)options_word(cmd, row, optarg, methods);
        return true;
    case BENCH_OPT_SEED:
        p->seed = options_number(cmd, row, optarg, 0, UINT64_MAX);
        return true;
    case BENCH_OPT_JSON:
        p->json = true;
        return true;
    case BENCH_OPT_PLOT:
        p->plot = optarg;
        return true;
    default:
        return false;
    }
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
