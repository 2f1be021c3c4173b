/*
 * usage.c - how much of a device's time each client has had, for `list` and `top`.
 *
 * A client tells how long it was busy there at most, others' time slices included, and how much of
 * that it is not sure of (page_counters). All clients together had no more than the time that
 * passed. What is too much comes off what they are not sure of, and then off all alike. Clients
 * publish every 10 ms, each at its own time, so this is done over longer times.
 */
#include "scheduler/peers/scan.h"

#include "common/mutant.h"

/* Counters belong to the client, and may go backwards. */
static uint64_t since(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static uint64_t told(const struct peer_device *mine)
{
    return since(figure_read(&device_page(mine)->counters.gpu_ns), mine->told_ns);
}

static uint64_t unsure(const struct peer_device *mine)
{
    uint64_t ns = since(figure_read(&device_page(mine)->counters.unsure_ns), mine->told_unsure_ns);

    return ns < told(mine) ? ns : told(mine);
}

int usage_scan(struct peer *peers, uint64_t now_ns)
{
    static uint64_t due_ns;
    bool several = false; /* several clients are on one device */

    if (now_ns < due_ns)
        return (int)((due_ns - now_ns) / NS_PER_MS) + 1;
    PEER_DEVICES (peers, p, mine) {
        const struct page_counters *c = &device_page(mine)->counters;
        struct device_usage *all = &mine->device->usage;

        /* What it had before this daemon, or any, is no part of the time since the last scan.
         * Partner: refill in scheduler/client/link.c. */
        if (!mine->past &&
            atomic_load_explicit(&p->page->page->counted_since_ns, memory_order_acquire)) {
            mine->past = true;
            mine->used_ns = mine->told_ns = figure_read(&c->gpu_ns);
            mine->told_unsure_ns = figure_read(&c->unsure_ns);
        }
        all->sum_ns += told(mine);
        all->unsure_ns += unsure(mine);
        several |= ++all->clients > 1;
    }
    if (several) /* a client that was alone has had what it tells */
        PEER_DEVICES (peers, p, mine) {
            const struct device_usage *all = &mine->device->usage;
            uint64_t there_was = all->at_ns ? since(now_ns, all->at_ns) : all->sum_ns;
            uint64_t excess = since(all->sum_ns, there_was), sure = all->sum_ns - all->unsure_ns;
            uint64_t ns = told(mine);

            if (excess && excess <= all->unsure_ns)
                ns -= (uint64_t)((double)excess * (double)unsure(mine) / (double)all->unsure_ns);
            else if (excess)
                ns = (uint64_t)((double)(ns - unsure(mine)) * (double)there_was / (double)sure);
            mine->used_ns += ns;
            mine->told_ns = figure_read(&device_page(mine)->counters.gpu_ns);
            mine->told_unsure_ns = figure_read(&device_page(mine)->counters.unsure_ns);
        }
    PEER_DEVICES (peers, p, mine)
        mine->device->usage =
            (struct device_usage){.at_ns = several ? now_ns : mine->device->usage.at_ns};
    if (!several)
        return -1;
    due_ns = now_ns + USAGE_SCAN_MS * NS_PER_MS;
    return USAGE_SCAN_MS;
}

uint64_t usage_ns(struct peer_device *mine)
{
    uint64_t ns = mine->used_ns + told(mine);

    if (ns > mine->shown_ns || MUTANT(usage_goes_back))
        mine->shown_ns = ns;
    return mine->shown_ns;
}
