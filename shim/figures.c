/*
 * figures.c - counters of the page, summed up from the vHQs (see figures.h). From the client's
 * thread alone, some times a second: no call of the application pays for a figure.
 */
#include "shim/figures.h"

#include "scheduler/client.h"

static void add(_Atomic uint64_t *counter, uint64_t now, uint64_t before)
{
    atomic_fetch_add_explicit(counter, now - before, memory_order_relaxed);
}

void figures_publish(struct shim_context *ctx)
{
    struct cutin_page *page = client_page();
    if (!ctx->set || !page || ctx->gpu->index < 0)
        return;
    struct page_counters *c = &page->device[ctx->gpu->index].counters;
    struct vhq_stats now, *before = &ctx->published;
    vhq_set_stats(ctx->set, &now);
    add(&c->submitted, now.submitted, before->submitted);
    add(&c->buffered, now.buffered, before->buffered);
    add(&c->inlined, now.inlined, before->inlined);
    add(&c->in_flight, now.in_flight_now, before->in_flight_now);
    add(&c->holds, now.holds, before->holds);
    add(&c->hold_ns, now.hold_ns, before->hold_ns);
    add(&c->gpu_ns, now.gpu_ns, before->gpu_ns);
    add(&c->waiting, now.buffered_now, before->buffered_now);
    add(&c->dropped, now.dropped, before->dropped);
    *before = now;
}
