/*
 * scan.h - what the daemon looks at from time to time, because no event announces it. Names begin
 * with those of files, which say why. A scan looks at all clients once. If it returns a time, it is
 * due again then, in ms; -1: there is nothing to scan.
 */
#ifndef CUTIN_SCHEDULER_PEERS_SCAN_H
#define CUTIN_SCHEDULER_PEERS_SCAN_H

#include "common/clock.h"
#include "scheduler/peers/topology.h"
#include "scheduler/policy/conf.h"

/* Whether the client has something in flight on the device, or waiting. */
static inline bool device_has_work(const struct page_device *device)
{
    return figure_read(&device->counters.in_flight) || figure_read(&device->counters.waiting);
}

#define HEARTBEAT_STALE_NS  (60ull * NS_PER_MS)
#define HEARTBEAT_ASK_NS    (30ull * NS_PER_MS)
#define HEARTBEAT_SILENT_NS (1000ull * NS_PER_MS)
#define HEARTBEAT_SCAN_MS   20

/* True while there is a client that may hold others, or that has work under a policy that gives
 * quanta: then scan again. */
bool heartbeat_scan(struct peer *peers, bool policed, uint64_t now_ns);

struct hold {
    uint32_t bits; /* of clients that hold; 0: it is not held */
    uint64_t ns;   /* for how long without a break */
};

/* Reads the hold of the lowest streams of a client on a device. */
struct hold hold_read(const struct peer_device *at, uint64_t now_ns);
/* The next client after `from` that takes part in this hold, or the first; NULL: no more. */
const struct peer *hold_next_holder(const struct peer *peers, const struct device *device,
                                    const struct hold *hold, const struct peer *from);
/* Warns of long holds. -1: no client can be held, or no warnings. */
int hold_scan(struct peer *peers, const struct conf *conf, uint64_t now_ns);

/* `policed`: there is a policy that writes its own bit. -1: no client can be held. */
int mend_scan(struct peer *peers, bool policed, uint64_t now_ns);
/* `p` has put back the bits that it had taken out of its words. Those that are no longer as they
 * should be are put right at once, without a line in the log. */
void mend_client(struct peer *peers, struct peer *p);
/* A client has gone that had pages of others. */
void mend_soon(void);

/* Decides on every device, if it is time. -1: no clients compete and none can. */
int policy_tick(struct peer *peers, const struct policy *policy, uint64_t now_ns);
/* The policy changes: ends all holds by the old one. */
void policy_tick_reset(struct peer *peers);

#define SHIFTS_SCAN_MS    20
#define SHIFTS_BUSY_SCANS 3 /* scans in a row that must find work */

void shifts_scan(struct peer *peers, uint64_t now_ns);
/* There are no more scans for now: nobody takes shifts. */
void shifts_end(struct peer *peers);
/* `gone` is no longer among them: its shifts are given to the others now, not at the next scan. */
void shifts_leave(struct peer *peers, const struct peer *gone);

/* Measures once. For how many ns all that the client has in flight there has made no progress,
 * without the times in which it was held; 0: it makes progress, or has nothing in flight. */
uint64_t stall_measure(struct peer_device *at, uint64_t now_ns);
/* Grows as long as the client's work makes progress. What it submits is no measure: the progress
 * guard (vhq/blocked.c) lets more in behind stalled work. */
uint64_t stall_progress(const struct peer_device *at);

#define USAGE_SCAN_MS 100

/* Scans if it is time. -1: no two clients are on one device. */
int usage_scan(struct peer *peers, uint64_t now_ns);
/* How much time of that device the client has had, ns: as of the last scan, plus what it has told
 * since. A scan may take some of that back, so this never returns less than before. */
uint64_t usage_ns(struct peer_device *at);

#endif
