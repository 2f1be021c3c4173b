/*
 * link.h - the client's link to the daemon. It registers, handles what the daemon sends, and starts
 * again when the daemon has gone. It has a thread of its own and, where the kernel allows it, a
 * descriptor table of its own: then nothing of it can be seen or closed among the program's
 * descriptors. All functions are called with the lock of `self`, except link_end.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_LINK_H
#define CUTIN_SCHEDULER_CLIENT_LINK_H

#include "common/clock.h"
#include "scheduler/client/state.h"

#define LINK_BACKOFF_MIN_NS (50 * NS_PER_MS)

/* Has the daemon told what is due. Any thread. */
void link_flush(struct client_state *self);

/* Starts the thread "cutin-link". Returns 0 or -errno. */
int link_start(struct client_state *self);
/* To be called with `stop` set, without the lock: makes the thread leave the daemon and end. False:
 * it has not ended by that time. */
bool link_end(struct client_state *self, uint64_t by_ns);

#endif
