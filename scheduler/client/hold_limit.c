/*
 * hold_limit.c - the longest single hold, enforced by the held process itself.
 */
#include "scheduler/client/hold_limit.h"

#include <string.h>

/* Not bounded: the administrator's pause, and turns that the daemon gives. */
#define UNBOUNDED (PAGE_BIT_PAUSED | PAGE_BIT_POLICY)

/* The owner of a bit may write both words between any two of these steps, so look again; what is
 * still wrong after that is put right by the next tick. */
static void restore(struct page_device *device, uint32_t level, uint64_t now)
{
    _Atomic uint32_t *hold = &device->hold[level];

    for (int i = 0; i < 8; i++) {
        uint32_t want = atomic_load(&device->want[level]) & ~UNBOUNDED;
        uint32_t seen = atomic_load(hold) & ~UNBOUNDED;

        if (seen == want)
            return;
        if ((want & ~seen) && !atomic_load(hold))
            atomic_store_explicit(&device->hold_since_ns[level], now, memory_order_relaxed);
        if (want & ~seen)
            atomic_fetch_or(hold, want & ~seen);
        if (seen & ~want)
            atomic_fetch_and(hold, ~(seen & ~want));
    }
}

/* The longest hold of a level, 0 = no bound. The share is best effort's alone. */
static uint64_t longest_ns(const struct hold_limit *b, uint32_t level)
{
    uint64_t share_ns =
        level == 0 && b->share_percent ? BOUND_PERIOD_NS / 100 * (100 - b->share_percent) : 0;

    return !share_ns || (b->max_ns && b->max_ns < share_ns) ? b->max_ns : share_ns;
}

static uint64_t window_ns(const struct hold_limit *b, uint32_t level)
{
    uint64_t longest = longest_ns(b, level), window = longest / 10;

    if (level == 0 && b->share_percent)
        window = longest * b->share_percent / (100 - b->share_percent);
    return window > BOUND_OPEN_NS ? window : BOUND_OPEN_NS;
}

static bool look(struct hold_limit *b, struct page_device *device, uint64_t *since, uint64_t *until,
                 uint32_t level, uint64_t now)
{
    bool wanted = atomic_load(&device->want[level]) & ~UNBOUNDED;

    if (*until && now >= *until) {
        *until = 0;
        *since = 0;
    }
    if (!wanted)
        *since = 0;
    else if (*since == 0)
        *since = now;
    else if (!*until && now - *since >= longest_ns(b, level))
        *until = now + window_ns(b, level);
    if (*until)
        atomic_fetch_and(&device->hold[level], UNBOUNDED);
    else
        restore(device, level, now);
    return wanted;
}

bool hold_limit_tick(struct hold_limit *b, struct cutin_page *page, uint64_t now_ns)
{
    bool held = false;

    if (!b->max_ns && !b->share_percent)
        return false;
    for (uint32_t d = 0; d < PAGE_DEVICES; d++)
        for (uint32_t l = 0; l < PAGE_LEVELS && longest_ns(b, l); l++)
            held |=
                look(b, &page->device[d], &b->since_ns[d][l], &b->open_until_ns[d][l], l, now_ns);
    return held;
}

void hold_limit_reset(struct hold_limit *b)
{
    memset(b->since_ns, 0, sizeof(b->since_ns));
    memset(b->open_until_ns, 0, sizeof(b->open_until_ns));
}
