/*
 * timeline.h - what runs when on the shared devices. All functions are called with the lock.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_TIMELINE_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_TIMELINE_H

#include "tools/simgpu/device/shared.h"

/* Appends an op that the caller has filled in (kind, cost_ns, submit_ns, after, sms, flags).
 * Returns its sequence number, or 0 if the ring is full. Advance afterwards. */
uint64_t device_submit(struct device *d, uint32_t stream, const struct op *op);
/* Brings the timeline up to `now`. */
void device_advance(struct device *d, uint64_t now);
/* Ends a handed op at `end_ns`, or at the clock if that is later. Advance the timeline to end_ns
 * before the call, and advance it again afterwards. */
void device_resolve(struct device *d, uint32_t stream, uint64_t seq, uint64_t end_ns);
/* Everything that is queued in the context ends at once. Advance afterwards. */
void device_context_abort(struct device *d, uint32_t context);
/* When the client's engine must look again; 0: now. */
uint64_t device_due(struct device *d, uint32_t client);
/* Fills in when the engine of each client must look again, for all of them at once. */
void device_due_all(struct device_shared *sh, uint64_t due[DEVICE_CLIENTS]);
/* Completes the step of a process that was killed while it held the lock. */
void device_repair(struct device_shared *sh);

#endif
