/*
 * suspend.h - suspending: how a hold reaches the kernel that runs.
 *
 * A hold that finds more residue than CUTIN_SUSPEND_AFTER_US, by the estimates or by having waited
 * so long, takes the process's channel groups off the device (groups.h), and the end of the hold
 * puts them back as they were. The held process does that to itself, in a thread ("cutin-suspend")
 * that looks at the hold word: every 50 us while something long is in flight and somebody above is
 * connected, else much more seldom. So nobody needs rights over anybody, and what ends a hold ends
 * the suspension: a release, the daemon's repairs, and its death.
 *
 * Where groups stop by time slices alone, that is not done at holds unless it was asked for (`on`):
 * the control takes 2 ms (an H100, driver 580), as long as the slice that it spares. While somebody
 * above is connected and nobody else takes turns with this process, its slices are short, and what
 * runs leaves the device after one by itself.
 *
 * Only holds by clients above suspend; a pause or a turn of a policy waits. A process whose streams
 * have different levels is not suspended: the group of a stream is not known.
 */
#ifndef CUTIN_SHIM_PACE_SUSPEND_H
#define CUTIN_SHIM_PACE_SUSPEND_H

#include "shim/objects/context.h"

/* A context with queues is being made known. */
void suspend_open(struct shim_context *ctx);
/* At exit: everything goes on, and is not stopped any more. */
void suspend_end(void);

#endif
