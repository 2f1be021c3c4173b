/*
 * graph_memory.h - memory of graphs' allocation nodes: taken when a node is made, given back when
 * its nodes are gone and what a launch allocated is freed: "Graph destruction does not
 * automatically free any live graph-allocated memory" (CUDA Programming Guide). It is a block like
 * others, in a pool of the device's own for graphs. Thread safe.
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

/* A launch allocated it without freeing it, or something freed it. Unfreed memory forbids another
 * launch of the same graph. */
void graph_memory_mark(CUdeviceptr ptr, bool in_use);
bool graph_memory_in_use(CUdeviceptr ptr);

struct block;
struct sim_pool;
/* Under the pools' lock (block.h). Is it the pool of its device's graphs? */
bool graph_memory_is(const struct sim_pool *p);
/* As graph_memory_mark; and one of its holders is gone. Either may be the end of it. */
void graph_block_mark(struct block *b, bool in_use);
void graph_block_drop(struct block *b);

#endif
