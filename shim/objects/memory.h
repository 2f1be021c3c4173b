/*
 * memory.h - what an address is: memory that the driver knows, or the program's own pages.
 */
#ifndef CUTIN_SHIM_OBJECTS_MEMORY_H
#define CUTIN_SHIM_OBJECTS_MEMORY_H

#include "shim/lookup/shim.h"

/* VHQ_MUST_INLINE unless all of it is memory of one of these kinds that the driver knows: then a
 * copy may be deferred. Pageable memory must be read, or written, before the call returns; and what
 * is no memory gives an error at the call. Managed memory is the host's and the device's, too. */
enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_MANAGED = 4, MEMORY_ANY = 7 };
uint32_t memory_flags(CUdeviceptr address, size_t bytes, unsigned kinds);
/* Likewise, unless it is all of a managed allocation; 0 bytes stand for that. */
uint32_t memory_managed_whole_flags(CUdeviceptr address, size_t bytes);
/* VHQ_MUST_INLINE where an end of a copy is memory of a pool that the driver may refuse: what
 * counts is the device of the context that is current in the call (CUDA Programming Guide, stream
 * ordered memory allocator). Where what is buffered is made that is the stream's. */
struct gpu_device;
uint32_t memory_pool_flags(CUdeviceptr a, CUdeviceptr b, const struct gpu_device *of_stream);
/* Where managed memory may go: CU_DEVICE_INVALID where that is not certain; and likewise, unless
 * such a place exists and takes part. */
CUdevice memory_target(CUmemLocation to);
uint32_t memory_target_flags(CUdevice target);

/* Memory of the host: the program's own, or pinned. */
bool memory_host(CUdeviceptr address);
/* The program's own, all of it there. Costs a system call. */
bool memory_mapped(const void *address, size_t bytes);

/* Some memory goes, or has gone: what was known of addresses is void, in every thread. */
void memory_forget(void);

/* The program's own memory, as the device sees it, while it is registered: others may see what is
 * written there. Thread safe. */
void memory_registered_add(void *p, size_t bytes);
void memory_registered_remove(CUdeviceptr device);
/* A context has gone, and what was registered in it with it. Asks the driver. */
void memory_registered_look(void);
bool memory_registered(CUdeviceptr address);

/* Not 0: the program has registered memory of another device, or has some in common with another
 * process: its kernels may ring doorbells, or write what somebody waits for. */
extern _Atomic uint32_t memory_rings;

/* Does the driver return from a synchronous copy only when it is complete? Into host memory, yes;
 * from pinned memory, yes; from pageable memory it may have staged the rest; within a device it
 * does not wait ("API synchronization behavior" of the CUDA Driver API). */
bool memory_copy_waits(CUdeviceptr dst, CUdeviceptr src);

#endif
