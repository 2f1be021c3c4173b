/*
 * gate.c - where a stream can be stopped, however much of it is in flight.
 *
 * A gate is a wait of the stream for its hold word to be 0, behind a marker and in front of a
 * command that counts. While nothing holds the vHQ the device passes it, and a hold stops the
 * stream at the next one. So how long a client above waits no longer depends on how much is in
 * flight, but on how much lies between two gates: `gate_spacing` of estimated work, shared among
 * the streams that have something in flight.
 *
 * Each stream has a piece in front of its gate that no hold stops any more. The pieces of several
 * streams run one after another, unless they fit side by side. So where pieces are long commands,
 * one goes beside other streams by the strict cap.
 *
 * A gate that is due goes in front of the next command, not behind the last one. Only then is it
 * known that the next one does not overlap with its predecessor (VHQ_OVERLAPS), and a stream
 * without more work has no gate at its end. Where a gate cannot be had, the strict cap is the bound
 * again. So it is beside the time slices of another process: at a gate the device would switch to
 * it for all of a slice.
 */
#include "vhq/internal.h"

#include "common/mutant.h"

enum {
    ALONE_NS = 1000000, /* between two gates without a client above */
    PIECE_BACK = 64,    /* gates after which a long command no longer counts */
};

static uint64_t gate_spacing(const struct vhq_set *s)
{
    uint32_t streams = peek(s->in_flight_count);
    uint64_t budget = peek(s->budget_ns),
             ns = cap_client_above(s) ? cap_apart_ns(s, budget / VHQ_GATE_PART, budget) : ALONE_NS;
    ns /= streams > 1 ? streams : 1;
    return ns > VHQ_GATE_LEAST_NS ? ns : VHQ_GATE_LEAST_NS;
}

/* A graph with gates of its own is no piece. */
void gate_count(struct vhq *q, uint16_t flags, uint32_t est_ns)
{
    if (est_ns > peek(q->set->piece_ns) && !(flags & VHQ_GATED))
        atomic_store_explicit(&q->set->piece_ns, est_ns, memory_order_relaxed);
    q->gate_est_ns += est_ns;
    if (q->gate_est_ns >= gate_spacing(q->set) && peek(q->gate_state) == GATE_NEAR)
        atomic_store_explicit(&q->gate_state, GATE_DUE, memory_order_relaxed);
}

bool gate_sum_over(const struct vhq_set *s, uint32_t streams)
{
    return cap_client_above(s) && streams * (uint64_t)peek(s->piece_ns) > peek(s->budget_ns) &&
           !MUTANT(pieces_uncounted);
}

/* The count may be behind: if other streams have work in flight, there is one at least. */
static uint32_t gate_others(const struct vhq *q)
{
    uint32_t listed = peek(q->set->in_flight_count), own = peek(q->in_flight);
    return listed > own ? listed - own : peek(q->set->area_ns) > cap_stream_ns(q);
}

bool gate_others_over(const struct vhq *q)
{
    return gate_sum_over(q->set, gate_others(q));
}

bool gate_serial_over(const struct vhq *q, uint32_t parts)
{
    return gate_others_over(q) && pad_parts(q, parts) > VHQ_PARTS;
}

static bool gate_place(struct vhq *q)
{
    if (cap_mark_gate(q) != MARK_OK)
        return false;
    bump(q->gates, 1u);
    q->gate_est_ns = 0;
    uint32_t piece = peek(q->set->piece_ns);
    atomic_store_explicit(&q->set->piece_ns, piece - piece / PIECE_BACK, memory_order_relaxed);
    return true;
}

void gate_place_due(struct vhq *q, uint16_t flags)
{
    if ((flags & VHQ_UNCOUNTED) || !gate_used(q->set))
        return;
    bool placed = !(flags & VHQ_OVERLAPS) && !shift_sliced(q->set) && gate_place(q);
    atomic_store_explicit(&q->gate_state, placed ? GATE_NEAR : GATE_LOST, memory_order_relaxed);
}
