/*
 * bench_stages.c - the stages of all cut-ins of a run.
 */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    BEFORE_NS = 50000000
}; /* what was submitted and began before the first request of a block */

int bench_stages_open(struct bench *b)
{
    struct bench_stages *s = &b->stages;

    for (int i = 0; i < STAGE_COUNT; i++) {
        s->ns[i] = calloc(b->plan.samples, sizeof(*s->ns[i]));
        if (!s->ns[i])
            return -ENOMEM;
    }
    return 0;
}

int bench_stages_take(struct bench *b, const struct worker_sample *sample, uint32_t n)
{
    struct bench_stages *s = &b->stages;
    struct stage_sample one;
    int rc;

    if (n == 0)
        return 0;
    stage_sources_clear(&s->sources);
    rc = bench_trace_read(&b->trace, b->rt[BENCH_CUTIN].pid, b->be[BENCH_CUTIN].pid,
                          sample->start_ns - BEFORE_NS, &s->sources, b->why, sizeof(b->why));
    if (rc != 0)
        return rc;
    stage_sources_sort(&s->sources);
    for (uint32_t i = 0; i < n; i++) {
        stages_of(&s->sources, &sample[i], &one);
        for (int k = 0; k < STAGE_COUNT; k++)
            if (one.ns[k] != STAGE_NONE)
                s->ns[k][s->n[k]++] = one.ns[k];
        s->paused += one.paused;
    }
    s->cut_ins += n;
    return 0;
}

void bench_stages_describe(struct bench *b)
{
    for (int i = 0; i < STAGE_COUNT && b->plan.stages; i++)
        figures_make(&b->stages.figures[i], b->stages.ns[i], b->stages.n[i]);
}

void bench_stages_free(struct bench *b)
{
    for (int i = 0; i < STAGE_COUNT; i++)
        free(b->stages.ns[i]);
    stage_sources_free(&b->stages.sources);
}
