/*
 * bench_options.c - options of the commands that run benches; a command that runs one bench.
 */
#include "bench.h"
#include "tools/cutin/progress.h"
#include "tools/cutin/result.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const bench_trace_words[] = {
    [BENCH_TRACE_LOG] = "log", [BENCH_TRACE_EVENTS] = "events", [BENCH_TRACE_AUTO] = "auto", NULL};

void bench_take_arrivals(const struct subcommand *cmd, int row, void *plan)
{
    struct bench_plan *p = plan;
    char why[256];

    if (arrivals_parse(&p->arrivals, optarg, why, sizeof(why)) != 0)
        fail_usage(cmd, "--arrivals=%s", why);
    p->arrivals_given = true;
}

void bench_options_fill(struct bench_plan *p)
{
    if (p->rt_kernels == 0)
        p->rt_kernels = 1;
    if (p->rt_kernel_us == 0)
        p->rt_kernel_us = 20;
    if (p->rate == 0)
        p->rate = arrivals_is_open(&p->arrivals) ? 200 : 500;
    p->gap_us = 1e6 / p->rate;
    p->stages |= p->method != BENCH_TRACE_UNASKED;
    if (p->method >= BENCH_TRACE_AUTO)
        p->method = p->sim ? BENCH_TRACE_LOG : BENCH_TRACE_EVENTS;
}

static void check(const struct subcommand *cmd, struct bench_plan *p)
{
    if ((p->modes >> BENCH_UNGATED & 1) && !p->be_graph)
        fail_usage(cmd, "--mode ungated needs --be-graph");
    /* Defaults. */
    if (p->samples == 0)
        p->samples = 1000;
    if (p->be_kernel_us == 0)
        p->be_kernel_us = 200;
    if (p->modes == 0)
        p->modes = ((1u << BENCH_MODES) - 1) & ~(p->be_graph ? 0 : 1u << BENCH_UNGATED);
    bench_options_fill(p);
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

int bench_command(const struct subcommand *cmd, struct bench *b, int argc, char **argv,
                  void (*more)(const struct bench *b, json_t *root))
{
    const struct bench_plan *p = &b->plan;
    json_t *root;
    int rc, wrote;

    check(cmd, &b->plan);
    if (output_check(cmd, p->latencies) != 0 ||
        (p->break_us > 0 && output_check(cmd, p->break_trace) != 0))
        return EXIT_FAILURE;
    progress_begin();
    if (bench_run(b) != 0) {
        say(cmd, "%s", b->why);
        bench_free(b);
        return EXIT_FAILURE;
    }
    root = bench_json(b);
    json_object_set_new(json_object_get(root, "config"), "command", result_command(argc, argv));
    if (!p->json)
        bench_print(b);
    if (more)
        more(b, root);
    rc = result_give(root, p->json);
    if (p->latencies && (wrote = bench_latencies_write(b, p->latencies)) != 0)
        rc = say(cmd, "%s: %s", p->latencies, strerror(-wrote));
    if (b->cancelled && rc == EXIT_SUCCESS)
        say(cmd, "interrupted; the figures cover what was measured");
    if (b->checked && !b->identical)
        rc = EXIT_FAILURE;
    if (bench_has(b, BENCH_CUTIN) && !b->engagement.engaged && !b->cancelled && !b->broke.broke)
        rc = say(cmd,
                 "cutin held nothing (%" PRIu64 " cut-ins, %" PRIu64 " holds, %" PRIu64
                 " gates): the figures do not show its effect",
                 b->engagement.cut_ins, b->engagement.holds, b->engagement.gates);
    bench_free(b);
    return rc;
}
