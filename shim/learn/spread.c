/*
 * spread.c - the latest times of a kernel (see spread.h).
 */
#include "shim/learn/spread.h"

#include <stdbool.h>

enum {
    BOUND_OF = 8,           /* inexact times: the least of so many is kept */
    SLICE_NS = 1300 * 1000, /* time slice of a process: 2 ms by default, less a margin for chance */
    DIGITS = 11,            /* bits of a time that is kept; its exponent is above them */
    ABOVE = 12,             /* one time in so many may exceed the upper time */
    SLICE_COUNTS = 4,       /* as much as so many times without one */
    SLICES_MOST = 3 * SLICE_COUNTS,
    SURE = 3, /* mean deviations over the root of the count: 2 standard errors or so */
};

static uint16_t pack(uint32_t ns)
{
    uint32_t shift = 0;

    while (ns >> shift >> DIGITS)
        shift++;
    return (uint16_t)(shift << DIGITS | ns >> shift);
}

static uint32_t unpack(uint16_t time)
{
    return (uint32_t)(time & ((1u << DIGITS) - 1)) << (time >> DIGITS);
}

/* An exact time longer than the others by a slice contains one. If all before are longer by a
 * slice, they did, and are forgotten. Where over a fifth of the times are so, kernels vary. */
static bool contains_slice(struct spread *s, uint32_t ns)
{
    uint32_t mean_ns, upper_ns, doubt_ns, least = UINT32_MAX;
    bool is;

    spread_read(s, &mean_ns, &upper_ns, &doubt_ns);
    for (uint32_t i = 0; i < s->times; i++)
        least = unpack(s->time[i]) < least ? unpack(s->time[i]) : least;
    if (least > SLICE_NS && least - SLICE_NS > ns)
        s->times = s->next = 0;
    is = s->times && ns > SLICE_NS && ns - SLICE_NS > upper_ns && s->slices < SLICES_MOST;
    s->slices = (uint8_t)(is ? s->slices + SLICE_COUNTS : s->slices ? s->slices - 1 : 0);
    return is;
}

void spread_add(struct spread *s, uint32_t ns, enum spread_is is)
{
    uint8_t newest = (uint8_t)((s->bound_next + SPREAD_BOUNDS - 1) % SPREAD_BOUNDS);

    if (is == SPREAD_BESIDE_SLICES && contains_slice(s, ns))
        return;
    if (is != SPREAD_AT_MOST) {
        s->time[s->next] = pack(ns);
        s->sure = (s->sure & ~(1u << s->next)) | (uint32_t)(is == SPREAD_IS_SURE) << s->next;
        s->next = (uint8_t)((s->next + 1) % SPREAD_TIMES);
        s->times = (uint8_t)(s->times + (s->times < SPREAD_TIMES));
        return;
    }
    /* Most of these times may contain waits, so it takes many to have one that does not. */
    if (s->bound_of++ % BOUND_OF == 0) {
        s->bound_of = 1;
        newest = s->bound_next;
        s->bound_next = (uint8_t)((newest + 1) % SPREAD_BOUNDS);
        s->bounds = (uint8_t)(s->bounds + (s->bounds < SPREAD_BOUNDS));
    } else if (ns >= unpack(s->bound_time[newest])) {
        return;
    }
    s->bound_time[newest] = pack(ns);
}

/* Sorts the times. Returns how many, from the least, another process's time slice did not
 * lengthen. */
static uint32_t undisturbed(const struct spread *s, uint32_t sorted[SPREAD_TIMES])
{
    uint32_t n = s->times, left = n, sure = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t ns = unpack(s->time[i]), at = i;

        if (s->sure >> i & 1 && ns > sure)
            sure = ns;
        for (; at && sorted[at - 1] > ns; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = ns;
    }
    uint32_t base = sorted[(n - 1) / 4];
    while (sorted[left - 1] / 3 > base / 2 && sorted[left - 1] > sure)
        left--;
    return (uint64_t)(n - left) * SLICE_NS <= (uint64_t)n * base ? left : n;
}

void spread_read(const struct spread *s, uint32_t *mean_ns, uint32_t *upper_ns, uint32_t *doubt_ns)
{
    uint32_t sorted[SPREAD_TIMES], n, mean, root = 1, least = s->bounds ? UINT32_MAX : 0;
    uint64_t sum = 0, off = 0;

    for (uint32_t i = 0; i < s->bounds; i++)
        least = unpack(s->bound_time[i]) < least ? unpack(s->bound_time[i]) : least;
    *mean_ns = *upper_ns = least;
    *doubt_ns = 0;
    if (!s->times)
        return;
    n = undisturbed(s, sorted);
    for (uint32_t i = 0; i < n; i++)
        sum += sorted[i];
    *mean_ns = mean = (uint32_t)(sum / n);
    *upper_ns = sorted[n - 1 - n / ABOVE];
    for (uint32_t i = 0; i < n; i++)
        off += sorted[i] > mean ? sorted[i] - mean : mean - sorted[i];
    while ((root + 1) * (root + 1) <= n)
        root++;
    *doubt_ns = (uint32_t)(off * SURE / n / root);
}
