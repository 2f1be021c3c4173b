/*
 * suspend.h - suspending: how a hold reaches the kernel that runs.
 *
 * A hold suspends when it finds more residue than CUTIN_SUSPEND_AFTER_US by the estimates, or has
 * waited so long for it. The process's channel groups leave the device (groups.h), and the end of
 * the hold puts them back as they were. The held process does that to itself. Its thread
 * "cutin-suspend" looks at the hold word every 50 us while something long is in flight and a client
 * above is connected, else much more seldom. So no process needs rights over another one, and what
 * ends a hold ends the suspension: a release, the daemon's repairs, and its death.
 *
 * If groups stop by time slices alone, that is not done at holds unless it was asked for (`on`):
 * the control takes 2 ms (an H100, driver 580), as long as the slice that it spares. Instead the
 * slices of this process are short while a client above is connected and no other process takes
 * turns with it. What runs then leaves the device after one slice by itself.
 *
 * Only holds by clients above suspend; a pause or a turn of a policy waits. A process whose streams
 * have different levels is not suspended: the group of a stream is not known.
 */
#ifndef CUTIN_SHIM_PACE_SUSPEND_H
#define CUTIN_SHIM_PACE_SUSPEND_H

#include "shim/objects/context.h"

/* Called while a context with queues is made known. */
void suspend_open(struct shim_context *ctx);
/* At exit: all groups go on, and none is stopped any more. */
void suspend_end(void);

#endif
