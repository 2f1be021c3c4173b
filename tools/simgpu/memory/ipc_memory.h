/*
 * ipc_memory.h - memory that was imported from another process.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_IPC_MEMORY_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_IPC_MEMORY_H

#include "tools/simgpu/memory/memory.h"

/* The range whose owner this is has left the table: unmap it. */
void ipc_memory_release(void *owner);
/* The imported pool that it is from; NULL: it was opened by a handle of its own. */
CUmemoryPool ipc_memory_pool(const void *owner);
/* cuMemFree of what is from an imported pool, and cuMemFreeAsync: the work that unmaps it. Refused:
 * it is none such. */
CUresult ipc_memory_free(CUdeviceptr ptr);
bool ipc_memory_free_work(CUdeviceptr ptr, struct work *w);

#endif
