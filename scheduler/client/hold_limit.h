/*
 * hold_limit.h - the longest single hold (CUTIN_MAX_HOLD_MS), enforced by the held process itself.
 *
 * After a level was held for that long without a break, its `hold` word opens for a tenth of the
 * bound, at least BOUND_OPEN_NS, and is then restored from `want`. The scheduler's own writes go to
 * both words, so outside that window the bound costs nothing and delays no hold. An owner that
 * becomes active anew during the window closes it; the next look, at most a millisecond later,
 * opens it again until the window is over. The administrator's pause and the daemon's policy are
 * not bounded.
 *
 * The daemon's minimum share for best effort is by what ran (page_counters.gpu_ns, less unsure_ns):
 * with a share of S percent, level 0 is owed S percent of the time while it asks for something.
 * Once that is 100 - S percent of S ms, its hold opens until it is paid. Then the client's own
 * queues do not look at the word either, which an owner that becomes active anew would close
 * (hold_limit_share).
 *
 * Looks are a millisecond apart while something is held; a break shorter than that may go unseen,
 * which opens a hold early, never late. Who has nothing that waits need not look: to him a hold
 * begins when he has.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_HOLD_LIMIT_H
#define CUTIN_SCHEDULER_CLIENT_HOLD_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/wire/page.h"

#define BOUND_OPEN_NS   2000000u
#define BOUND_PERIOD_NS 100000000u

/* Of one device. */
struct share {
    uint64_t looked_ns, ran_ns; /* the last look, and what had run by then */
    int64_t owed_ns;
    uint32_t open; /* clients that have the device now, this one too; 0: it is held */
};

struct hold_limit {
    uint64_t max_ns;                /* 0 = no bound */
    _Atomic uint32_t share_percent; /* 0 = none; at most 90 */
    uint64_t since_ns[PAGE_DEVICES][PAGE_LEVELS];
    uint64_t open_until_ns[PAGE_DEVICES][PAGE_LEVELS];
    struct share share[PAGE_DEVICES];
    bool shares; /* there was one at the last look */
    bool lifted; /* what was taken out of `hold` is to stay out: it is not restored */
};

/* One look, by the one thread that enforces the bound. True while something is held. */
bool hold_limit_tick(struct hold_limit *b, struct cutin_page *page, uint64_t now_ns);
/* As of that look the share has level 0's hold of this device open, and so many clients take turns
 * there. 0: it has not. */
static inline uint32_t hold_limit_share(const struct hold_limit *b, uint32_t dev)
{
    return b->share[dev].open;
}
/* Puts back into `hold` what was taken from it: the daemon's bits as they are in `want`, which the
 * daemon always writes, too. */
void hold_limit_return(struct page_device *device, uint32_t level, uint32_t bits);
/* A hold stands open, which is to be closed again. */
bool hold_limit_opens(const struct hold_limit *b);
/* Nothing has waited until now. */
void hold_limit_begin(struct hold_limit *b);
/* The page is another one now. */
void hold_limit_reset(struct hold_limit *b);

#endif
