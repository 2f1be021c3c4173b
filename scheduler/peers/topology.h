/*
 * topology.h - who may hold whom, on which devices, with which bit.
 *
 * A client is above another when they share a device, its level is higher than the lowest level of
 * any stream of the other, and it has a bit on that device. Then it has the other's page (JOIN).
 * Bits are unique per device, and one that was given back is given out again as late as possible.
 * Where all are given out, who comes with a higher level than somebody who has one gets that one's:
 * the owner is told that it has none any more, and says when none of its threads can write it. What
 * one user has beyond half of them goes to others of the same level, too.
 */
#ifndef CUTIN_SCHEDULER_PEERS_TOPOLOGY_H
#define CUTIN_SCHEDULER_PEERS_TOPOLOGY_H

#include "scheduler/peers/peer.h"

struct topology;

struct device {
    struct device *next;
    uint8_t uuid[16];
    uint32_t users;
    uint32_t bits;     /* given out */
    uint64_t freed_ns; /* when the last one was given back by who has gone */
    uint32_t next_bit;
    uint32_t level[PAGE_LEVELS]; /* users by level; topology_count's */
    /* Whose a bit is, and at which of its slots; as of the last look of mend.c. */
    struct device_owners {
        struct peer *peer[PAGE_CLIENT_BITS];
        uint32_t slot[PAGE_CLIENT_BITS];
    } owners;
    /* What a look of shifts.c finds there: clients of each level that take shifts, and how far the
     * work of all has got. */
    struct device_work {
        uint32_t clients[PAGE_LEVELS];
        uint32_t long_us[PAGE_LEVELS]; /* who always have work, and the longest */
        uint64_t done;
    } work;
    /* What usage.c adds up: what clients told since then, at most, and what of it they are not sure
     * of. */
    struct device_usage {
        uint64_t at_ns, sum_ns, unsure_ns;
        uint32_t clients;
    } usage;
    /* More time than there was is told where clients run in turns: each takes what it waited for
     * its own. So many nanoseconds of that policy_tick.c is still to take back. */
    struct device_excess {
        uint64_t at_ns;
        int64_t ns;
    } excess;
    /* Its clients, for policy_tick.c. */
    struct peer *first;
    struct peer_device *last;
};

struct topology *topology_new(void);
void topology_free(struct topology *r);

/* A client has one more device, and is told its bit. Returns 0, -EINVAL (slot or device taken), or
 * -ENOMEM. */
int topology_device(struct topology *r, struct peer *p, uint32_t slot, const uint8_t uuid[16]);
/* A new client counts as having somebody above where that may come to be, and is held until those
 * have its page. From now on links say. */
void topology_expect(struct peer *peers, struct peer *p, uint64_t now_ns);
void topology_settle(struct peer *p);
/* `p` has the page of this client now. Returns 0, or -EPROTO: it was told of none. */
int topology_joined(struct topology *r, struct peer *peers, struct peer *p, uint64_t client);
/* `p` writes the bit no more that was taken from it. Returns 0, or -EPROTO: none was. */
int topology_returned(struct topology *r, struct peer *peers, struct peer *p, uint32_t slot);
/* Which words of `other` work of each level of `owner` holds; NULL: it is not above it. */
const uint8_t *topology_words(struct topology *r, const struct peer *owner,
                              const struct peer *other);
/* Ends what lasts too long of all that. Returns the time until it is due again, in ms; -1: there is
 * nothing. */
int topology_look(struct topology *r, struct peer *peers, uint64_t now_ns);
/* Level, lowest level or devices of `p` have changed: tells everybody concerned in `peers`. */
void topology_update(struct topology *r, struct peer *peers, struct peer *p);
/* `p` is there but does not run, or is ending: clears its bits in all pages. */
void topology_open_holds(struct peer *peers, const struct peer *p);
/* It runs again: tells it its bits once more, so that it writes those that should stand. */
void topology_remind(struct peer *p);
/* `p` has gone: clears its bits in all pages, tells those above it, takes its bits back. */
void topology_remove(struct topology *r, struct peer *peers, struct peer *p);

#endif
