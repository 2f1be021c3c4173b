/*
 * machine.c - operations on a modelled machine (see machine.h).
 */
#include "machine.h"
#include "shape.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* A longer kernel is slowed down as one of this length and of the same grid is. */
#define LONG_ENOUGH_NS 4e6

/* Kernels of the same shape and nearly the same duration: modules slow them down alike. */
struct alike {
    uint64_t blocks;
    uint32_t at_once, warps;
    int quarter; /* log2 of the duration, in quarters */
    double factor;
};

struct table {
    struct alike *list; /* not sorted: the latest ones are asked for most often */
    size_t n, room;
};

static bool alike_is(const struct alike *a, const struct alike *b)
{
    return a->blocks == b->blocks && a->at_once == b->at_once && a->warps == b->warps &&
           a->quarter == b->quarter;
}

/* How many bytes the kernel asks for: as many as memory delivers in its part of the time to its
 * multiprocessors, and at most as many as its blocks can wait for in that time. */
static uint64_t bytes_of(const struct machine *m, const struct alike *a, double wave_ns,
                         double waves)
{
    double busy = (double)a->blocks / ((double)m->processors * a->at_once);
    double stream = m->modules.dram_gbs * wave_ns * waves * (busy < 1 ? busy : 1);
    double waiting = (double)a->blocks * a->warps * MODULES_LINE_BYTES * wave_ns / MODULES_DRAM_NS;

    return (uint64_t)(m->memory * fmin(stream, waiting * m->pattern->own));
}

static int run_once(const struct machine *m, const struct alike *a, bool single, double *ns)
{
    struct modules machine = m->modules;
    double duration_ns = exp2((double)a->quarter / 4);
    double waves = ceil((double)a->blocks / ((double)m->processors * a->at_once));
    struct modules_kernel k = {.pattern = m->pattern,
                               .blocks = a->blocks,
                               .blocks_at_once = a->at_once,
                               .warps = a->warps,
                               .wave_ns = {duration_ns / waves}};
    struct modules_time t;
    int rc;

    machine.processors = m->processors;
    if (single) {
        machine.modules = 1;
        machine.remote_bytes = 0;
    }
    k.bytes = bytes_of(m, a, k.wave_ns[0], waves);
    rc = modules_run(&machine, &k, &t);
    *ns = rc == 0 ? t.ns[0] : 0;
    return rc;
}

static int factor_find(struct table *t, const struct machine *m, struct alike *a)
{
    double single, modular;
    int rc;

    for (size_t i = t->n; i-- > 0;)
        if (alike_is(&t->list[i], a)) {
            a->factor = t->list[i].factor;
            return 0;
        }
    rc = run_once(m, a, true, &single);
    if (rc == 0)
        rc = run_once(m, a, false, &modular);
    if (rc == 0)
        rc = list_grow(&t->list, &t->room, t->n, sizeof(*t->list));
    if (rc != 0)
        return rc;
    a->factor = single > 0 ? modular / single : 1;
    t->list[t->n++] = *a;
    return 0;
}

static int kernel_ns(const struct machine *m, struct table *t, const struct workload_op *op,
                     double *ns)
{
    struct alike a = {.blocks = shape_blocks(op), .at_once = shape_blocks_at_once(op)};
    uint32_t threads = (uint32_t)op->block[0] * op->block[1] * op->block[2];
    int rc = 0;

    *ns = (double)op->duration_ns / m->speed * (double)shape_waves(op, m->processors) /
          (double)shape_waves(op, m->recorded_processors);
    if (!m->modular || *ns < 1)
        return 0;
    a.warps = (threads + 31) / 32;
    a.quarter = (int)lround(log2(fmin(*ns, LONG_ENOUGH_NS)) * 4);
    rc = factor_find(t, m, &a);
    *ns *= rc == 0 ? a.factor : 1;
    return rc;
}

int machine_times(const struct machine *m, const struct workload *w, uint64_t *ns)
{
    struct table t = {0};
    int rc = 0;

    for (size_t i = 0; i < w->ops && rc == 0; i++) {
        const struct workload_op *op = &w->op[i];
        double here = (double)op->duration_ns;

        if (op->kind == WORKLOAD_KERNEL)
            rc = kernel_ns(m, &t, op, &here);
        ns[i] = distance_op_ns(&m->distance, op, (uint64_t)(here + 0.5));
    }
    free(t.list);
    return rc;
}
