/*
 * graph.c - launches of executable graphs. A launch is one command. The launches of one exec follow
 * each other wherever they are made, and its destruction follows them all: a fence per exec, as
 * events have one per record. Updates of an exec drain (api.def).
 */
#include "shim/call.h"
#include "shim/capture.h"
#include "shim/drain.h"
#include "shim/estimate.h"
#include "shim/graph.h"
#include "shim/pool.h"
#include "shim/table.h"
#include "vhq/bite.h"

struct exec {
    struct table_node node; /* by CUgraphExec */
    _Atomic uint32_t locked;
    struct vhq_fence *fence; /* latest launch */
    struct shim_context *ctx;
    _Atomic bool launched; /* the driver has accepted one launch */
    struct estimate estimate;
    void *free_next;
};
TABLE(execs, 1024);
POOL(exec_pool, struct exec, free_next);
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static struct exec *exec_find(CUgraphExec handle)
{
    return handle ? (struct exec *)(void *)table_find(&execs, handle) : NULL;
}

static struct exec *exec_of(CUgraphExec handle)
{
    struct exec *e = exec_find(handle);
    if (e || !handle)
        return e;
    pthread_mutex_lock(&adding);
    e = exec_find(handle);
    if (!e && (e = pool_get(&exec_pool)) != NULL) {
        e->fence = NULL;
        atomic_store(&e->launched, false);
        estimate_reset(&e->estimate);
        table_insert(&execs, &e->node, handle);
    }
    pthread_mutex_unlock(&adding);
    return e;
}

static struct vhq_fence *exec_swap(struct exec *e, struct vhq_fence *fence)
{
    while (atomic_exchange_explicit(&e->locked, 1, memory_order_acquire))
        ;
    struct vhq_fence *old = e->fence;
    e->fence = fence;
    atomic_store_explicit(&e->locked, 0, memory_order_release);
    return old;
}

/* ---- nodes with events --------------------------------------------------------------------- */

static _Atomic bool event_nodes; /* of some graph of this process */

void graph_event_node(void)
{
    atomic_store_explicit(&event_nodes, true, memory_order_relaxed);
}

#define EVENT_NODE(sym)                                                                            \
    EXPORT CUresult sym(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, \
                        size_t numDependencies, CUevent event)                                     \
    {                                                                                              \
        graph_event_node();                                                                        \
        return REAL(sym)(phGraphNode, hGraph, dependencies, numDependencies, event);               \
    }
EVENT_NODE(cuGraphAddEventRecordNode)
EVENT_NODE(cuGraphAddEventWaitNode)

#if CUDA_VERSION >= 12020
static void node_made(const CUgraphNodeParams *params)
{
    if (params && (params->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ||
                   params->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT))
        graph_event_node();
}

EXPORT CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                               const CUgraphNode *dependencies, size_t numDependencies,
                               CUgraphNodeParams *nodeParams)
{
    node_made(nodeParams);
    return REAL(cuGraphAddNode)(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}
#endif
#if CUDA_VERSION >= 12030
EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies,
                                  const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                  CUgraphNodeParams *nodeParams)
{
    node_made(nodeParams);
    return REAL(cuGraphAddNode_v2)(phGraphNode, hGraph, dependencies, dependencyData,
                                   numDependencies, nodeParams);
}
#endif

/* ---- launch and upload -------------------------------------------------------------------- */

struct graph_call {
    CUstream stream;
    CUgraphExec handle;
    struct exec *exec;
    struct shim_context *ctx;
    bool upload;
};

static int graph_run(void *payload)
{
    struct graph_call *a = payload;
    if (a->upload)
        return (int)REAL(cuGraphUpload)(a->handle, a->stream);
    struct sample *sample = a->ctx ? estimate_begin(&a->exec->estimate, a->ctx, a->stream) : NULL;
    CUresult r = REAL(cuGraphLaunch)(a->handle, a->stream);
    estimate_end(sample, a->stream);
    if (r == CUDA_SUCCESS && a->exec)
        atomic_store_explicit(&a->exec->launched, true, memory_order_relaxed);
    return (int)r;
}

