/*
 * graph_memory.h - the memory of graphs' allocation nodes. It is taken when a node is made. It is
 * given back when its nodes are gone and what a launch allocated is freed: "Graph destruction does
 * not automatically free any live graph-allocated memory" (CUDA Programming Guide). It is a block
 * like others, in a pool that the device has for graphs. Thread safe.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_GRAPH_MEMORY_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_GRAPH_MEMORY_H

#include "tools/simgpu/device/context.h"

/* The places in args.u64 of an allocation node's work. A free's work has only the address. */
enum { ALLOC_PTR, ALLOC_BYTES, ALLOC_DEVICE, ALLOC_MEMORY };

/* An allocation node's work, with one reference, and its address; CUDA_ERROR_OUT_OF_MEMORY. */
CUresult graph_memory_alloc(struct sim_context *ctx, size_t bytes, struct work *w,
                            CUdeviceptr *out);
/* Makes the work of a node that frees it. CUDA_ERROR_INVALID_VALUE: not such an address. */
CUresult graph_memory_free(CUdeviceptr ptr, struct work *w);

/* Notes that a launch has allocated it, or that it was freed. Unfreed memory forbids another launch
 * of the same graph. */
void graph_memory_mark(CUdeviceptr ptr, bool in_use);
bool graph_memory_in_use(CUdeviceptr ptr);

struct block;
struct sim_pool;
/* Under the pools' lock (block.h). Whether it is a device's pool for graphs. */
bool pool_is_graph_pool(const struct sim_pool *p);
/* graph_memory_mark of a block; and the end of one of its refs. Either may free the block. */
void graph_block_mark(struct block *b, bool in_use);
void graph_block_put(struct block *b);

#endif
