/*
 * group.c - what the resource manager does to a context's channel group (see group.h). timeline.c
 * finds the changes at its next look, and draws the consequences.
 */
#include "tools/simgpu/device/group.h"

static struct device_context *context_at(struct device *d, uint32_t id, uint64_t now)
{
    struct device_context *c = &d->shared->contexts[id % DEVICE_CONTEXTS];
    if (c->id != id)
        return NULL;
    /* There is no event between the clock and `now`. */
    if (d->shared->clock < now)
        d->shared->clock = now;
    return c;
}

void device_group_preempt(struct device *d, uint32_t context, uint64_t now, uint64_t cost_ns)
{
    const struct device_context *c = context_at(d, context, now);
    struct device_gpu *g = c ? &d->shared->gpus[c->gpu] : NULL;
    uint64_t end = d->shared->clock + cost_ns;
    if (!g || g->current != context % DEVICE_CONTEXTS + 1 || g->switch_end_ns > end)
        return;
    g->slice_end_ns = end;
    g->switch_end_ns = end;
}

void device_group_schedule(struct device *d, uint32_t context, bool on, uint64_t now,
                           uint64_t cost_ns)
{
    struct device_context *c = context_at(d, context, now);
    if (!c || c->off == !on)
        return;
    c->off = !on;
    if (!on)
        device_group_preempt(d, context, now, cost_ns);
}

void device_group_timeslice(struct device *d, uint32_t context, uint64_t slice_ns)
{
    struct device_context *c = context_at(d, context, 0);
    if (c)
        c->slice_ns = slice_ns;
}
