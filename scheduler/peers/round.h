/*
 * round.h - asks the policy who is to be held, device by device, and writes its answer into the
 * pages.
 */
#ifndef CUTIN_SCHEDULER_PEERS_ROUND_H
#define CUTIN_SCHEDULER_PEERS_ROUND_H

#include "scheduler/peers/peer.h"
#include "scheduler/policy/policy.h"

/* One decision on every device, if it is time. Returns when the next is due, in ms; -1: nobody
 * competes and nobody can. */
int round_run(struct peer *peers, const struct policy *policy, uint64_t now_ns);
/* Another policy, from now on: nobody is held by the old one any more. */
void round_reset(struct peer *peers);

#endif
