/*
 * graph_memory.h - memory of graphs' allocation nodes: taken when a node is made, given back with
 * the last copy of its work. It is a block like others, in a pool of the device's own for graphs.
 * Thread safe.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_GRAPH_MEMORY_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_GRAPH_MEMORY_H

#include "tools/simgpu/device/context.h"

/* Where the work of an allocation node has what in args.u64; a free's has the address alone. */
enum { ALLOC_PTR, ALLOC_BYTES, ALLOC_DEVICE, ALLOC_MEMORY };

/* The work of an allocation node, with one reference, and its address; CUDA_ERROR_OUT_OF_MEMORY. */
CUresult graph_memory_alloc(struct sim_context *ctx, size_t bytes, struct work *w,
                            CUdeviceptr *out);
/* The work of a node that frees it; CUDA_ERROR_INVALID_VALUE: no allocation node's address. */
CUresult graph_memory_free(CUdeviceptr ptr, struct work *w);

/* Does the address belong to an allocation node? */
bool graph_memory_owns(CUdeviceptr ptr);
/* A launch allocated it without freeing it, or something freed it. Unfreed memory forbids another
 * launch of the same graph. */
void graph_memory_mark(CUdeviceptr ptr, bool in_use);
bool graph_memory_in_use(CUdeviceptr ptr);

struct sim_pool;
/* Is it the pool of its device's graphs? Under the pools' lock (block.h). */
bool graph_memory_is(const struct sim_pool *p);

#endif
