/*
 * pad.c - what may go beside the work of those that hold it.
 *
 * A hold keeps commands off a device that its holders may leave half empty. Where ops->room says
 * what they leave, and for how long, a command goes all the same if it
 *   1. fits beside their work and what the set has in flight: a stream runs one command at a time,
 *      and counts with the widest that it has there;
 *   2. ends before their work, by the estimates of what is ahead of it in its stream and its own.
 * What was in flight when the hold began counts like the rest. The cap applies as always.
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
