/*
 * condition.h - the variable behind a CUgraphConditionalHandle: kernels set it, naming it by the
 * handle, and conditional nodes of graphs go by it. It lives as long as its graph or an executable
 * graph holds it.
 */
#ifndef CUTIN_TOOLS_SIMGPU_PROGRAM_CONDITION_H
#define CUTIN_TOOLS_SIMGPU_PROGRAM_CONDITION_H

#include "tools/simgpu/device/context.h"
#include "tools/simgpu/face/handle.h"

struct condition {
    struct handle handle;
    _Atomic int holders;
    struct sim_context *ctx;
    bool assigns; /* each launch begins with the default */
    uint32_t initial;
    _Atomic uint32_t value;
    _Atomic uint64_t sets; /* how often a kernel set it */

    /* Of graphs alone, under their lock. */
    struct sim_graph *graph;     /* that it was made for; NULL: gone */
    struct sim_node *node;       /* that goes by it; NULL: none */
    const struct sim_exec *exec; /* that it is in; NULL: none */
    struct condition *next;
};

/* All of these are thread safe. Held once by whoever makes it; NULL: there are too many. */
struct condition *condition_make(struct sim_context *ctx, uint32_t initial, bool assigns);
void condition_hold(struct condition *c);
void condition_put(struct condition *c);
/* NULL for anything that is not live. */
struct condition *condition_find(uint64_t handle);

/* cudaGraphSetConditional, in a kernel of that context. CUDA_ERROR_ILLEGAL_ADDRESS for what is no
 * live handle there. */
CUresult condition_set(uint64_t handle, uint32_t value, CUcontext ctx);

#endif
