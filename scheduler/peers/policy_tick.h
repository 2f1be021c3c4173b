/*
 * policy_tick.h - asks the policy who is to be held, and writes its answer into pages.
 */
#ifndef CUTIN_SCHEDULER_PEERS_POLICY_TICK_H
#define CUTIN_SCHEDULER_PEERS_POLICY_TICK_H

#include "scheduler/peers/peer.h"
#include "scheduler/policy/policy.h"

/* One decision on every device, if it is time. Returns when the next is due, in ms; -1: nobody
 * competes and nobody can. */
int policy_tick(struct peer *peers, const struct policy *policy, uint64_t now_ns);
/* Another policy, from now on: nobody is held by the old one any more. */
void policy_tick_reset(struct peer *peers);

#endif
