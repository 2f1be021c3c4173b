/*
 * graph.c - executable graphs are made, changed, launched and destroyed. A launch is one command,
 * and one more on each other device that the graph reaches (other_devices.h). The launches of one
 * executable graph follow each other wherever they are made, and its destruction follows them all.
 * So it has a fence, as each record of an event has. A change comes after the launches that were
 * made before it: everything buffered is submitted first. The copy with gates is then changed in
 * the same way (graph_copy.h). The application gets the driver's answer for its own graph.
 */
#include <stdlib.h>

#include "shim/graph/graph_copy.h"
#include "shim/graph/graph_exec.h"
#include "shim/graph/other_devices.h"
#include "shim/objects/event.h"
#include "shim/objects/late.h"
#include "shim/path/drain.h"
#include "shim/wrap/op.h"

/* ---- nodes with events --------------------------------------------------------------------- */

static bool has_event(const CUgraphNodeParams *params)
{
    return params && (params->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ||
                      params->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

#define ADD_NODE(sym, event_, ...)                                                                 \
    WRAPPED(sym, if (event_) event_node_begins(), , (CUgraphNode *, node), (CUgraph, graph),       \
            (const CUgraphNode *, from), __VA_ARGS__)
ADD_NODE(cuGraphAddEventRecordNode, true, (size_t, count), (CUevent, event))
ADD_NODE(cuGraphAddEventWaitNode, true, (size_t, count), (CUevent, event))
ADD_NODE(cuGraphAddNode, has_event(params), (size_t, count), (CUgraphNodeParams *, params))
ADD_NODE(cuGraphAddNode_v2, has_event(params), (const CUgraphEdgeData *, edges), (size_t, count),
         (CUgraphNodeParams *, params))
ADD_NODE(cuGraphAddNode_v3, has_event(params), (const CUgraphEdgeData *, edges), (size_t, count),
         (CUgraphNodeParams *, params))

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
        bool waits = graph_nodes_may_wait(graph, 0);
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

/* ---- launch and upload -------------------------------------------------------------------- */

struct graph_call {
    const struct vhq_learned *learned; /* comes first, as VHQ_LEARNS demands; NULL: not timed */
    CUstream stream;
    CUgraphExec handle;
    struct exec *exec;
    struct shim_context *ctx; /* of the stream */
    uint32_t level;
    bool upload;
    bool waits;                /* it waits for what comes later, or from outside */
    struct shim_stream *known; /* the same stream, where the graph reaches other devices */
    uint32_t rounds;
    bool again;
};

static __attribute__((noinline)) CUresult launch_watched(const struct graph_call *a,
                                                         CUgraphExec handle)
{
    struct watch *watched = MUTANT(graph_waits_untold) ? NULL : external_wait_begin(a->stream);
    CUresult r = REAL(cuGraphLaunch)(handle, a->stream);
    external_wait_end(watched);
    return r;
}

static int graph_run(void *payload)
{
    const struct graph_call *a = payload;
    struct graph_copy *copy = a->exec ? a->exec->copy : NULL;
    CUgraphExec chosen = copy ? graph_copy_choose(copy, a->handle, a->ctx, a->level) : a->handle;
    if (a->upload)
        return (int)REAL(cuGraphUpload)(chosen, a->stream);
    CUresult r = copy ? graph_copy_before(copy, chosen, a->stream) : CUDA_SUCCESS;
    if (r != CUDA_SUCCESS)
        return (int)r;
    struct sample *sample =
        a->learned ? estimate_begin(&a->exec->estimate, a->ctx, a->stream) : NULL;
    r = unlikely(a->waits) ? launch_watched(a, chosen) : REAL(cuGraphLaunch)(chosen, a->stream);
    estimate_end(sample, a->stream);
    if (r == CUDA_SUCCESS && a->exec)
        atomic_store_explicit(&a->exec->launched, true, memory_order_relaxed);
    if (r == CUDA_SUCCESS && copy)
        graph_copy_after(copy, chosen, a->stream);
    return (int)r;
}

static CUresult graph_queue(struct graph_call *a, struct call *c, struct shim_stream *s)
{
    /* Other streams may have buffered what its events stand for, or the free of its memory. */
    bool events = atomic_load_explicit(&event_nodes_seen, memory_order_relaxed) || a->exec->memory;
    if (unlikely(events))
        drain_all(thread_boosts(s));
    a->ctx = a->exec->ctx = s->ctx;
    a->level = s->level;
    struct vhq_fence *fence = vhq_fence_new();
    c->req.signals = vhq_fence_get(fence); /* as for events: see event_api.c */
    c->req.after = exec_fence_swap(a->exec, fence);
    c->req.flags = c->req.signals && !events && a->upload ? VHQ_UNCOUNTED : 0;
    /* The first launch goes inline: there the driver finds what is wrong with a graph. */
    if (!c->req.signals || events ||
        !atomic_load_explicit(&a->exec->launched, memory_order_relaxed))
        c->req.flags |= VHQ_MUST_INLINE;
    /* Like a stream's own wait for a value, a graph that waits may stop a hardware queue. */
    c->req.flags |= (a->exec->copy ? VHQ_GATED : 0) | (a->waits ? VHQ_AFTER_ALL : 0);
    c->req.est_ns = exec_estimate_ns(a->exec);
    a->learned = &a->exec->estimate.learned;
    if (!a->upload && estimate_unsettled(&a->exec->estimate))
        c->req.flags |= VHQ_LEARNS;
    CUresult r = call_on(c, s);
    vhq_fence_put(c->req.after);
    vhq_fence_put(fence);
    return r;
}

/* In a stream without a queue a launch goes at once, behind earlier launches of the same graph. If
 * the graph's nodes have events or memory it goes behind everything: other streams of the process
 * may have these buffered. */
static CUresult graph_unqueued(const struct graph_call *a, struct call *c, struct shim_stream *s)
{
    struct exec *exec = exec_find(a->handle);
    if (unlikely(atomic_load_explicit(&event_nodes_seen, memory_order_relaxed)) ||
        (exec && exec->memory))
        drain_all(true);
    c->req.after = exec && !MUTANT(graph_unqueued_overtakes) ? exec_fence_swap(exec, NULL) : NULL;
    c->req.flags |= a->waits ? VHQ_AFTER_ALL : 0;
    CUresult r = call_on(c, s);
    vhq_fence_put(c->req.after);
    return r;
}

/* ---- graphs that reach other devices ------------------------------------------------------- */

enum { ROUNDS = 64 }; /* waits for holds that take turns; then it goes whatever is held */

/* Runs in the stream's turn. A hold of another device that is found now is waited for outside of
 * the turn, because other streams wait for its end. */
static int wide_now(void *args)
{
    struct graph_call *a = args;
    a->again = a->known->q && a->rounds++ < ROUNDS &&
               other_devices_held(a->exec->other_devices, a->known->level);
    return a->again ? CUDA_ERROR_NOT_PERMITTED
                    : (int)other_devices_launch(a->exec->other_devices, a->known, graph_run, a);
}

static CUresult wide_submit(struct graph_call *a, struct call *c, struct shim_stream *s)
{
    CUresult r;
    bool queued = s->q;
    a->known = s;
    c->now = wide_now;
    c->run = NULL;
    if (queued)
        other_devices_lock(s->level);
    do {
        if (queued)
            other_devices_wait(a->exec->other_devices, s->level);
        a->again = false;
        r = queued ? graph_queue(a, c, s) : graph_unqueued(a, c, s);
    } while (a->again);
    other_devices_join(a->exec->other_devices, s, c->epoch);
    if (queued)
        other_devices_unlock(s->level);
    return r;
}

/* True for a launch like earlier ones with nothing to wait for: it goes at once, as kernels do. */
static bool graph_alike(struct graph_call *a, struct call_inline *c, const struct shim_stream *s)
{
    struct exec *e = a->upload ? NULL : exec_find(a->handle);
    if (!e || e->memory || !atomic_load_explicit(&e->launched, memory_order_relaxed) ||
        !exec_unfence(e))
        return false;
    a->exec = e;
    a->ctx = s->ctx;
    a->level = s->level;
    c->flags = e->copy ? VHQ_GATED : 0;
    c->est_ns = exec_estimate_ns(e);
    return call_untimed(c, s, &e->estimate);
}

static CUresult graph_submit(struct graph_call *a, bool ptds)
{
    struct call_inline at_once = {.flags = VHQ_MUST_INLINE, .kernel = !a->upload};
    struct call c = {OP_COPIED(graph_run, a), .kernel = !a->upload,
                     .name = a->upload ? "cuGraphUpload" : "cuGraphLaunch"};
    struct shim_stream *s = call_stream(&a->stream, ptds);
    if (unlikely(atomic_load_explicit(&exec_waits_seen, memory_order_relaxed)) && s) {
        const struct exec *e = a->upload ? NULL : exec_find(a->handle);
        a->waits = e && e->waits;
    }
    /* A launch that is captured goes nowhere yet. */
    if (unlikely(atomic_load_explicit(&other_devices_seen, memory_order_relaxed)) && s &&
        !a->upload && !capture_active(s)) {
        a->exec = exec_find(a->handle);
        if (a->exec && a->exec->other_devices)
            return wide_submit(a, &c, s);
        a->exec = NULL;
    }
    if (!atomic_load_explicit(&event_nodes_seen, memory_order_relaxed) && likely(!a->waits) && s &&
        (!s->q || graph_alike(a, &at_once, s)) && call_inline_begin(&at_once, s)) {
        if (a->exec)
            estimate_count(&a->exec->estimate);
        return call_inline_end(&at_once, s, (CUresult)graph_run(a));
    }
    if (!s || capture_active(s))
        return call_on(&c, s);
    if (!s->q)
        return graph_unqueued(a, &c, s);
    if (!(a->exec = exec_of(a->handle))) {
        c.run = NULL;
        return call_on(&c, s);
    }
    return graph_queue(a, &c, s);
}

#define GRAPH_CALL(sym, upload_)                                                                   \
    BOTH(sym, (CUgraphExec, exec), (CUstream, stream))                                             \
    {                                                                                              \
        struct graph_call a = {.stream = stream, .handle = exec, .upload = upload_};               \
        return graph_submit(&a, ptds);                                                             \
    }
GRAPH_CALL(cuGraphLaunch, false)
GRAPH_CALL(cuGraphUpload, true)

/* Memory that is the graph's own goes with it. Buffered launches use what is known of the graph
 * until they have run. */
static void destroy_end(const struct late *what, bool alive)
{
    if (alive)
        op_freed(REAL(cuGraphExecDestroy)(what->handle));
    exec_free(what->user);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle)
{
    struct exec *e = thread_bypasses() ? NULL : exec_find(handle);
    if (!e)
        return op_freed(REAL(cuGraphExecDestroy)(handle));
    struct vhq_fence *fence = exec_fence_swap(e, NULL);
    const struct late what = {.end = destroy_end, .handle = handle, .user = e, .fence = fence};
    bool pending = fence && !vhq_fence_submitted(fence) && !MUTANT(exec_destroy_early);
    exec_remove(e);
    if (pending && !late_add(e->ctx, &what)) {
        vhq_fence_drain(fence, false);
        pending = false;
    }
    vhq_fence_put(fence);
    if (pending)
        return CUDA_SUCCESS;
    exec_free(e);
    return op_freed(REAL(cuGraphExecDestroy)(handle));
}
