/*
 * copy.h - copies: every form of the API becomes one CUDA_MEMCPY3D, and that becomes one work. Also
 * the other works that touch memory in a stream: memsets and memory operations.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_COPY_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_COPY_H

#include "tools/simgpu/device/context.h"

/* A copy whose two ends are resolved to addresses; the effect carries it out. */
struct transfer {
    uintptr_t dst, src;
    size_t dst_pitch, src_pitch, dst_slice, src_slice;
    size_t width, height, depth; /* bytes, rows, layers */
};

/* One end of a copy. CUDA_MEMCPY3D begins with the source's, and the destination's follows. */
struct copy_end {
    size_t x, y, z, lod;
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    void *reserved;
    size_t pitch, height;
};
_Static_assert(offsetof(CUDA_MEMCPY3D, dstXInBytes) == sizeof(struct copy_end) &&
                   offsetof(CUDA_MEMCPY3D, WidthInBytes) == 2 * sizeof(struct copy_end),
               "both ends are alike");

/* Whether the call may return before the copy is complete. */
enum copy_mode {
    COPY_SYNC,  /* waits, unless both ends are device memory */
    COPY_ASYNC, /* reads a pageable source during the call, waits for a pageable destination */
    COPY_GRAPH, /* a node: memory is touched when the graph runs */
};

/* How long a copy or memset of so many bytes takes on the device: latency plus transfer. `within`:
 * it stays within a device or the host. */
uint64_t copy_cost_ns(size_t bytes, bool within);
/* Checks a copy as the driver does, and builds its work without staging. blob points to `p`, so a
 * captured copy can be asked for its parameters. */
CUresult copy_work(const struct sim_context *ctx, const CUDA_MEMCPY3D *p, struct work *w);
/* Copies in the current context. "Any async memcpy involving memory from cudaMallocAsync should be
 * done using the specified stream's context as the calling thread's current context. This is not
 * necessary for cudaMemcpyPeerAsync, as the device primary contexts specified in the API are
 * referenced" (CUDA Programming Guide). So a pool that the accessing context's device has no access
 * to is CUDA_ERROR_INVALID_VALUE. */
CUresult copy_submit(const CUDA_MEMCPY3D *p, CUstream stream, bool ptds, enum copy_mode mode);
/* The same, but these two contexts access the ends. CUDA_ERROR_INVALID_CONTEXT: not contexts. */
CUresult copy_peer(const CUDA_MEMCPY3D *p, CUcontext dst, CUcontext src, CUstream stream, bool ptds,
                   enum copy_mode mode);

/* The checks of all batches: a batch is not empty, and not in the legacy stream; an attribute holds
 * from its `first` copy up to that of the next one. */
CUresult batch_check(CUstream stream, bool ptds, size_t count);
bool batch_runs(const size_t *first, size_t n, size_t count);

/* Checks a memset and builds its work. */
CUresult fill_work(const CUDA_MEMSET_NODE_PARAMS *p, struct work *w);
void fill_params(const struct work *w, CUDA_MEMSET_NODE_PARAMS *p);
/* The work of one memory operation, checked as cuStreamBatchMemOp does; blob points to `op`. */
CUresult memop_prepare(const CUstreamBatchMemOpParams *op, struct work *w);

#endif
