/*
 * look.h - what the daemon looks at from time to time, since no event announces it: each noun is a
 * file, which says why. Where a look returns a time, that is when it is due again, in ms; -1: there
 * is nothing to look at.
 */
#ifndef CUTIN_SCHEDULER_PEERS_LOOK_H
#define CUTIN_SCHEDULER_PEERS_LOOK_H

#include "common/clock.h"
#include "scheduler/peers/topology.h"
#include "scheduler/policy/conf.h"

/* Something of its client is in flight there, or waits to be. */
static inline bool look_works(const struct page_device *device)
{
    return page_read(&device->counters.in_flight) || page_read(&device->counters.waiting);
}

/* ---- heartbeat.c --------------------------------------------------------------------------- */

#define HEARTBEAT_STALE_NS  (60ull * NS_PER_MS)
#define HEARTBEAT_ASK_NS    (30ull * NS_PER_MS)
#define HEARTBEAT_SILENT_NS (1000ull * NS_PER_MS)
#define HEARTBEAT_LOOK_MS   20

/* One look at all clients. True while there is one that may hold others, or has work where a policy
 * gives turns: then look again. */
bool heartbeat_look(struct peer *peers, bool turns, uint64_t now_ns);

/* ---- hold.c -------------------------------------------------------------------------------- */

struct hold {
    uint32_t bits; /* of clients */
    uint64_t ns;   /* how long, without a break */
};

/* Of the lowest streams of a client on a device; false: nobody holds them. */
bool hold_read(const struct peer *p, uint32_t slot, uint64_t now_ns, struct hold *hold);
/* The next client that holds so, after `from`, or the first; NULL: no more. */
const struct peer *hold_next(const struct peer *peers, const struct device *device,
                             const struct hold *hold, const struct peer *from);
/* Says which holds have become long. -1: nobody can be held. */
int hold_look(struct peer *peers, const struct conf *conf, uint64_t now_ns);

/* ---- mend.c -------------------------------------------------------------------------------- */

/* `policed`: there is a policy that writes its own bit. Returns when to look again, in ms; -1:
 * nobody can be held. */
int mend_look(struct topology *r, struct peer *peers, bool policed, uint64_t now_ns);
/* `p` has put back what it had taken out of its words: what is no more as it should be is put right
 * at once, and not said. */
void mend_lifted(struct topology *r, struct peer *peers, struct peer *p);
/* Somebody has gone who had pages of others. */
void mend_soon(void);

/* ---- policy_tick.c ------------------------------------------------------------------------- */

/* One decision on every device, if it is time. Returns when the next is due, in ms; -1: nobody
 * competes and nobody can. */
int policy_tick(struct peer *peers, const struct policy *policy, uint64_t now_ns);
/* Another policy, from now on: nobody is held by the old one any more. */
void policy_tick_reset(struct peer *peers);

/* ---- shifts.c ------------------------------------------------------------------------------ */

#define SHIFTS_LOOK_MS 20
#define SHIFTS_BACKLOG 3 /* so many looks in a row that found work */

/* One look at all clients. */
void shifts_look(struct peer *peers, uint64_t now_ns);
/* One that is not among them any more: until the next look its shifts would be nobody's. */
void shifts_leave(struct peer *peers, const struct peer *gone);

/* ---- stand.c ------------------------------------------------------------------------------- */

/* One look: how long all that the client has in flight there has got nowhere, ns, times in which
 * somebody held it left out; 0: it gets on, or has nothing. */
uint64_t stand_look(struct peer *p, uint32_t slot, uint64_t now_ns);
/* Grows as long as the client's work gets on. What it submits says nothing of that: the progress
 * guard (vhq/blocked.c) lets more in behind what stands. */
uint64_t stand_done(const struct peer *p, uint32_t slot);

/* ---- usage.c ------------------------------------------------------------------------------- */

#define USAGE_LOOK_MS 100

/* One look at all clients, if it is time. Returns when the next is due, in ms; -1: no two of them
 * are on one device. */
int usage_look(struct peer *peers, uint64_t now_ns);
/* What the client has had of the device in that slot, ns: as of the last look, and what it tells
 * since then. A look may take of that back, so what was returned once is the least. */
uint64_t usage_ns(struct peer *p, uint32_t slot);

#endif
