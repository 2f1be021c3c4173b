/*
 * shift.c - processes that share the device take shifts.
 *
 * Each process has its budget, and several together have as many: each may have one command in
 * flight, at least. So those that always have more to do than the device takes go one after
 * another: time is cut into shifts, the same for all of them since they read one clock, and who has
 * the shift may fill his budget. Nobody sends anything to anybody. Who they are is a word in the
 * page that the daemon keeps: one's own place, and of how many.
 *
 * Every round has a shift for each, in an order that is drawn anew, or requests that come at a pace
 * would always meet the same one. At its begin what the one before has in flight runs out, which
 * covers the time in which a thread wakes up. With gates more may be in flight than the budget: what
 * runs out by the end of the shift.
 */
#include "vhq/internal.h"

static uint32_t shift_word(const struct vhq_set *s)
{
    return s->cfg.shift ? atomic_load_explicit(s->cfg.shift, memory_order_relaxed) : 0;
}

uint32_t shift_beat(const struct vhq_set *s)
{
    return shift_word(s) / VHQ_SHIFT_BEAT;
}

/* A process draws the same as another: by the number of the round alone. */
static uint64_t shift_turned(uint64_t round, uint32_t of)
{
    return (round * UINT64_C(0x9e3779b97f4a7c15) >> 32) % of;
}

uint64_t shift_from(uint32_t place, uint32_t of, uint64_t now)
{
    for (uint64_t round = now / SHIFT_NS / of;; round++) {
        uint64_t at = (place + shift_turned(round, of)) % of, from = (round * of + at) * SHIFT_NS;
        if (from + SHIFT_NS > now)
            return from;
    }
}

uint64_t shift_look(struct vhq_set *s, uint64_t now)
{
    uint32_t word = shift_word(s), place = word % VHQ_SHIFT_OF,
             of = word / VHQ_SHIFT_OF % VHQ_SHIFT_OF;
    s->shift_ns = of > 1 && place < of ? shift_from(place, of, now) : 0;
    return s->shift_ns;
}

uint64_t shift_most_ns(struct vhq_set *s, uint64_t most, uint64_t now)
{
    uint64_t from = shift_look(s, now), end = from + SHIFT_NS, least = peek(s->budget_ns),
             left = measure_ran(s, end > now ? end - now : 0);
    if (from == 0 || !cap_contended(s) || left >= most)
        return most;
    return left > least ? left : least;
}
