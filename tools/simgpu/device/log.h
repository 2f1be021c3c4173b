/*
 * log.h - the log of device events, SIMGPU_LOG: one line per completed work, which tests check.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_LOG_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_LOG_H

#include "tools/simgpu/face/sim.h"

/* `stream_id` is what cuStreamGetId says. `ran` is false if the context had failed before the
 * effect could run. Cheap if there is no log. */
void log_work(const struct work *w, uint32_t device_context, struct point at, uint64_t stream_id,
              bool ran);

#endif
