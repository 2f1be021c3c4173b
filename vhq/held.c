/*
 * held.c - what goes although it is held. The cap applies as always.
 *
 * Padding. A hold keeps commands off a device that its holders may leave half empty. Where
 * ops->room says what they leave, and for how long, a command goes all the same if it
 *   1. fits beside their work and what the set has in flight: a stream runs one command at a time,
 *      and counts with the widest that it has there;
 *   2. ends before their work, by the estimates of what is ahead of it in its stream and its own.
 * What was in flight when the hold began counts like the rest.
 *
 * Writes for peers. A process on another GPU or machine may wait for a write by this GPU, and knows
 * nothing of this hold. So when a hold has kept back the next such write of a queue (VHQ_PEER) for
 * cfg.peer_us, the queue goes on as far as that write: what is ahead of it in the queue, and what
 * that follows in others, is exempt from holds. Behind the write the hold goes on, and the next
 * write has its own time. Where kernels may make such writes (cfg.rings), and no such write is
 * buffered, each kernel counts as one: as many go as fit a budget, one at least.
 */
#include "vhq/internal.h"

uint32_t pad_parts(const struct vhq *with, uint32_t parts)
{
    uint32_t own = cap_wide(with), sum = own > parts ? own : parts;
    for (const struct vhq *q = with->set->in_flight; q && sum <= VHQ_PARTS; q = q->in_flight_next)
        sum += q == with ? 0 : cap_wide(q);
    return sum;
}

bool pad_fits(const struct vhq *q, const struct slot *slot, uint64_t now)
{
    const struct vhq_pad_room *room = &q->set->room;
    if (!(slot->flags & VHQ_MAY_PAD) || peek(q->own_hold) != 0 || room->until_ns <= now)
        return false;
    if (slot->flags & VHQ_UNCOUNTED)
        return true;
    if (pad_parts(q, load_parts(slot->load)) > room->parts)
        return false;
    return now + cap_stream_rest_ns(q, now) + load_ns(slot->load) <= room->until_ns;
}

/* Smaller tickets are to go: as far as the next write; else as many kernels as fit a budget. 0: the
 * write is on its way into the ring. */
static uint64_t peer_line(struct vhq *q)
{
    uint64_t line = 0, ns = 0, most_ns = peek(q->set->budget_ns);
    bool kernels = peek(q->peers) == 0;
    struct slot *slot = NULL;
    uint32_t at;
    for (uint64_t left = ring_count(&q->ring); left; left--) {
        slot = ring_next(&q->ring, slot, &at);
        if (slot->flags & VHQ_PEER)
            return slot->ticket + 1;
        ns += slot->flags & VHQ_UNCOUNTED ? 0 : load_ns(slot->load);
        if (kernels && line && ns > most_ns)
            return line;
        line = kernels ? slot->ticket + 1 : 0;
    }
    return line;
}

bool peer_release(struct vhq *q, uint64_t ticket, uint64_t now, uint64_t *wake_ns)
{
    struct vhq_set *s = q->set;
    if (likely((peek(q->peers) == 0 && word_read(s->cfg.rings) == 0) || s->cfg.peer_us == 0))
        return false;
    /* The application ends its own hold, and holders that are not bounded end theirs. */
    if ((word_read(q->desc.hold) & s->cfg.unbounded) != 0 || peek(q->own_hold) != 0)
        return false;
    if (ticket >= q->peer_below) { /* the one before has gone */
        q->peer_below = peek(q->peers) != 0 ? peer_line(q) : ticket + 1;
        q->peer_since_ns = now;
    }
    uint64_t due = q->peer_since_ns + s->cfg.peer_us * (uint64_t)NS_PER_US;
    if (now < due) {
        *wake_ns = due < *wake_ns ? due : *wake_ns;
        return false;
    }
    uint64_t line = peer_line(q);
    if (line == 0)
        return false;
    q->peer_below = line;
    bump(s->peer_releases, 1u);
    return order_boost(&q->boost_below, line);
}
