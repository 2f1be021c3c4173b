/*
 * resident_op.c - resident kernels on the timeline; see resident_op.h. If a process is killed
 * between two stores, the end of one kernel is slightly wrong.
 */
#include "tools/simgpu/device/resident_op.h"

void resident_leave(struct op *op, uint64_t clock)
{
    op->cost_ns = clock - op->end_ns;
    device_publish();
    op->flags |= OP_AWAY;
}

void resident_return(struct op *op, uint64_t clock)
{
    op->end_ns = clock - op->cost_ns;
    op->cost_ns = 0;
    device_publish();
    op->flags &= (uint8_t)~OP_AWAY;
}

uint64_t resident_overrun(const struct op *op, uint64_t now)
{
    if (op->flags & OP_AWAY)
        return op->cost_ns;
    return now > op->end_ns ? now - op->end_ns : 0;
}

/* The kernel may have run that far before its context lost the GPU. */
static void resume_away(struct op *op, uint64_t ns)
{
    if (ns <= op->cost_ns) {
        op->end_ns += ns;
        op->cost_ns -= ns;
        return;
    }
    op->cost_ns = ns - op->cost_ns;
    op->flags &= (uint8_t)~OP_AWAY;
    device_publish();
    op->state = OP_PAUSED;
}

static void resume_here(struct op *op, uint64_t clock, uint64_t ns)
{
    op->end_ns += ns;
    op->slowed = 0;
    device_publish();
    if (op->end_ns > clock)
        op->state = OP_RUNNING;
}

void device_resume(struct device *d, uint32_t stream, uint64_t seq, uint64_t ns)
{
    struct device_stream *s = device_stream(d, stream);
    if (s->id != stream || s->head != seq)
        return;
    struct op *op = stream_op(d->shared, s, seq);
    if (!resident_handed(op))
        return;
    op->flags &= (uint8_t)~OP_TAKEN;
    if (op->flags & OP_AWAY)
        resume_away(op, ns);
    else
        resume_here(op, d->shared->clock, ns);
}
