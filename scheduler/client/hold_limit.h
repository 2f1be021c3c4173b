/*
 * hold_limit.h - the longest single hold (CUTIN_MAX_HOLD_MS), enforced by the held process itself.
 *
 * After a level was held for that long without a break, its `hold` word opens for a tenth of the
 * bound, at least BOUND_OPEN_NS, and is then restored from `want`. The scheduler's own writes go to
 * both words, so outside that window the bound costs nothing and delays no hold. An owner that
 * becomes active anew during the window closes it; the next look, at most BOUND_LOOK_NS later,
 * opens it again until the window is over. The administrator's pause and the daemon's policy are
 * not bounded.
 *
 * The daemon's minimum share for best effort works the same way: with a share of S percent, level 0
 * is held for no more than 100 - S ms at a stretch, and is then open for S ms.
 *
 * Looks are BOUND_LOOK_NS apart while something is held; a break shorter than that may go unseen,
 * which opens a hold early, never late.
 */
#ifndef CUTIN_BOUND_H
#define CUTIN_BOUND_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/wire/page.h"

#define BOUND_OPEN_NS   2000000u
#define BOUND_LOOK_NS   1000000u
#define BOUND_PERIOD_NS 100000000u

struct hold_limit {
    uint64_t max_ns;        /* 0 = no bound */
    uint32_t share_percent; /* 0 = none; at most 90 */
    uint64_t since_ns[PAGE_DEVICES][PAGE_LEVELS];
    uint64_t open_until_ns[PAGE_DEVICES][PAGE_LEVELS];
};

/* One look, by the one thread that enforces the bound. True while something is held. */
bool hold_limit_tick(struct hold_limit *b, struct cutin_page *page, uint64_t now_ns);
/* The page is another one now. */
void hold_limit_reset(struct hold_limit *b);

#endif
