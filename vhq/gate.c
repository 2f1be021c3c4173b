/*
 * gate.c - where a stream can be stopped, however much of it is in flight.
 *
 * A gate is a wait of the stream for its hold word to be 0, behind a marker and in front of a
 * command that counts. While nothing holds the vHQ the device passes it, and a hold stops the
 * stream at the next one. So how long a client above waits no longer depends on how much is in
 * flight, but on how much lies between two gates: `gate_spacing` of estimated work, shared among
 * the streams that have something in flight.
 *
 * No hold stops what a stream has in front of its next gate any more. Such work of several streams
 * runs one after another, unless it fits side by side. So where commands are long, one goes beside
 * other streams by the strict cap.
 *
 * A gate that is due goes in front of the next command, not behind the last one. Only then is it
 * known that the next one does not overlap with its predecessor (VHQ_OVERLAPS), and a stream
 * without more work has no gate at its end. Where a gate cannot be had, the strict cap is the bound
 * again. So it is beside the time slices of another process: at a gate the device would switch to
 * it for all of a slice.
 */
#include "vhq/internal.h"

enum {
    ALONE_NS = 1000000, /* between two gates without a client above */
    LONGEST_BACK = 64,  /* gates after which a long command no longer counts */
};

void gate_count(struct vhq *q, uint16_t flags, uint32_t est_ns)
{
    struct vhq_set *s = q->set;
    /* A graph with gates of its own can be stopped within. */
    if (est_ns > peek(s->ungated_ns) && !(flags & VHQ_GATED))
        atomic_store_explicit(&s->ungated_ns, est_ns, memory_order_relaxed);
    q->gate_est_ns += est_ns;
    uint32_t streams = peek(s->in_flight_count);
    uint64_t budget = peek(s->budget_ns),
             ns = cap_client_above(s) ? cap_apart_ns(s, budget / VHQ_GATE_PART, budget) : ALONE_NS;
    ns /= streams > 1 ? streams : 1;
    if (q->gate_est_ns >= (ns > VHQ_GATE_LEAST_NS ? ns : VHQ_GATE_LEAST_NS) &&
        peek(q->gate_state) == GATE_NEAR)
        atomic_store_explicit(&q->gate_state, GATE_DUE, memory_order_relaxed);
}

bool gate_sum_over(const struct vhq_set *s, uint32_t streams)
{
    return cap_client_above(s) && streams * (uint64_t)peek(s->ungated_ns) > peek(s->budget_ns) &&
           !MUTANT(ungated_uncounted);
}

bool gate_others_over(const struct vhq *q)
{
    uint32_t listed = peek(q->set->in_flight_count), own = peek(q->in_flight);
    /* The count may be behind: if other streams have work in flight, there is one at least. */
    return gate_sum_over(q->set,
                         listed > own ? listed - own : peek(q->set->area_ns) > cap_stream_ns(q));
}

void gate_place_due(struct vhq *q, uint16_t flags)
{
    struct vhq_set *s = q->set;
    if ((flags & VHQ_UNCOUNTED) || !gate_used(s))
        return;
    bool placed =
        !(flags & VHQ_OVERLAPS) && !shift_sliced(s) && cap_mark_by(q, s->ops.gate) == MARK_OK;
    if (placed) {
        bump(q->gates, 1u);
        q->gate_est_ns = 0;
        uint32_t ns = peek(s->ungated_ns);
        atomic_store_explicit(&s->ungated_ns, ns - ns / LONGEST_BACK, memory_order_relaxed);
    }
    atomic_store_explicit(&q->gate_state, placed ? GATE_NEAR : GATE_LOST, memory_order_relaxed);
}
