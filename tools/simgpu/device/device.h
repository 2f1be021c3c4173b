/*
 * device.h - who takes part in the shared devices (shared.h): membership, the lock, contexts,
 * streams, memory.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_DEVICE_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_DEVICE_H

#include "tools/simgpu/device/shared.h"

/* Join the devices of this name, creating them with `params` where nobody alive has them open. Call
 * it from the thread whose life stands for the process. 0 or -errno; -EPROTO: another version's
 * file. */
int device_open(struct device *d, const char *name, const struct device_params *params);
/* Leave: the process's contexts and work go; the file too with the last process. Waits at most
 * `patience_ns` for the lock. Same thread as device_open, or the last act of the process. */
void device_close(struct device *d, uint64_t patience_ns);
/* The lock of the devices. unlock wakes the engines whose next event became earlier. */
void device_lock(struct device *d);
void device_unlock(struct device *d);
/* Remove processes that died. Locked. True when there was one. */
bool device_bury(struct device *d);
/* Is there any other process? Locked. */
bool device_shared_now(const struct device *d);

/* Device memory, counted over all clients: take bytes unless that would be more than `limit` in all
 * (a dead client's count for nothing), give them back, and what is taken. They lock the device. */
bool device_memory_take(struct device *d, uint32_t gpu, uint64_t bytes, uint64_t limit);
void device_memory_give(struct device *d, uint32_t gpu, uint64_t bytes);
uint64_t device_memory_taken(struct device *d, uint32_t gpu);

/* Locked. Each returns the id, or 0 when there is no slot (or no memory) left. */
uint32_t device_context_open(struct device *d, uint32_t gpu);
void device_context_close(struct device *d, uint32_t context);
uint32_t device_stream_open(struct device *d, uint32_t context, int priority);
void device_stream_close(struct device *d, uint32_t stream);

/* Not locked: the owner says that the effects up to `seq` have run; anybody asks whether that is so
 * for the low bits of a sequence number. What is gone is complete. */
void device_complete(struct device *d, uint32_t stream, uint64_t seq);
bool device_completed(const struct device *d, struct op_point p);

#endif
