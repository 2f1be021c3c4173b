/*
 * topology.h - which client may hold which, on which devices, with which bit.
 *
 * A client is above another one if they share a device, its level is higher than the lowest level
 * of any stream of the other, and it has a bit on that device. Then it has the other's page (JOIN).
 * Bits are unique per device, and a bit that was given back is given out again as late as possible.
 * If all are given out, a client that comes with a higher level than an owner's gets that owner's
 * bit: the owner is told that it has none any more, and says when none of its threads can write it.
 * A user's bits beyond half of them go to other users of the same level, too.
 */
#ifndef CUTIN_SCHEDULER_PEERS_TOPOLOGY_H
#define CUTIN_SCHEDULER_PEERS_TOPOLOGY_H

#include "scheduler/peers/peer.h"

struct device {
    struct device *next;
    uint8_t uuid[16];
    uint32_t users;
    uint32_t bits;        /* given out */
    uint64_t freed_at_ns; /* when a bit was last freed because its client had gone */
    uint32_t next_bit;
    uint32_t up_to[PAGE_LEVELS]; /* users of a level or below, by topology_write_beside */
    struct peer_device *owner[PAGE_CLIENT_BITS]; /* of each bit, as of the last scan of mend.c */
    /* What a scan of shifts.c finds: for each level the clients that take shifts; how far all work
     * is. */
    struct device_work {
        uint32_t clients[PAGE_LEVELS];
        uint32_t long_us[PAGE_LEVELS]; /* the longest command of those clients */
        uint32_t sliced[PAGE_LEVELS];  /* clients at work that take none */
        uint64_t done;
    } work;
    uint64_t came_ns[PAGE_LEVELS]; /* when one of its clients last held others, for shifts.c */
    /* What usage.c adds up: what clients have told since then, at most, and how much of it they are
     * not sure of. */
    struct device_usage {
        uint64_t at_ns, sum_ns, unsure_ns;
        uint32_t clients;
    } usage;
    /* If clients are time-sliced they tell more time than there was: each takes what it waited for
     * its own. policy_tick.c still has so many nanoseconds of that to take back. */
    struct device_excess {
        uint64_t at_ns;
        int64_t ns;
    } excess;
    /* Its clients, for policy_tick.c. */
    struct peer_device *clients;
};

/* Adds a device of a client. Returns 0, -EINVAL (slot or device taken), or -ENOMEM. */
int topology_device(struct peer *p, uint32_t slot, const uint8_t uuid[16]);
/* A new client counts as having a client above if one may come to be, and is held until such
 * clients have its page. After topology_settle the links decide. */
void topology_expect(struct peer *peers, struct peer *p, uint64_t now_ns);
void topology_settle(struct peer *p);
/* `p` now has the page of this client. Returns 0, or -EPROTO: it was not told of any. */
int topology_joined(struct peer *p, uint64_t client);
/* `p` no longer writes the bit that was taken from it. Returns 0, or -EPROTO: none was. */
int topology_bit_returned(struct peer *peers, struct peer *p, uint32_t slot);
/* The words of `other` that work of each level of `owner` holds; NULL: `owner` is not above it. */
const uint8_t *topology_words(const struct peer *owner, const struct peer *other);
/* Ends what lasts too long of all that. Returns when it is due again, in ms; -1: nothing is. */
int topology_expire(struct peer *peers, uint64_t now_ns);
/* The level, lowest level or devices of `p` have changed: tells all that are concerned in
 * `peers`. */
void topology_update(struct peer *peers, struct peer *p);
/* `p` lives but does not run, or is ending: clears its bits in all pages. */
void topology_open_holds(struct peer *peers, const struct peer *p);
/* `p` runs again: tells it its bits once more, so that it writes those that should be set. */
void topology_resend_bits(struct peer *p);
/* `p` has gone: clears its bits in all pages, tells those above it, takes its bits back. */
void topology_remove(struct peer *peers, struct peer *p);

#endif
