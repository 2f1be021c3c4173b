/*
 * policy.h - which of the clients of one level go first, as the daemon decides from time to time.
 *
 * Between levels nothing needs deciding: the higher one holds the lower one by itself, at once. A
 * policy is one file with one row of this table, added to the list in policy.c; docs/policy.md
 * walks through it. It sees the clients of one device and says which are held until the next
 * decision. The daemon writes that as PAGE_BIT_POLICY, a bit of its own in every page.
 */
#ifndef CUTIN_SCHEDULER_POLICY_POLICY_H
#define CUTIN_SCHEDULER_POLICY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* One client on one device. */
struct policy_member {
    uint32_t level;  /* 0..3, granted */
    uint32_t weight; /* 1..1000 */
    uint64_t
        used_ns; /* GPU time of what completed since the last decision, as the client reports */
    bool wants;  /* it has work in flight or waiting */
    bool gives_deadlines; /* as it said when it registered */
    uint64_t deadline_ns; /* when its present request is to be done, CLOCK_MONOTONIC; 0 = none */
    bool can_be_held;     /* false: its streams have no queues */
    uint64_t *memory;     /* for the policy, kept between decisions; 0 at first */
    bool hold;            /* the answer; false at first */
};

enum {
    POLICY_NOW_MS = 1,     /* for what clients tell at once: their deadlines */
    POLICY_SOON_MS = 10,   /* clients publish their figures so often */
    POLICY_LATER_MS = 100, /* no clients compete: look whether that has changed */
};

struct policy {
    const char *name, *help;
    /* Fills in `hold` of `n` members, at least two. Returns when to ask again, in ms. NULL: no
     * client is ever held, and nothing has to be asked. */
    uint32_t (*decide)(struct policy_member *members, uint32_t n);
};

extern const struct policy policy_fixed, policy_fair, policy_edf;

/* All, with NULL behind them. The first is the default. */
extern const struct policy *const policies[];
/* NULL: there is none of that name. */
const struct policy *policy_find(const char *name);

#endif
