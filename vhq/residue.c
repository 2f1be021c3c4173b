/*
 * residue.c - what the device still has to do of what is in flight, by the estimates. Without gates
 * that is all of it; with gates, the commands up to the next one.
 */
#include "vhq/internal.h"

static_assert(UNITS <= 32, "a bit for each");

/* The oldest commands in flight run since they came, or since those before them completed. */
static uint64_t stream_residue(const struct vhq *q, uint64_t now)
{
    uint64_t all = peek(q->counted_ns) - peek(q->complete_est_ns);
    const struct unit *u = cap_oldest(q);
    if (!u)
        return all;
    uint64_t since = q->completed_at_ns > u->since_ns ? q->completed_at_ns : u->since_ns;
    uint64_t ran = now > since ? now - since : 0, est = gate_used(q->set) ? u->est_ns : all;
    return ran < u->est_ns && ran < est ? est - ran : est;
}

void vhq_set_residue(struct vhq_set *set, struct vhq_residue *out)
{
    *out = (struct vhq_residue){0};
    if (atomic_load(&vhq_forked))
        return;
    uint64_t now = clock_ns();
    set_lock(set);
    cap_poll_words(set, now);
    for (const struct vhq *q = set->in_flight; q; q = q->in_flight_next) {
        /* Its hold word stops it at the gate now, and nothing of it runs. A stream that came to the
         * gate before the hold began has passed it. */
        const _Atomic uint64_t *since = q->desc.hold_since;
        uint32_t complete = peek(q->complete_mark);
        if (gate_used(q->set) && order_held(q) && peek(q->gate_units) >> complete % UNITS & 1 &&
            !(since && q->completed_at_ns < peek(*since)))
            continue;
        uint64_t ns = stream_residue(q, now);
        out->running |= peek(q->counted) != peek(q->complete);
        out->ns = ns > out->ns ? ns : out->ns;
    }
    for (const struct vhq *q = set->all; q; q = q->next)
        out->markers += q->dead ? 0 : peek(q->complete_mark);
    set_unlock(set);
}
