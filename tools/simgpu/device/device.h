/*
 * device.h - who takes part in the shared devices (shared.h): membership, the lock, contexts,
 * streams, memory.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_DEVICE_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_DEVICE_H

#include "tools/simgpu/device/shared.h"

/* Joins the devices of this name. Creates them with `params` if no live process has them open. The
 * calling thread must live as long as the process takes part. 0 or -errno; -EPROTO: the file is
 * another version's. */
int device_open(struct device *d, const char *name, const struct device_params *params);
/* Leaves: the process's contexts and work go, and with the last process the file. Waits for the
 * lock `patience_ns` at most. In the thread of device_open, or as the last act of the process. */
void device_close(struct device *d, uint64_t patience_ns);
/* The lock of the devices. device_unlock wakes the engines whose next event has become earlier. */
void device_lock(struct device *d);
void device_unlock(struct device *d);
/* Removes processes that have died. True if there was one. Locked. */
bool device_reap_dead(struct device *d);
/* Whether there is any other process. Locked. */
bool device_has_other_clients(const struct device *d);

/* Device memory, counted over all clients: take bytes unless all would exceed `limit` (dead clients
 * do not count), give them back, ask how much is taken. They lock the device. */
bool device_memory_take(struct device *d, uint32_t gpu, uint64_t bytes, uint64_t limit);
void device_memory_give(struct device *d, uint32_t gpu, uint64_t bytes);
uint64_t device_memory_used(struct device *d, uint32_t gpu);

/* To be called with the lock. Each returns the id, or 0 if there is no slot or no memory left. */
uint32_t device_context_open(struct device *d, uint32_t gpu);
void device_context_close(struct device *d, uint32_t context);
uint32_t device_stream_open(struct device *d, uint32_t context, int priority);
void device_stream_close(struct device *d, uint32_t stream);

/* Without the lock: the owner says that the effects up to `seq` have run; any process asks whether
 * they have, by the low bits of a sequence number. A stream that is gone is complete. */
void device_complete(struct device *d, uint32_t stream, uint64_t seq);
bool device_point_done(const struct device *d, struct op_point p);

#endif
