/*
 * ipc_memory.h - memory that was imported from another process.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_IPC_MEMORY_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_IPC_MEMORY_H

#include "tools/simgpu/memory/memory.h"

/* The range whose owner this is has left the table: unmap it. */
void ipc_memory_release(void *owner);

#endif
