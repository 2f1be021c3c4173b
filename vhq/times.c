/*
 * times.c - how long holds last, and how soon after a hold the device has stopped.
 *
 * Everything is measured at the dispatcher's looks, which are 50 us apart while something buffered
 * is held. A completion that was first seen long after it may have happened says nothing and is not
 * counted. Nor is a hold that ended before anything completed.
 */
#include "vhq/internal.h"

enum { FRESH_NS = 1000 * 1000 }; /* after a look so recent, a completion is not seen late */

static void count(const struct vhq_times *t, _Atomic uint32_t *times, uint64_t ns)
{
    atomic_fetch_add_explicit(&times[t->bucket(ns)], 1, memory_order_relaxed);
}

void times_hold_begins(struct vhq *q, uint64_t now)
{
    struct vhq_set *s = q->set;
    const _Atomic uint64_t *since = q->desc.hold_since;
    bool by_word =
        since && q->desc.hold && atomic_load_explicit(q->desc.hold, memory_order_acquire) != 0;
    uint64_t began = by_word ? atomic_load_explicit(since, memory_order_relaxed) : now;
    bool fresh = now - s->polled_at_ns < FRESH_NS;

    PROBE2(hold, q->desc.stream, ring_head(&q->ring)->ticket);
    if (s->held++ == 0)
        s->any_held_since_ns = now;
    q->held_since_ns = now;
    q->padded = false;
    q->stopping_since_ns = began != 0 && began < now ? began : now;
    q->stopping_after_ns = fresh ? now - 1 : now;
    if (trace_on())
        traced_queue(TRACE_HELD, q, NEVER, 0, 0);
}

void times_hold_ends(struct vhq *q, uint64_t now)
{
    struct vhq_set *s = q->set;
    const struct vhq_times *t = s->cfg.times;
    uint64_t held = now - q->held_since_ns;

    if (q->held_since_ns == 0)
        return;
    bump(q->holds, 1u);
    if (--s->held == 0)
        s->total_held_ns += now - s->any_held_since_ns;
    if (t)
        count(t, t->hold, held);
    /* What has no marker yet runs behind the last command that has one. With padding the device
     * does not stop. */
    if (t && q->completed_at_ns > q->stopping_after_ns && !q->padded)
        count(t, t->stop, q->completed_at_ns - q->stopping_since_ns + peek(q->tail_est_ns));
    if (gate_used(s)) /* it stopped the device, too */
        blocked_excuse(s, q->held_since_ns, now);
    q->held_since_ns = 0;
    PROBE2(release, q->desc.stream, held);
    if (trace_on())
        traced_queue(TRACE_RELEASED, q, NEVER, 0, 0);
}