/* The first launch goes inline: it is where the driver finds what is wrong with a graph. */
static uint32_t graph_flags(const struct graph_call *a)
{
    uint32_t flags = a->upload ? VHQ_FREE : 0;
    bool known = atomic_load_explicit(&a->exec->launched, memory_order_relaxed);
    return known ? flags : flags | VHQ_MUST_INLINE;
}

static CUresult graph_submit(struct graph_call *a, bool ptds)
{
    const uint32_t kernel = a->upload ? 0 : CALL_KERNEL;
    struct call c = {.now = graph_run,
                     .run = graph_run,
                     .args = a,
                     .req = {.bytes = sizeof *a, .flags = kernel},
                     .name = a->upload ? "cuGraphUpload" : "cuGraphLaunch"};
    struct shim_stream *s = call_stream(&a->stream, ptds);
    if (!s || !s->q || (capture_any() && capture_active(s->handle)) ||
        (a->exec = exec_of(a->handle)) == NULL)
        return call_on(&c, s);
    bool events = atomic_load_explicit(&event_nodes, memory_order_relaxed);
    if (unlikely(events))
        drain_all(call_boost(s));
    if (!s->per_thread)
        a->ctx = s->ctx;
    a->exec->ctx = s->ctx;
    c.req.signals = vhq_fence_new();
    c.req.after = exec_swap(a->exec, c.req.signals);
    c.req.flags = kernel | (c.req.signals && !events ? graph_flags(a) : VHQ_MUST_INLINE);
    c.req.est_ns = estimate_ns(&a->exec->estimate);
    CUresult r = call_on(&c, s);
    vhq_fence_put(c.req.after);
    return r;
}

#define GRAPH_CALL(sym, upload_)                                                                   \
    EXPORT CUresult sym(CUgraphExec hGraphExec, CUstream hStream)                                  \
    {                                                                                              \
        struct graph_call a = {.stream = hStream, .handle = hGraphExec, .upload = upload_};        \
        return graph_submit(&a, false);                                                            \
    }                                                                                              \
    EXPORT CUresult sym##_ptsz(CUgraphExec hGraphExec, CUstream hStream)                           \
    {                                                                                              \
        struct graph_call a = {.stream = hStream, .handle = hGraphExec, .upload = upload_};        \
        return graph_submit(&a, true);                                                             \
    }
GRAPH_CALL(cuGraphLaunch, false)
GRAPH_CALL(cuGraphUpload, true)

/* ---- destroy ------------------------------------------------------------------------------ */

/* Buffered launches use what is known of the graph until they have run. */
static void destroy_drop(void *payload)
{
    pool_put(&exec_pool, ((struct graph_call *)payload)->exec);
}

static int destroy_run(void *payload)
{
    REAL(cuGraphExecDestroy)(((struct graph_call *)payload)->handle);
    destroy_drop(payload);
    return 0;
}

static void destroy_later(struct exec *e, CUgraphExec handle, struct vhq_fence *fence)
{
    struct vhq *q = e->ctx->janitor->q;
    struct vhq_req req = {
        .bytes = sizeof(struct graph_call), .flags = VHQ_FREE | VHQ_MUST_BUFFER, .after = fence};
    struct vhq_cmd *cmd;
    vhq_begin(q, &req, &cmd);
    cmd->run = destroy_run;
    cmd->drop = destroy_drop;
    *(struct graph_call *)cmd->payload = (struct graph_call){.handle = handle, .exec = e};
    vhq_end(q, 0);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    struct exec *e = call_native() ? NULL : exec_find(hGraphExec);
    if (!e)
        return REAL(cuGraphExecDestroy)(hGraphExec);
    struct vhq_fence *fence = exec_swap(e, NULL);
    bool pending = fence && !vhq_fence_submitted(fence) && !BITE(exec_destroy_early);
    table_remove(&execs, &e->node);
    if (pending)
        destroy_later(e, hGraphExec, fence);
    vhq_fence_put(fence);
    if (pending)
        return CUDA_SUCCESS;
    pool_put(&exec_pool, e);
    return REAL(cuGraphExecDestroy)(hGraphExec);
}
