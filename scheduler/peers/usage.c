/*
 * usage.c - how much of a device's time each client has had (see usage.h).
 */
#include "scheduler/peers/usage.h"

#include <utlist.h>

#include "common/clock.h"

static bool several; /* clients are on one device */

static uint64_t counter(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

/* Counters are the client's own, and may go backwards. */
static uint64_t since(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static uint64_t told(const struct peer *p, uint32_t slot)
{
    return since(counter(&p->page->page->device[slot].counters.gpu_ns), p->device[slot].told_ns);
}

static uint64_t unsure(const struct peer *p, uint32_t slot)
{
    const struct page_counters *c = &p->page->page->device[slot].counters;
    uint64_t ns = since(counter(&c->unsure_ns), p->device[slot].told_unsure_ns);

    return ns < told(p, slot) ? ns : told(p, slot);
}

/* What it had before there was this daemon, or any, is no part of the time since the last look. */
static void past(struct peer *p, uint32_t slot)
{
    const struct page_counters *c = &p->page->page->device[slot].counters;
    struct peer_device *mine = &p->device[slot];

    /* Partner: state_refill. */
    if (mine->past || !atomic_load_explicit(&p->page->page->counted_since_ns, memory_order_acquire))
        return;
    mine->past = true;
    mine->used_ns = mine->told_ns = counter(&c->gpu_ns);
    mine->told_unsure_ns = counter(&c->unsure_ns);
}

static void add(struct peer *p, uint32_t slot, uint64_t now)
{
    past(p, slot);
    struct device_usage *all = topology_usage(p->device[slot].device);

    several |= ++all->clients > 1;
    all->sum_ns += told(p, slot);
    all->unsure_ns += unsure(p, slot);
}

static void divide(struct peer *p, uint32_t slot, uint64_t now)
{
    const struct device_usage *all = topology_usage(p->device[slot].device);
    const struct page_counters *c = &p->page->page->device[slot].counters;
    struct peer_device *mine = &p->device[slot];
    uint64_t there_was = all->at_ns ? since(now, all->at_ns) : all->sum_ns;
    uint64_t excess = since(all->sum_ns, there_was), sure = all->sum_ns - all->unsure_ns;
    uint64_t ns = told(p, slot);

    if (excess && excess <= all->unsure_ns)
        ns -= (uint64_t)((double)excess * (double)unsure(p, slot) / (double)all->unsure_ns);
    else if (excess)
        ns = (uint64_t)((double)(ns - unsure(p, slot)) * (double)there_was / (double)sure);
    mine->used_ns += ns;
    mine->told_ns = counter(&c->gpu_ns);
    mine->told_unsure_ns = counter(&c->unsure_ns);
}

/* What a client did alone is what it tells. */
static void forget(struct peer *p, uint32_t slot, uint64_t now)
{
    struct device_usage *all = topology_usage(p->device[slot].device);

    *all = (struct device_usage){.at_ns = all->at_ns};
}

static void finish(struct peer *p, uint32_t slot, uint64_t now)
{
    *topology_usage(p->device[slot].device) = (struct device_usage){.at_ns = now};
}

static void each(struct peer *peers, void (*visit)(struct peer *p, uint32_t slot, uint64_t now),
                 uint64_t now)
{
    struct peer *p;

    DL_FOREACH (peers, p)
        for (uint32_t slot = 0; p->client && !p->dead && slot < PAGE_DEVICES; slot++)
            if (p->device[slot].device)
                visit(p, slot, now);
}

int usage_look(struct peer *peers, uint64_t now_ns)
{
    static uint64_t due_ns;

    if (now_ns < due_ns)
        return (int)((due_ns - now_ns) / NS_PER_MS) + 1;
    several = false;
    each(peers, add, now_ns);
    if (!several) {
        each(peers, forget, now_ns);
        return -1;
    }
    each(peers, divide, now_ns);
    each(peers, finish, now_ns);
    due_ns = now_ns + USAGE_LOOK_MS * NS_PER_MS;
    return USAGE_LOOK_MS;
}

uint64_t usage_ns(const struct peer *p, uint32_t slot)
{
    return p->device[slot].used_ns + told(p, slot);
}
