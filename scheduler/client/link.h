/*
 * link.h - the client's link to the daemon: it registers, takes in what the daemon says, and starts
 * again when that has gone. It has a thread of its own, and where the kernel lets
 * it a descriptor table of its own, so nothing of it can be seen or closed among the program's. All
 * under the lock of `self`.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_LINK_H
#define CUTIN_SCHEDULER_CLIENT_LINK_H

#include "common/clock.h"
#include "scheduler/client/state.h"

#define LINK_BACKOFF_MIN_NS (50 * NS_PER_MS)

/* The daemon is told what is due. Any thread. */
void link_ask(struct client_state *self);

/* Starts its thread, "cutin-link". Returns 0 or -errno. */
int link_start(struct client_state *self);
/* With `stop` set, and without the lock: the thread leaves the daemon, and ends. False: not by that
 * time. */
bool link_end(struct client_state *self, uint64_t by_ns);

#endif
