/*
 * log.h - the device event log, SIMGPU_LOG: one line per completed work, for tests to check.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_LOG_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_LOG_H

#include "tools/simgpu/face/sim.h"

/* `stream_id`: what cuStreamGetId says. `ran`: its effect ran; false when the context had failed
 * before. Cheap when there is no log. */
void log_work(const struct work *w, uint32_t device_context, struct point at, uint64_t stream_id,
              bool ran);

#endif
