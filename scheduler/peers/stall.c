/*
 * stall.c - for how long a client's work in flight makes no progress although it is not held.
 *
 * It waits for the host, or for a client that is held for its sake; or it is one long kernel.
 */
#include "scheduler/peers/scan.h"

#include "common/mutant.h"

uint64_t stall_progress(const struct peer_device *at)
{
    const struct page_counters *c = &device_page(at)->counters;
    uint64_t in_flight = MUTANT(guarded_gets_on) ? 0 : figure_read(&c->in_flight);

    /* Without queues what is complete is not counted. */
    return at->peer->queues ? figure_read(&c->submitted) - in_flight : figure_read(&c->kernels);
}

uint64_t stall_measure(struct peer_device *at, uint64_t now_ns)
{
    const struct page_device *page = device_page(at);
    uint64_t done = stall_progress(at), more = 0;
    bool stalls = device_has_work(page) && done == at->stall.done;
    uint32_t held = 0;

    /* Owners write one word of most clients; a client with a bound opens `hold` for a moment. */
    for (uint32_t l = 0; l < PAGE_LEVELS; l++) {
        held |= atomic_load_explicit(&page->want[l], memory_order_relaxed);
        if (!MUTANT(held_by_want_only))
            held |= atomic_load_explicit(&page->hold[l], memory_order_relaxed);
    }
    if (at->stall.measured_at_ns && !held)
        more = now_ns - at->stall.measured_at_ns;
    at->stall.ns = stalls ? at->stall.ns + more : 0;
    at->stall.in_flight_ns =
        stalls && figure_read(&page->counters.in_flight) ? at->stall.in_flight_ns + more : 0;
    at->stall.done = done;
    at->stall.measured_at_ns = now_ns;
    return at->stall.ns;
}
