/*
 * pool.h - memory pools: stream-ordered allocation. An address is known when the call returns; the
 * memory behind it is valid in stream order, and a freed block is reused at once by its own stream,
 * by others when its free has been carried out.
 */
#ifndef SIMGPU_POOL_H
#define SIMGPU_POOL_H

#include "tools/simgpu/device/context.h"

struct sim_pool;

/* Gives up what the device's pools keep for reuse. */
void pools_trim(int ordinal);
/* cuMemFree of a pool's block: waits for nothing, as cuda.h says. */
CUresult pool_free_now(CUdeviceptr ptr);
/* May kernels of that device touch the memory of a MEMORY_POOL range's owner? */
bool pool_reaches(void *owner, int ordinal);
/* CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE of a MEMORY_POOL range's owner. */
CUmemoryPool pool_handle(void *owner);

/* Memory of a graph's allocation nodes: taken when the node is made, given back with the graph. It is
 * a block like others, in a pool of the device's own for graphs. */
CUdeviceptr pool_graph_take(struct sim_context *ctx, size_t bytes);
void pool_graph_give(CUdeviceptr ptr);
/* Does the address belong to an allocation node? */
bool pool_graph_owns(CUdeviceptr ptr);
/* A launch allocated it without freeing it, or something freed it. Unfreed memory forbids another
 * launch of the same graph. */
void pool_graph_mark(CUdeviceptr ptr, bool in_use);
bool pool_graph_in_use(CUdeviceptr ptr);

#endif
