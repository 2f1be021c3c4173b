/*
 * graph_change.c - how executable graphs are made and changed. A change comes after the launches
 * that were made before it: everything buffered is submitted first. The copy with gates is then
 * changed in the same way (graph_copy.h). The application gets the driver's answer for its own
 * graph.
 */
#include <stdlib.h>

#include "shim/graph/other_devices.h"
#include "shim/graph/graph_exec.h"
#include "shim/graph/graph_copy.h"
#include "shim/wrap/op.h"

/* ---- instantiating --------------------------------------------------------------------------- */

static void exec_made(CUresult r, const CUgraphExec *handle, CUgraph graph,
                      unsigned long long flags)
{
    struct shim_context *ctx = r == CUDA_SUCCESS && !thread_bypasses() ? context_current() : NULL;
    if (ctx && (ctx->set || gpu_device_several())) {
        struct context_scope scope = context_push(ctx);
        struct graph_nodes n;
        struct exec *e = exec_new(*handle);
        if (graph_nodes_read(&n, graph, ctx) == 0 && e) {
            e->kernels_ns = n.est_ns;
            e->memory = n.memory && !MUTANT(graph_memory_unordered);
            e->copy = ctx->set ? graph_copy_new(ctx, graph, &n, flags) : NULL;
            e->other_devices = other_devices_new(&n);
        }
        free(n.node);
        context_pop(scope);
    }
    if (ctx && !MUTANT(graph_waits_unordered)) {
        bool waits = graph_nodes_may_wait(graph);
        struct exec *e = waits ? exec_of(*handle) : exec_find(*handle);
        if (e)
            e->waits = waits;
        if (e && waits)
            atomic_store(&exec_waits_seen, true);
    }
}

/* `uploads`: the call may upload the graph, in a stream. */
#define INSTANTIATE(sym, uploads, flags_, ...)                                                     \
    WRAPPED(sym, if (uploads) shim_drain(DRAIN_CONTEXT), exec_made(r, exec, graph, flags_),        \
            (CUgraphExec *, exec), (CUgraph, graph), __VA_ARGS__)
INSTANTIATE(cuGraphInstantiate, false, 0, (CUgraphNode *, errorNode), (char *, log), (size_t, size))
INSTANTIATE(cuGraphInstantiate_v2, false, 0, (CUgraphNode *, errorNode), (char *, log),
            (size_t, size))
INSTANTIATE(cuGraphInstantiateWithFlags, false, flags, (unsigned long long, flags))
INSTANTIATE(cuGraphInstantiateWithParams, true, r == CUDA_SUCCESS ? params->flags : 0,
            (CUDA_GRAPH_INSTANTIATE_PARAMS *, params))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz, true, r == CUDA_SUCCESS ? params->flags : 0,
            (CUDA_GRAPH_INSTANTIATE_PARAMS *, params))

WRAPPED(cuGraphRetainUserObject, atomic_store(&graph_objects_seen, true), , (CUgraph, graph),
        (CUuserObject, object), (unsigned int, count), (unsigned int, flags))

/* ---- changing them --------------------------------------------------------------------------- */

/* The copy that has to follow the change to which the driver answered `r`. NULL: there is none. */
static struct graph_copy *follower(CUresult r, CUgraphExec handle)
{
    struct exec *e = r == CUDA_SUCCESS && !thread_bypasses() ? exec_find(handle) : NULL;
    return e && !MUTANT(graph_copy_stale) ? e->copy : NULL;
}

/* `follow`: what is done to the copy, if there is one. */
#define FOLLOWED(sym, follow, ...)                                                                 \
    WRAPPED(sym, shim_drain(DRAIN_ALL), struct graph_copy *copy = follower(r, exec);               \
            if (copy) follow, (CUgraphExec, exec), __VA_ARGS__)

#define CHANGE(sym, ...)                                                                           \
    FOLLOWED(sym,                                                                                  \
             if (graph_copy_find(copy, &exec, &node))                                              \
                 graph_copy_changed(copy, REAL(sym)(exec, node EACH(OP_VALUE_, __VA_ARGS__))),     \
             (CUgraphNode, node), __VA_ARGS__)
CHANGE(cuGraphExecKernelNodeSetParams, (const CUDA_KERNEL_NODE_PARAMS_v1 *, params))
CHANGE(cuGraphExecKernelNodeSetParams_v2, (const CUDA_KERNEL_NODE_PARAMS *, params))
CHANGE(cuGraphExecMemcpyNodeSetParams, (const CUDA_MEMCPY3D *, params), (CUcontext, ctx))
CHANGE(cuGraphExecMemsetNodeSetParams, (const CUDA_MEMSET_NODE_PARAMS *, params), (CUcontext, ctx))
CHANGE(cuGraphExecHostNodeSetParams, (const CUDA_HOST_NODE_PARAMS *, params))
CHANGE(cuGraphExecEventRecordNodeSetEvent, (CUevent, event))
CHANGE(cuGraphExecEventWaitNodeSetEvent, (CUevent, event))
CHANGE(cuGraphExecExternalSemaphoresSignalNodeSetParams,
       (const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *, params))
CHANGE(cuGraphExecExternalSemaphoresWaitNodeSetParams,
       (const CUDA_EXT_SEM_WAIT_NODE_PARAMS *, params))
CHANGE(cuGraphExecBatchMemOpNodeSetParams, (const CUDA_BATCH_MEM_OP_NODE_PARAMS *, params))
CHANGE(cuGraphNodeSetEnabled, (unsigned int, isEnabled))

/* The new child graph needs gates where the old one had them. */
FOLLOWED(cuGraphExecChildGraphNodeSetParams, graph_copy_replace(copy, node, childGraph),
         (CUgraphNode, node), (CUgraph, childGraph))

static void params_follow(struct graph_copy *copy, CUgraphExec exec, CUgraphNode node,
                          CUgraphNodeParams *params)
{
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        graph_copy_replace(copy, node, params->graph.graph);
    else if (graph_copy_find(copy, &exec, &node))
        graph_copy_changed(copy, REAL(cuGraphExecNodeSetParams)(exec, node, params));
}
FOLLOWED(cuGraphExecNodeSetParams, params_follow(copy, exec, node, params), (CUgraphNode, node),
         (CUgraphNodeParams *, params))

FOLLOWED(cuGraphExecUpdate, graph_copy_replace(copy, NULL, graph), (CUgraph, graph),
         (CUgraphNode *, errorNode), (CUgraphExecUpdateResult *, result))
FOLLOWED(cuGraphExecUpdate_v2, graph_copy_replace(copy, NULL, graph), (CUgraph, graph),
         (CUgraphExecUpdateResultInfo *, result))
