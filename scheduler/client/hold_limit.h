/*
 * hold_limit.h - the longest single hold (CUTIN_MAX_HOLD_MS), enforced by the held process itself.
 *
 * After a level was held for that long without a break, its `hold` word opens for a tenth of the
 * bound, at least HOLD_LIMIT_OPEN_NS, and is then restored from `want`. Owners write their bits to
 * both words, so outside that window the bound costs nothing and delays no hold. An owner that
 * becomes active anew during the window closes it. The next look, at most a millisecond later,
 * opens it again until the window is over. The administrator's pause and the daemon's policy are
 * not bounded.
 *
 * The daemon's minimum share for best effort counts what ran (page_counters.gpu_ns, less
 * unsure_ns). With a share of S percent, level 0 is owed S percent of the time while it has work.
 * Once it is owed (100 - S) percent of S ms, its hold opens until that is paid. Meanwhile the
 * client's own queues do not look at the word (share.open), because an owner that becomes
 * active anew would close it.
 *
 * Looks are a millisecond apart while something is held. A shorter break may go unseen, which opens
 * a hold early, never late. A process in which nothing waits need not look: for it a hold begins
 * when something waits.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_HOLD_LIMIT_H
#define CUTIN_SCHEDULER_CLIENT_HOLD_LIMIT_H

#include "scheduler/wire/page.h"

#define HOLD_LIMIT_OPEN_NS 2000000u
#define SHARE_PERIOD_NS    100000000u

struct hold_limit {
    uint64_t max_ns;                /* 0 = no bound */
    _Atomic uint32_t share_percent; /* 0 = none; at most 90 */
    uint64_t since_ns[PAGE_DEVICES][PAGE_LEVELS];
    uint64_t open_until_ns[PAGE_DEVICES][PAGE_LEVELS];
    struct share {                       /* the account of a device */
        uint64_t measured_at_ns, ran_ns; /* the last look, and what had run by then */
        int64_t owed_ns;
        /* How many clients share its time while the share has level 0's hold open there, this one
         * included, as of the last look; 0: it is not open. */
        uint32_t open;
    } share[PAGE_DEVICES];
    bool shares; /* there was a share at the last look */
    bool lifted; /* bits were taken out of `hold` and must not be restored */
};

/* Looks once; only the thread that enforces the bound. True while something is held. */
bool hold_limit_tick(struct hold_limit *b, struct cutin_page *page, uint64_t now_ns);
/* Puts back into `hold` the bits that were taken from it. The daemon's bits come from `want`, to
 * which the daemon always writes, too. */
void hold_limit_restore(struct page_device *device, uint32_t level, uint32_t bits);
/* Whether a hold is open now that must be closed again. */
bool hold_limit_is_open(const struct hold_limit *b);
/* All holds begin now, because nothing has waited until now. */
void hold_limit_rebase(struct hold_limit *b);
/* Forgets everything, because the page has been replaced. */
void hold_limit_reset(struct hold_limit *b);

#endif
