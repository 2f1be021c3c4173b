/*
 * condition.h - the variable behind a CUgraphConditionalHandle. Kernels set it by its handle, and
 * conditional nodes of graphs decide by it. It lives as long as its graph or an executable graph
 * has a reference.
 */
#ifndef CUTIN_TOOLS_SIMGPU_PROGRAM_CONDITION_H
#define CUTIN_TOOLS_SIMGPU_PROGRAM_CONDITION_H

#include "tools/simgpu/device/context.h"
#include "tools/simgpu/face/handle.h"

struct condition {
    struct handle handle;
    _Atomic int refs;
    struct sim_context *ctx;
    bool assigns; /* each launch begins with the default */
    uint32_t initial;
    _Atomic uint32_t value;
    _Atomic uint64_t sets; /* how often a kernel set it */

    /* Only graphs use these, under their lock. */
    struct sim_graph *graph;     /* the graph that it was made for; NULL: gone */
    struct sim_node *node;       /* the node that decides by it; NULL: none */
    const struct sim_exec *exec; /* the exec that it belongs to; NULL: none */
    struct condition *next;
};

/* All of these are thread safe. The caller gets the first reference; NULL: too many. */
struct condition *condition_make(struct sim_context *ctx, uint32_t initial, bool assigns);
void condition_get(struct condition *c);
void condition_put(struct condition *c);
/* NULL if no live condition has this handle. */
struct condition *condition_find(uint64_t handle);

/* cudaGraphSetConditional in a kernel of that context. CUDA_ERROR_ILLEGAL_ADDRESS: no live
 * condition of that context has this handle. */
CUresult condition_set(uint64_t handle, uint32_t value, CUcontext ctx);

#endif
