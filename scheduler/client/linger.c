/*
 * linger.c - how long to hold on after real-time work (see linger.h).
 */
#include "scheduler/client/linger.h"

enum { FIRST_LOG = 10 }; /* the first bin begins at 2^10 ns, and has everything below it, too */

#define CHANCE 0.1f

/* Octaves are divided evenly, so no logarithm is needed. */
static uint32_t bin_of(uint64_t ns)
{
    uint32_t log, part;

    if (ns < UINT64_C(1) << FIRST_LOG)
        return 0;
    log = 63 - (uint32_t)__builtin_clzll(ns);
    if (log >= FIRST_LOG + LINGER_OCTAVES)
        return LINGER_BINS - 1;
    part = (uint32_t)((ns - (UINT64_C(1) << log)) * LINGER_PER_OCTAVE >> log);
    return (log - FIRST_LOG) * LINGER_PER_OCTAVE + part;
}

static uint64_t bin_ns(uint32_t bin)
{
    uint32_t log = FIRST_LOG + bin / LINGER_PER_OCTAVE;

    return bin == 0 ? 0
                    : (UINT64_C(1) << log) +
                          ((uint64_t)(bin % LINGER_PER_OCTAVE) << log) / LINGER_PER_OCTAVE;
}

void linger_add(struct linger *l, uint64_t pause_ns)
{
    atomic_fetch_add_explicit(&l->bin[bin_of(pause_ns)], 1, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&l->pauses, 1, memory_order_relaxed) != LINGER_MOST)
        return;
    for (int i = 0; i < LINGER_BINS; i++) {
        uint32_t n = atomic_load_explicit(&l->bin[i], memory_order_relaxed);
        atomic_fetch_sub_explicit(&l->bin[i], n - n / 2, memory_order_relaxed);
    }
    atomic_fetch_sub_explicit(&l->pauses, LINGER_MOST / 2, memory_order_relaxed);
}

void linger_look(const struct linger *l, uint64_t kernel_ns, struct linger_view *v)
{
    v->kernel_ns = kernel_ns;
    v->known = atomic_load_explicit(&l->pauses, memory_order_relaxed) >= LINGER_LEAST;
    v->longer[LINGER_BINS] = 0;
    for (int i = LINGER_BINS; i-- > 0;)
        v->longer[i] =
            v->longer[i + 1] + (float)atomic_load_explicit(&l->bin[i], memory_order_relaxed);
}

/* Pauses longer than this; those of one bin are spread over it. */
static float longer_than(const struct linger_view *v, uint64_t ns)
{
    uint32_t bin = bin_of(ns);
    uint64_t from = bin_ns(bin), to = bin + 1 < LINGER_BINS ? bin_ns(bin + 1) : 2 * from;
    float part = ns >= to ? 1.0f : (float)(ns - from) / (float)(to - from);

    return v->longer[bin] - (v->longer[bin] - v->longer[bin + 1]) * part;
}

/* What less than one pause in a hundred does is no evidence. */
bool linger_holds(const struct linger_view *v, uint64_t at_ns)
{
    float left;

    if (!v->known)
        return false;
    left = longer_than(v, at_ns);
    return left > v->longer[0] / 100 && longer_than(v, at_ns + v->kernel_ns) < (1 - CHANCE) * left;
}

uint64_t linger_change(const struct linger_view *v, uint64_t at_ns)
{
    bool now = linger_holds(v, at_ns);
    uint64_t step;

    /* In steps of a quarter of a bin, none shorter than 2 us. */
    for (uint64_t ns = at_ns; v->known && ns < bin_ns(LINGER_BINS - 1) * 2; ns += step) {
        if (linger_holds(v, ns) != now)
            return ns;
        step = ns / (4 * LINGER_PER_OCTAVE);
        step = step < 2000 ? 2000 : step;
    }
    return 0;
}
