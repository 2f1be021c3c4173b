/*
 * gaps.c - for how long no client above will come.
 *
 * The budget bounds how long a client above waits. While no client is due, more may be in flight,
 * if it has run down to the budget by the time that one is: then a dispatcher that comes late
 * leaves no hole in the device. When a client is due is learned from the gaps between holds: never
 * before half of the shortest of the last 32 to 64. So requests that come at random, or close to
 * each other, change nothing, and those that come at a pace leave the budget as it is for the
 * second half of their gaps.
 *
 * Gaps are seen at the looks of threads that meet the cap. What was not watched does not count. A
 * second without a look forgets all.
 */
#include "vhq/internal.h"

enum {
    GAPS = 32,
    WATCH_NS = 1000 * 1000, /* between two looks at a gap that counts */
    FORGET_NS = 1000 * 1000 * 1000,
    PART = 2, /* of the shortest gap */
};

/* Learns only if all vHQs have one hold word: else it is not known which client comes when. */
void gaps_of(struct vhq_set *s, const struct vhq_desc *desc)
{
    struct gaps *g = &s->gaps;
    if (!g->hold && !g->several) {
        g->hold = desc->hold;
        g->since = desc->hold_since;
    }
    g->several |= g->hold != desc->hold || !desc->hold_since;
}

void gaps_note_hold(struct vhq_set *s, uint64_t now)
{
    struct gaps *g = &s->gaps;
    if (!g->hold || g->several || now <= g->seen_ns)
        return; /* or another thread has looked since */
    uint32_t word = atomic_load_explicit(g->hold, memory_order_acquire);
    uint64_t came = atomic_load_explicit(g->since, memory_order_relaxed);
    uint64_t unseen = now - g->seen_ns;
    if (unseen > FORGET_NS)
        g->before_ns = g->n = 0;
    if (came != g->came_ns && unseen <= WATCH_NS && g->over_ns != 0) {
        uint64_t gap = sub_floor(came, g->over_ns);
        if (gap < g->least_ns || g->n == 0)
            g->least_ns = gap;
        if (++g->n == GAPS) {
            g->before_ns = g->least_ns;
            g->n = 0;
        }
    }
    if (came != g->came_ns)
        g->over_ns = 0;
    if (unlikely((word != 0 || peek(s->others_until_ns) == NEVER) && s->share_of == 0)) {
        /* Another process's turn is no lesson until its work has left the device. */
        if (word == 0)
            atomic_store_explicit(&s->others_until_ns, now + OTHERS_TURN_NS, memory_order_relaxed);
        else if ((word & ~s->cfg.unbounded) == 0)
            atomic_store_explicit(&s->others_until_ns, NEVER, memory_order_relaxed);
    }
    g->came_ns = came;
    g->seen_ns = now;
    g->over_ns = word ? 0 : g->over_ns ? g->over_ns : now;
}

bool gaps_held_since(const struct vhq_set *s, uint64_t since)
{
    const struct gaps *g = &s->gaps;
    return g->several || (g->hold && (g->over_ns == 0 || g->over_ns > since || g->came_ns > since ||
                                      peek(s->others_until_ns) > since));
}

uint64_t gaps_ahead_ns(const struct vhq_set *s, uint64_t now)
{
    const struct gaps *g = &s->gaps;
    uint64_t least = g->n != 0 && g->least_ns < g->before_ns ? g->least_ns : g->before_ns;
    uint64_t budget = peek(s->budget_us) * NS_PER_US;
    if (likely(least / PART <= budget) || g->over_ns == 0 || g->several)
        return 0;
    uint64_t until = g->over_ns + least / PART;
    if (s->shift_begin_ns != 0 && s->shift_end_ns < until)
        until = s->shift_end_ns; /* then other processes come */
    /* One budget more at most. A thread wakes up some hundred microseconds late; more than that
     * would be in the way of a client that comes earlier than ever. */
    return measure_ran(s, between(0, sub_floor(until, now), budget));
}
