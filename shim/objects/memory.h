/*
 * memory.h - what an address is: memory that the driver knows, or the program's own pages.
 */
#ifndef CUTIN_SHIM_OBJECTS_MEMORY_H
#define CUTIN_SHIM_OBJECTS_MEMORY_H

#include "shim/lookup/shim.h"

/* 0 if the whole range is memory that the driver knows, of one of these kinds: then a copy may be
 * deferred. Else VHQ_MUST_INLINE: pageable memory must be read or written before the call returns,
 * and what is no memory must give an error at the call. Managed memory counts as all kinds. */
enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_MANAGED = 4, MEMORY_ANY = 7 };
uint32_t memory_flags(CUdeviceptr address, size_t bytes, unsigned kinds);
/* 0 if the range is a whole managed allocation (0 bytes mean all of it), else VHQ_MUST_INLINE. */
uint32_t memory_managed_whole_flags(CUdeviceptr address, size_t bytes);
/* VHQ_MUST_INLINE if either side of a copy is pool memory that the driver may refuse. It judges by
 * the device of the context that is current in the call (CUDA Programming Guide, stream ordered
 * memory allocator); for a buffered call that is the stream's device. */
struct gpu_device;
uint32_t memory_pool_flags(CUdeviceptr a, CUdeviceptr b, const struct gpu_device *of_stream);
/* Where managed memory may be moved; CU_DEVICE_INVALID if that is not certain. The flags are 0 if
 * that place and the stream's device have concurrent managed access, else VHQ_MUST_INLINE. */
CUdevice memory_target(CUmemLocation to);
uint32_t memory_target_flags(CUdevice target);

/* Host memory: the program's own, or pinned. */
bool memory_host(CUdeviceptr address);
/* The program's own, and all of it mapped. Costs a system call. */
bool memory_mapped(const void *address, size_t bytes);

/* Memory is or was freed: all threads forget what they know of addresses. */
void memory_forget(void);

/* Memory of the program that it has registered, by the device's address: other processes or devices
 * may see what is written there. Thread safe. */
CUdeviceptr memory_registered_at(void *p);
void memory_registered_add(void *p, size_t bytes);
void memory_registered_remove(CUdeviceptr device);
/* A context is gone, and with it what was registered in it. Asks the driver. */
void memory_registered_prune(void);
bool memory_registered(CUdeviceptr address);

/* Not 0: the program has registered memory of another device, or shares memory with another
 * process. So its kernels may ring doorbells, or write what another process waits for. */
extern _Atomic uint32_t memory_seen_elsewhere;

/* Does the driver return from a synchronous copy only when that is complete? Yes into host memory,
 * and from pinned memory. From pageable memory it may have staged the rest. Within a device it does
 * not wait ("API synchronization behavior" of the CUDA Driver API). */
bool memory_copy_waits(CUdeviceptr dst, CUdeviceptr src);

#endif
