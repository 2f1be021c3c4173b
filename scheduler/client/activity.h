/*
 * activity.h - whether this process is active, at which level, on which device.
 *
 * Threads of the process count what they begin and end. The highest level with anything pending is
 * the level of the process on that device. It decides which hold bits are set in its own page and
 * in the pages below. A thread that takes a count from or to zero writes the bits and then looks
 * again: if anything has changed meanwhile it writes again. So the last writer has seen the last
 * change, and no lock is needed.
 *
 * Streams of the process hold each other by the levels they were made at, unless all have the level
 * of the process. That level may change while the process runs: then the streams stay as they were
 * made, and all of their work counts as of the new level at once.
 *
 * A request is all that happens on a device between two moments at which nothing above best effort
 * is active there. A request that begins gets a deadline if the process gives any: the hint for the
 * next one, or else the usual time from now on. Policies read it (policy_edf.c).
 *
 * A process that waits for something outside itself must not hold back what it waits for. If
 * external waits are pending and none begins or ends for ACTIVITY_STALL_NS, it counts as inactive.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_ACTIVITY_H
#define CUTIN_SCHEDULER_CLIENT_ACTIVITY_H

#include "scheduler/client/preemptible.h"
#include "scheduler/client/waker.h"

#define ACTIVITY_STALL_NS 20000000u

struct activity_device {
    _Alignas(64) _Atomic uint32_t count[PAGE_LEVELS];
    _Atomic uint64_t linger_until_ns[PAGE_LEVELS]; /* 0 = not lingering */
    _Atomic uint64_t
        direct_since_ns; /* active since then, not yet added to the GPU time; 0 = inactive */
    _Atomic uint64_t announced_until_ns[PAGE_LEVELS]; /* 0 = nothing is announced */
    _Atomic bool announced_begun[PAGE_LEVELS];        /* what was announced has begun */
    _Atomic bool uncounted; /* a cut-in began without a bit to hold others */
    /* External waits: bits 0..15 pending, bit 16 stalled, bits 32..63 begun or ended so far. */
    _Atomic uint64_t external;
    /* Only the client's thread: since when it has seen the present value of `external`. */
    uint64_t external_seen, external_since_ns;
    /* While a wait is stalled: `older` is how much work was begun when it stalled, which does not
     * count. `changes` counts later ends, and begins beside other work. */
    _Atomic uint32_t older, changes;
    uint32_t changes_seen, sum_seen; /* like external_seen, for `changes` and the sum of counts */
    uint64_t changes_since_ns;
};

struct activity {
    struct cutin_page *page; /* own */
    struct preemptible preemptible;
    uint64_t linger_ns;
    uint64_t deadline_ns;         /* of a request without a hint, from its begin; 0 = none */
    _Atomic uint64_t hint_due_ns; /* when the next request is to be done; 0 = no hint */
    _Atomic uint32_t ceiling;     /* granted: work holds others as if of this level at most; */
    _Atomic bool flat;            /* as if of just this level: all streams have the process's */
    bool direct;                  /* see client_config */
    struct activity_device device[PAGE_DEVICES];
    struct waker waker; /* calls activity_expire in time; if it does not run ticks do, late */
};

/* Any thread, real-time path. */
void activity_begin(struct activity *a, uint32_t dev, uint32_t level);
void activity_end(struct activity *a, uint32_t dev, uint32_t level);
void activity_note_wait(struct activity *a, uint32_t dev, bool begins);

/* As client_hint_deadline and client_announce (client.h), with a time of CLOCK_MONOTONIC; 0 takes
 * it back. Any thread. */
void activity_hint_due(struct activity *a, uint64_t due_ns);
void activity_announce(struct activity *a, uint32_t dev, uint32_t level, uint64_t until_ns);

/* Sets the bit by which the process holds others on a device; 0: none. Only the link's thread. */
void activity_set_bit(struct activity *a, uint32_t dev, uint32_t bit);
/* Writes the bits of one device, or of all devices, as they should be now. Any thread. */
void activity_refresh(struct activity *a, uint32_t dev);
void activity_refresh_all(struct activity *a);

/* Ends lingers and announcements whose time is over. Returns when the next one ends; 0: there is
 * none. Any thread. */
uint64_t activity_expire(void *activity, uint64_t now_ns);
/* Does the same and finds stalled external waits. Only the client's thread. */
void activity_tick(struct activity *a, uint64_t now_ns);
bool activity_lingering(const struct activity *a);
/* Whether anything is active, lingers, is announced, or waits for something outside. */
bool activity_any(const struct activity *a);
/* Forgets all activity, and clears the bits. */
void activity_clear(struct activity *a);

#endif
