/*
 * link.h - the client's link to the daemon: it registers, takes in what the daemon says, and starts
 * again when that has gone. All under the lock of `self`.
 */
#ifndef CUTIN_LINK_H
#define CUTIN_LINK_H

#include "trace/clock.h"
#include "scheduler/client/state.h"

#define LINK_BACKOFF_MIN_NS (50 * NS_PER_MS)

/* Says HELLO; the welcome is to come within `wait_ns`. */
void link_connect(struct client_state *self, uint64_t wait_ns);
/* Everything that has arrived and everything that is due. */
void link_service(struct client_state *self, uint64_t now);
/* Ends the link, for the reason `why`, and begins to drain it. */
void link_down(struct client_state *self, int why);
/* Bits are cleared and pages unmapped once no thread can be writing to them any more; only then may
 * this process register again. */
void link_drain(struct client_state *self);

/* Return 0 or -errno. */
int link_send_device(struct client_state *self, uint32_t slot);
int link_send_level(struct client_state *self, uint32_t level);

#endif
