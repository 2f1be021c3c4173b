/*
 * graph_change.c - how executable graphs are made and changed. A change comes after the launches
 * that were made before it: everything buffered is submitted first. What is changed is then changed
 * in the copy with gates, too (graph_copy.h); what the application sees is the driver's answer for
 * its own.
 */
#include "shim/graph/aside.h"
#include "shim/graph/graph_exec.h"
#include "shim/graph/graph_copy.h"
#include "shim/objects/schedule.h"
#include "shim/wrap/op.h"
#include "common/mutant.h"
#include "shim/objects/thread.h"
#include "shim/objects/context.h"

/* ---- instantiating --------------------------------------------------------------------------- */

static void exec_describe(struct shim_context *ctx, CUgraphExec handle, CUgraph graph,
                          unsigned long long flags)
{
    struct graph_nodes n;
    struct exec *e = exec_new(handle);
    int r = graph_nodes_read(&n, graph, ctx);
    if (e && r == 0) {
        e->kernels_ns = n.est_ns;
        e->memory = n.memory && !MUTANT(graph_memory_unordered);
        e->copy = ctx->set ? graph_copy_new(ctx, graph, &n, flags) : NULL;
        e->asides = asides_new(&n);
    }
    graph_nodes_free(&n);
}

static void exec_note_waits(CUgraphExec handle, CUgraph graph)
{
    bool waits = graph_nodes_wait(graph);
    struct exec *e = waits ? exec_of(handle) : exec_find(handle);
    if (e)
        e->waits = waits;
    if (e && waits)
        atomic_store(&exec_waits_seen, true);
}

static CUresult exec_made(CUresult r, const CUgraphExec *handle, CUgraph graph,
                          unsigned long long flags)
{
    struct shim_context *ctx = r == CUDA_SUCCESS && !thread_bypasses() ? context_current() : NULL;
    if (ctx && (ctx->set || gpu_device_several())) {
        struct context_scope scope = context_push(ctx);
        exec_describe(ctx, *handle, graph, flags);
        context_pop(scope);
    }
    if (ctx && !MUTANT(graph_waits_unordered))
        exec_note_waits(*handle, graph);
    return r;
}

/* `uploads`: the call may upload the graph, in a stream. */
#define INSTANTIATE(sym, uploads, flags_, ...)                                                     \
    EXPORT CUresult sym(CUgraphExec *exec, CUgraph graph EACH(OP_PARAM_, __VA_ARGS__))             \
    {                                                                                              \
        if (uploads)                                                                               \
            shim_drain(DRAIN_CONTEXT);                                                             \
        CUresult r = REAL(sym)(exec, graph EACH(OP_VALUE_, __VA_ARGS__));                          \
        return exec_made(r, exec, graph, flags_);                                                  \
    }
INSTANTIATE(cuGraphInstantiate, false, 0, (CUgraphNode *, errorNode), (char *, log), (size_t, size))
INSTANTIATE(cuGraphInstantiate_v2, false, 0, (CUgraphNode *, errorNode), (char *, log),
            (size_t, size))
INSTANTIATE(cuGraphInstantiateWithFlags, false, flags, (unsigned long long, flags))
INSTANTIATE(cuGraphInstantiateWithParams, true, r == CUDA_SUCCESS ? params->flags : 0,
            (CUDA_GRAPH_INSTANTIATE_PARAMS *, params))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz, true, r == CUDA_SUCCESS ? params->flags : 0,
            (CUDA_GRAPH_INSTANTIATE_PARAMS *, params))

EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                        unsigned int flags)
{
    graph_copy_note_objects();
    return REAL(cuGraphRetainUserObject)(graph, object, count, flags);
}

/* ---- changing them --------------------------------------------------------------------------- */

/* The copy that is to follow what the driver answered `r` to; NULL: none. */
static struct graph_copy *follower(CUresult r, CUgraphExec handle)
{
    struct exec *e = r == CUDA_SUCCESS && !thread_bypasses() ? exec_find(handle) : NULL;
    return e && !MUTANT(graph_copy_stale) ? e->copy : NULL;
}

#define CHANGE(sym, ...)                                                                           \
    EXPORT CUresult sym(CUgraphExec exec, CUgraphNode node EACH(OP_PARAM_, __VA_ARGS__))           \
    {                                                                                              \
        shim_drain(DRAIN_ALL);                                                                     \
        CUresult r = REAL(sym)(exec, node EACH(OP_VALUE_, __VA_ARGS__));                           \
        struct graph_copy *copy = follower(r, exec);                                               \
        if (copy && graph_copy_find(copy, &exec, &node))                                           \
            graph_copy_changed(copy, REAL(sym)(exec, node EACH(OP_VALUE_, __VA_ARGS__)));          \
        return r;                                                                                  \
    }
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

/* The new graph inside needs gates where the one before had them. */
EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                   CUgraph childGraph)
{
    shim_drain(DRAIN_ALL);
    CUresult r = REAL(cuGraphExecChildGraphNodeSetParams)(hGraphExec, hNode, childGraph);
    struct graph_copy *copy = follower(r, hGraphExec);
    if (copy)
        graph_copy_set_child(copy, hNode, childGraph);
    return r;
}

EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                         CUgraphNodeParams *nodeParams)
{
    shim_drain(DRAIN_ALL);
    CUresult r = REAL(cuGraphExecNodeSetParams)(hGraphExec, hNode, nodeParams);
    struct graph_copy *copy = follower(r, hGraphExec);
    if (copy && nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
        graph_copy_set_child(copy, hNode, nodeParams->graph.graph);
    else if (copy && graph_copy_find(copy, &hGraphExec, &hNode))
        graph_copy_changed(copy, REAL(cuGraphExecNodeSetParams)(hGraphExec, hNode, nodeParams));
    return r;
}

#define UPDATE(sym, ...)                                                                           \
    EXPORT CUresult sym(CUgraphExec exec, CUgraph graph EACH(OP_PARAM_, __VA_ARGS__))              \
    {                                                                                              \
        shim_drain(DRAIN_ALL);                                                                     \
        CUresult r = REAL(sym)(exec, graph EACH(OP_VALUE_, __VA_ARGS__));                          \
        struct graph_copy *copy = follower(r, exec);                                               \
        if (copy)                                                                                  \
            graph_copy_update(copy, graph);                                                        \
        return r;                                                                                  \
    }
UPDATE(cuGraphExecUpdate, (CUgraphNode *, errorNode), (CUgraphExecUpdateResult *, result))
UPDATE(cuGraphExecUpdate_v2, (CUgraphExecUpdateResultInfo *, result))
