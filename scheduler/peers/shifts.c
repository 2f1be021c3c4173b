/*
 * shifts.c - which clients below keep the device busy (see shifts.h).
 */
#include "scheduler/peers/shifts.h"

#include <utlist.h>

enum {
    PLACES = 255, /* that fit the word */
    SHIFT_US = 3900,
    SHIFTS_DOUBLED = 5,
    COMMANDS = 64, /* that a shift has room for: at its end as much as one is lost, at most */
};

static uint64_t counter(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

/* Grows as long as the client's work gets on. Without queues nobody counts what is complete. */
static uint64_t done(const struct peer *p, uint32_t slot)
{
    const struct page_counters *c = &p->page->page->device[slot].counters;

    return p->queues ? counter(&c->submitted) - counter(&c->in_flight) : counter(&c->kernels);
}

static bool waits(const struct peer *p, uint32_t slot)
{
    return p->queues && p->above > 0 && !p->paused && p->lowest < PAGE_LEVELS &&
           counter(&p->page->page->device[slot].counters.waiting) > 0;
}

static void forget(struct peer *p, uint32_t slot)
{
    *topology_work(p->device[slot].device) = (struct device_work){0};
}

static void look(struct peer *p, uint32_t slot)
{
    struct peer_device *mine = &p->device[slot];

    mine->backlog = waits(p, slot) ? mine->backlog + 1 : 0;
}

static void place(struct peer *p, uint32_t slot)
{
    struct peer_device *mine = &p->device[slot];
    struct device_work *work = topology_work(mine->device);

    if (mine->backlog >= SHIFTS_BACKLOG) {
        uint32_t us = atomic_load_explicit(&p->page->page->long_us[slot], memory_order_relaxed);

        mine->place = work->clients[p->lowest]++;
        if (us > work->long_us[p->lowest])
            work->long_us[p->lowest] = us;
    }
    work->done += done(p, slot);
}

static uint32_t doubled(uint32_t long_us)
{
    uint32_t n = 0;

    while (n < SHIFTS_DOUBLED && (uint64_t)long_us * COMMANDS > (uint64_t)SHIFT_US << n)
        n++;
    return n;
}

static void tell(struct peer *p, uint32_t slot)
{
    struct peer_device *mine = &p->device[slot];
    const struct device_work *work = topology_work(mine->device);
    _Atomic uint32_t *shift = &p->page->page->shift[slot];
    uint32_t old = atomic_load_explicit(shift, memory_order_relaxed), word = old & PAGE_SHIFT_BEAT;
    uint64_t others = work->done - done(p, slot);

    if (others != mine->others)
        word += PAGE_SHIFT_BEAT_ONE;
    mine->others = others;
    if (mine->backlog >= SHIFTS_BACKLOG && work->clients[p->lowest] > 1 &&
        work->clients[p->lowest] <= PLACES)
        word |= PAGE_SHIFT(mine->place, work->clients[p->lowest]) |
                doubled(work->long_us[p->lowest]) * PAGE_SHIFT_LONG;
    if (word != old)
        atomic_store_explicit(shift, word, memory_order_relaxed);
}

static void each(struct peer *peers, void (*visit)(struct peer *p, uint32_t slot))
{
    struct peer *p;

    DL_FOREACH (peers, p)
        for (uint32_t slot = 0; p->client && !p->dead && slot < PAGE_DEVICES; slot++)
            if (p->device[slot].device)
                visit(p, slot);
}

static void arrange(struct peer *peers)
{
    each(peers, forget);
    each(peers, place);
    each(peers, tell);
}

void shifts_look(struct peer *peers)
{
    each(peers, look);
    arrange(peers);
}

void shifts_leave(struct peer *peers, const struct peer *gone)
{
    bool any = false;

    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
        any |= gone->device[slot].backlog >= SHIFTS_BACKLOG;
    if (any)
        arrange(peers);
}
