/*
 * timeline.h - what runs when on the shared devices. All locked.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_TIMELINE_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_TIMELINE_H

#include "tools/simgpu/device/shared.h"

/* Append an op made by the caller (kind, cost_ns, submit_ns, after, sms, flags). Returns its
 * sequence number, or 0 when the ring is full. Advance afterwards. */
uint64_t device_submit(struct device *d, uint32_t stream, const struct op *op);
/* Bring the timeline up to `now`. */
void device_advance(struct device *d, uint64_t now);
/* A handed op is over, at `end_ns` (or at the clock, where that is later). The timeline must have
 * been brought up to end_ns before; advance afterwards. */
void device_resolve(struct device *d, uint32_t stream, uint64_t seq, uint64_t end_ns);
/* Everything queued in the context ends at once. Advance afterwards. */
void device_context_abort(struct device *d, uint32_t context);
/* When the client's engine must look again: 0 = now. */
uint64_t device_due(struct device *d, uint32_t client);
/* Fill in when every client must look again; device_due for all at once. */
void device_due_all(struct device_shared *sh, uint64_t due[DEVICE_CLIENTS]);
/* After the lock's holder was killed: complete its step. */
void device_repair(struct device_shared *sh);

#endif
