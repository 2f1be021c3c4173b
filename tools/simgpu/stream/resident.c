/*
 * resident.c - resident kernels; see resident.h. Steps happen at modelled instants. If the engine
 * wakes late it makes them up, one by one. But a kernel that waits looks only once for all the
 * looks that it missed, because it can only see the present.
 */
#include "tools/simgpu/stream/resident.h"
#include "tools/simgpu/device/resident_op.h"
#include "tools/simgpu/device/timeline.h"
#include "tools/simgpu/face/simconfig.h"

enum {
    POLL_PART = 64, /* looks at what is waited for are this part of the wait apart, */
    POLL_MOST = 10, /* but no more than so many polling intervals */
};

struct resident {
    struct item *item;
    uint64_t at_ns;  /* the modelled instant of its step */
    uint64_t run_ns; /* from where it was handed to the step; after the step: to the next */
};

static struct resident taken[DEVICE_STREAMS]; /* at most the head of each stream */
static size_t count;

uint64_t poll_interval(uint64_t waited_ns)
{
    uint64_t least = (uint64_t)config_get()->poll_us * 1000u;
    uint64_t part = waited_ns / POLL_PART;
    part = part < least ? least : part;
    return part < least * POLL_MOST ? part : least * POLL_MOST;
}

uint64_t resident_step(struct work *w, uint64_t at_ns)
{
    uint64_t ns = w->step(w, at_ns);
    if (ns == RUN_POLL) {
        if (!w->poll_ns)
            w->poll_since_ns = at_ns;
        return w->poll_ns = poll_interval(at_ns - w->poll_since_ns);
    }
    w->poll_ns = 0;
    if (ns == RUN_OVER) {
        w->step = NULL;
        return RUN_OVER;
    }
    ns = (uint64_t)((double)ns / config_get()->speed);
    return ns ? ns : 1;
}

void resident_take(struct item *item, struct op *op, uint64_t now)
{
    uint64_t each = item->work.poll_ns;
    uint64_t missed = each ? resident_overrun(op, now) / each * each : 0;
    op->flags |= OP_TAKEN;
    taken[count++] = (struct resident){item, op->end_ns + missed, missed};
}

bool residents_taken(void)
{
    return count > 0;
}

void residents_step(void)
{
    for (size_t i = 0; i < count; i++)
        taken[i].run_ns += resident_step(&taken[i].item->work, taken[i].at_ns);
}
static_assert(RUN_OVER == 0, "a kernel that is over runs no longer");

static int by_instant(const void *a, const void *b)
{
    const struct resident *x = a, *y = b;
    return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

void residents_resume(struct device *d)
{
    if (count > 1)
        qsort(taken, count, sizeof(*taken), by_instant);
    for (size_t i = 0; i < count; i++) {
        const struct resident *r = &taken[i];
        struct work *w = &r->item->work;
        uint32_t stream = atomic_load(&r->item->stream->device_stream);
        w->cost_ns += r->run_ns;
        device_advance(d, r->at_ns);
        if (w->step)
            device_resume(d, stream, r->item->seq, r->run_ns);
        else
            device_resolve(d, stream, r->item->seq, r->at_ns);
    }
    count = 0;
}
