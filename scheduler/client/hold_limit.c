/* hold_limit.c - see hold_limit.h. */
#include "scheduler/client/hold_limit.h"

#include <string.h>

#define UNBOUNDED (PAGE_BIT_PAUSED | PAGE_BIT_POLICY)

/* Sets these bits in `hold` as they are in `want`. The owner of a bit may write both words between
 * any two of these steps, so look again. The next tick puts right what is still wrong after
 * that. */
static void restore(struct page_device *device, uint32_t level, uint32_t bits, uint64_t now)
{
    _Atomic uint32_t *hold = &device->hold[level];

    for (int i = 0; i < 8; i++) {
        uint32_t want = atomic_load(&device->want[level]) & bits;
        uint32_t seen = atomic_load(hold) & bits;

        if (seen == want)
            return;
        if (now && (want & ~seen) && !atomic_load(hold))
            atomic_store_explicit(&device->hold_since_ns[level], now, memory_order_relaxed);
        if (want & ~seen)
            atomic_fetch_or(hold, want & ~seen);
        if (seen & ~want)
            atomic_fetch_and(hold, ~(seen & ~want));
    }
}

void hold_limit_restore(struct page_device *device, uint32_t level, uint32_t bits)
{
    const uint32_t daemons = PAGE_BIT_NEW | PAGE_BIT_POLICY | PAGE_BIT_PAUSED;

    atomic_fetch_or(&device->hold[level], bits & ~daemons);
    restore(device, level, daemons, 0);
}

/* Best effort as a whole has the share. It is owed a quarter more, as it may run dry in its time
 * slice and pay too much. What it is owed grows while it is held and something waits, and falls by
 * what ran. It is never more than a period's, so that it neither saves nor owes for long. */
static void share_update(struct hold_limit *b, struct cutin_page *page, uint32_t d, uint64_t now)
{
    struct share *s = &b->share[d];
    const struct page_device *device = &page->device[d];
    const struct page_counters *c = &device->counters;
    /* What surely ran: so best effort gets its share even if estimates are wrong. */
    uint64_t gpu_ns = figure_read(&c->gpu_ns), ran = gpu_ns - figure_read(&c->unsure_ns);
    /* The clients of its level that always have work, this one among them. */
    uint32_t shift = atomic_load_explicit(&page->shift[d], memory_order_relaxed);
    uint32_t of = PAGE_SHIFT_CLIENTS(shift) ? PAGE_SHIFT_CLIENTS(shift) : 1;
    int64_t part = (int64_t)b->share_percent * 1024 / of;
    int64_t most = (int64_t)SHARE_PERIOD_NS * part / 102400;
    uint32_t holders = (uint32_t)__builtin_popcount(atomic_load(&device->want[0]) & ~UNBOUNDED);

    if (s->measured_at_ns && now > s->measured_at_ns)
        s->owed_ns += (int64_t)(now - s->measured_at_ns) * (part + part / 4) / 102400 -
                      (int64_t)(ran - s->ran_ns);
    s->measured_at_ns = now;
    s->ran_ns = ran;
    s->owed_ns = s->owed_ns > most ? most : s->owed_ns < -most ? -most : s->owed_ns;
    if (!figure_read(&c->waiting) && !figure_read(&c->in_flight) && s->owed_ns > 0)
        s->owed_ns = 0;
    if (!holders || s->owed_ns <= 0)
        s->open = 0;
    else if (s->open || s->owed_ns >= most - most * part / 102400)
        s->open = holders + of;
}

bool hold_limit_tick(struct hold_limit *b, struct cutin_page *page, uint64_t now_ns)
{
    uint64_t window = b->max_ns / 10 > HOLD_LIMIT_OPEN_NS ? b->max_ns / 10 : HOLD_LIMIT_OPEN_NS;
    bool held = false;

    if (!b->max_ns && !b->share_percent && !b->shares)
        return false;
    b->shares = b->share_percent;
    for (uint32_t d = 0; d < PAGE_DEVICES; d++) {
        if (b->share_percent)
            share_update(b, page, d, now_ns);
        else
            b->share[d].open = 0;
        for (uint32_t l = 0; l < PAGE_LEVELS && (b->max_ns || l == 0); l++) {
            struct page_device *device = &page->device[d];
            uint64_t *since = &b->since_ns[d][l], *until = &b->open_until_ns[d][l];
            bool wanted = atomic_load(&device->want[l]) & ~UNBOUNDED;

            held |= wanted;
            if (*until && now_ns >= *until)
                *until = *since = 0;
            if (!wanted || !b->max_ns)
                *since = 0;
            else if (*since == 0)
                *since = now_ns;
            else if (!*until && now_ns - *since >= b->max_ns)
                *until = now_ns + window;
            if (*until || (l == 0 && b->share[d].open))
                atomic_fetch_and(&device->hold[l], UNBOUNDED);
            else if (!b->lifted)
                restore(device, l, ~UNBOUNDED, now_ns);
        }
    }
    return held;
}

bool hold_limit_is_open(const struct hold_limit *b)
{
    for (uint32_t d = 0; d < PAGE_DEVICES; d++) {
        if (b->share[d].open)
            return true;
        for (uint32_t l = 0; l < PAGE_LEVELS; l++)
            if (b->open_until_ns[d][l])
                return true;
    }
    return false;
}

void hold_limit_rebase(struct hold_limit *b)
{
    memset(b->since_ns, 0, sizeof(b->since_ns));
}

void hold_limit_reset(struct hold_limit *b)
{
    hold_limit_rebase(b);
    memset(b->open_until_ns, 0, sizeof(b->open_until_ns));
    memset(b->share, 0, sizeof(b->share));
}
