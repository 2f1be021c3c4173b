/*
 * loose.c - commands that went while the process was alone, and when they get a marker: there are
 * enough of them, or a client above has come.
 *
 * They are not counted (cap_sent), so the first of them may long be complete. They are folded into
 * the tail, and all of them count as in flight until the marker behind them is complete. The caller
 * holds the submission right of the vHQ.
 */
#include "vhq/internal.h"

enum { MOST = 1 << 20 /* commands, waits and records among them */ };

void loose_end(struct vhq *q)
{
    atomic_store_explicit(&q->loose_ns, 0, memory_order_relaxed);
    atomic_fetch_sub_explicit(&q->set->loose, 1, memory_order_release);
}

void loose_fold(struct vhq *q)
{
    uint64_t commands = peek(q->sent) - peek(q->mark_cover) - q->tail_counted;
    uint64_t sum = peek(q->loose_ns);
    uint32_t n = commands < MOST ? (uint32_t)commands : MOST;
    uint32_t ns = sum < MAX_EST_NS ? (uint32_t)sum : MAX_EST_NS;
    if (sum == 0)
        return;
    /* First it counts as in flight, then no longer as loose: at no moment as neither. */
    atomic_fetch_add_explicit(&q->set->area_ns, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&q->set->done_est_ns, sum - ns, memory_order_relaxed);
    bump(q->counted, n);
    bump(q->counted_ns, ns);
    bump(q->tail_est_ns, ns);
    q->tail_area_ns += ns;
    q->tail_counted += n;
    atomic_store_explicit(&q->tail_wide, VHQ_PARTS, memory_order_relaxed);
    gate_after(q, VHQ_GATED, ns); /* no piece: it had no gates */
    loose_end(q);
}

/* Loose commands may long be complete. A marker in the legacy stream follows what the blocking
 * streams have been given since, and what they are given next follows it. In any stream a marker
 * may stand behind a wait of another stream. */
void tail_mark_or_ask(struct vhq *q)
{
    struct vhq_set *s = q->set;
    bool loose = peek(q->loose_ns) != 0 || peek(q->asks), stands = set_stream_waits(s);
    lock_none_inside();
    if ((loose || stands) && s->ops.complete && s->ops.complete(s->user, q, q->desc.stream)) {
        set_lock(s);
        cap_complete_all(q, clock_ns());
        set_unlock(s);
    } else if (s->ops.complete && (stands || (loose && q->desc.kind == VHQ_LEGACY))) {
        loose_fold(q);
        atomic_store_explicit(&q->asks, true, memory_order_relaxed);
    } else {
        cap_mark(q);
    }
}

struct vhq *loose_claim_next(struct vhq_set *s)
{
    if (likely(peek(s->loose) == 0) || cap_alone(s))
        return NULL;
    cap_adopt(s);
    for (struct vhq *q = s->in_flight; q; q = q->in_flight_next)
        if (peek(q->loose_ns) != 0 && cap_claim_tail(q))
            return q;
    return NULL;
}
