/*
 * condition.h - the variable behind a CUgraphConditionalHandle. It lives as long as its graph or an
 * executable graph goes by it: kernels name it by the handle.
 */
#ifndef SIMGPU_CONDITION_H
#define SIMGPU_CONDITION_H

#include "tools/simgpu/graph/graph_exec.h"

struct condition {
    struct handle handle;
    _Atomic int holders;
    struct sim_graph *graph; /* that it was made for; NULL: gone. These three under graph_lock */
    struct sim_node *node;   /* that goes by it; NULL: none */
    const struct sim_exec *exec; /* that it is in; NULL: none */
    struct sim_context *ctx;
    bool assigns; /* each launch begins with the default */
    uint32_t initial;
    _Atomic uint32_t value;
    _Atomic uint64_t sets; /* how often a kernel set it */
    struct condition *next;
};

/* NULL for anything that is not live. */
struct condition *condition_find(uint64_t handle);
void condition_hold(struct condition *c);
void condition_put(struct condition *c);

/* cudaGraphSetConditional, in a kernel of that context. */
CUresult condition_set(uint64_t handle, uint32_t value, CUcontext ctx);

#endif
