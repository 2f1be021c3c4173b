/*
 * departed.h - what streams leave behind: work in the driver, of streams above best effort that no
 * handle names any more. It holds others as long as it runs.
 */
#ifndef CUTIN_SHIM_PACE_DEPARTED_H
#define CUTIN_SHIM_PACE_DEPARTED_H

#include "shim/objects/stream.h"

/* For so many ticks work may get nowhere and hold others all the same (CUTIN_STUCK_MS). */
uint32_t departed_stuck_ticks(void);
/* In the client's thread, with the context current; `tick`: as once a tick. Returns how many hold
 * nobody any more, since they do not end (look_stuck_ticks). */
uint32_t departed_look(struct shim_context *ctx, bool tick);

#endif
