/*
 * usage.h - how much of a device's time each client has had, for `list` and `top`.
 *
 * A client tells the time that it was busy there at most, others' turns included, and what of that
 * it is not sure of (page_counters). All of them together had no more than went by: what is too
 * much comes off what they are not sure of, and then off all alike. Clients publish every 10 ms,
 * each when it does, so this is done over longer times.
 */
#ifndef CUTIN_SCHEDULER_PEERS_USAGE_H
#define CUTIN_SCHEDULER_PEERS_USAGE_H

#include "scheduler/peers/topology.h"

#define USAGE_LOOK_MS 100

/* One look at all clients, if it is time. Returns when the next is due, in ms; -1: no two of them
 * are on one device. */
int usage_look(struct peer *peers, uint64_t now_ns);
/* What the client has had of the device in that slot, ns: as of the last look, and what it tells
 * since then. */
uint64_t usage_ns(const struct peer *p, uint32_t slot);

#endif
