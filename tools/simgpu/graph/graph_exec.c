/*
 * graph_exec.c - executable graphs are instantiated, launched and destroyed.
 *
 * Launches of one exec follow each other, whatever streams they are in. The context's submit lock
 * keeps the work of other threads out of the middle of a launch.
 */
#include "tools/simgpu/graph/exec.h"
#include "tools/simgpu/graph/conditional.h"
#include "tools/simgpu/memory/graph_memory.h"
#include "tools/simgpu/face/variants.h"
#include "tools/simgpu/stream/capture.h"
#include "tools/simgpu/stream/points.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/submit.h"

static struct handle_pool execs = HANDLE_POOL(struct sim_exec, 1 << 16);

#define exec_handle(x) ((CUgraphExec)(void *)(x))

struct sim_exec *exec_find(CUgraphExec handle)
{
    return handle_find(&execs, handle);
}

/* ---- instantiate ----------------------------------------------------------------------------- */

enum {
    FLAGS = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
            CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
            CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
};

/* The exec ends at once. What it refers to is released behind the last launch. */
static void exec_end(struct sim_exec *x)
{
    pthread_mutex_lock(&x->lock);
    for (int i = 1; i < x->lanes; i++)
        if (x->branches[i])
            stream_destroy(x->branches[i]);
    exec_objects_take(x->nodes, x->count, &x->objects);
    pthread_mutex_lock(&graph_lock);
    if (choices_belong(x->nodes, x->count, x, false))
        choices_belong(x->nodes, x->count, NULL, true);
    pthread_mutex_unlock(&graph_lock);
    exec_nodes_free(x->nodes, x->count);
    pthread_mutex_unlock(&x->lock);
    exec_objects_release(x->ctx, x->end, x->objects);
    pthread_mutex_destroy(&x->lock);
    handle_give(&execs, x);
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    if (!out || (flags & ~(unsigned long long)FLAGS) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_exec *x = handle_take_zero(&execs);
    if (!x)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&x->lock, NULL);
    x->id = graph_next_id();
    x->ctx = ctx;
    x->flags = flags;
    pthread_mutex_lock(&graph_lock);
    const struct sim_graph *g = graph_find(graph);
    CUresult rc = !g || g->capturing || g->inner || conditions_unused(g)
                      ? CUDA_ERROR_INVALID_VALUE
                      : exec_flatten(g, &x->nodes, &x->count);
    if (rc == CUDA_SUCCESS && !choices_belong(x->nodes, x->count, x, false))
        rc = CUDA_ERROR_INVALID_VALUE; /* its conditions belong to another executable graph */
    if (rc == CUDA_SUCCESS) {
        choices_belong(x->nodes, x->count, x, true);
        x->objects = exec_objects_copy(g, x->nodes, x->count);
    }
    pthread_mutex_unlock(&graph_lock);
    if (rc == CUDA_SUCCESS)
        rc = exec_assign_lanes(x);
    if (rc != CUDA_SUCCESS) {
        exec_end(x);
        return rc;
    }
    handle_publish(x);
    *out = exec_handle(x);
    return CUDA_SUCCESS;
}

/* Before 12.0 the call had an error node and a log. They are empty here. */
SIM_EXPORT CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *error,
                                       char *log, size_t log_bytes)
{
    if (error)
        *error = NULL;
    if (log && log_bytes != 0)
        *log = '\0';
    return instantiate(out, graph, 0);
}
SIM_ALIAS(cuGraphInstantiate_v2,
          (CUgraphExec * out, CUgraph graph, CUgraphNode *error, char *log, size_t log_bytes),
          cuGraphInstantiate, out, graph, error, log, log_bytes)

SIM_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                                unsigned long long flags)
{
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
        return CUDA_ERROR_INVALID_VALUE; /* only the call with parameters has a stream for it */
    return instantiate(out, graph, flags);
}

/* CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED, from 12.8 on */
#define HANDLE_UNUSED ((CUgraphInstantiateResult)5)

static CUresult instantiate_params(CUgraphExec *out, CUgraph graph,
                                   CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    p->hErrNode_out = NULL;
    CUresult rc = instantiate(out, graph, p->flags);
    p->result_out =
        rc == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    SCOPED_LOCK(&graph_lock);
    const struct sim_graph *g = graph_find(graph);
    if (rc == CUDA_ERROR_INVALID_VALUE && g && conditions_unused(g))
        p->result_out = HANDLE_UNUSED;
    return rc;
}

STREAM_API(cuGraphInstantiateWithParams,
           (CUgraphExec * out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p),
           instantiate_params(out, graph, p))

/* ---- launch ---------------------------------------------------------------------------------- */

/* Whether an earlier launch left memory allocated. */
static bool memory_left(const struct sim_exec *x)
{
    for (size_t i = 0; i < x->count; i++)
        if (x->nodes[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
            graph_memory_in_use(x->nodes[i].works[0].args.u64[0]))
            return true;
    return false;
}

static CUresult launch(CUgraphExec handle, CUstream hstream, bool ptds)
{
    struct sim_context *ctx;
    struct sim_stream *s;
    TRY(stream_arg(hstream, ptds, &ctx, &s));
    struct sim_exec *x = exec_find(handle);
    if (!x || x->ctx != ctx)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_forbids_stream(s));
    SCOPED_LOCK(&x->lock);
    if ((x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) == 0 && memory_left(x))
        return CUDA_ERROR_INVALID_VALUE;
    TRY(launch_open_lanes(x, 1, s->priority));
    struct work start = {.kind = WORK_MARK, .name = "graph_start"};
    struct point begun;
    pthread_rwlock_wrlock(&x->ctx->submit_lock);
    CUresult rc = work_submit_locked(s, &start, &x->end, 1, &begun);
    if (rc == CUDA_SUCCESS)
        rc = choices_reset(x, s, &begun);
    if (rc == CUDA_SUCCESS)
        rc = launch_nodes(x, s, begun);
    pthread_rwlock_unlock(&x->ctx->submit_lock);
    for (size_t i = 0; rc == CUDA_SUCCESS && i < x->count; i++) {
        const struct exec_node *n = &x->nodes[i];
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            graph_memory_mark(n->works[0].args.u64[0], n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    }
    return rc;
}

STREAM_API(cuGraphLaunch, (CUgraphExec x, CUstream s), launch(x, s, ptds))

/* Nothing has to be moved. What is left is the place in the stream, and the checks. */
static CUresult upload(CUgraphExec handle, CUstream hstream, bool ptds)
{
    struct work w = {
        .kind = WORK_MARK, .name = "graph_upload", .node_type = CU_GRAPH_NODE_TYPE_EMPTY};
    TRY(driver_ready());
    return exec_find(handle) ? work_submit(hstream, ptds, &w, false) : CUDA_ERROR_INVALID_VALUE;
}

STREAM_API(cuGraphUpload, (CUgraphExec x, CUstream s), upload(x, s, ptds))

/* ---- destroy and ask ------------------------------------------------------------------------- */

SIM_EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle)
{
    TRY(driver_ready());
    struct sim_exec *x = exec_find(handle);
    if (!x || !handle_retire(x))
        return CUDA_ERROR_INVALID_VALUE;
    exec_end(x);
    return CUDA_SUCCESS;
}

static CUresult exec_arg(CUgraphExec handle, const struct sim_exec **x)
{
    TRY(driver_ready());
    *x = exec_find(handle);
    return *x ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_GETTER(cuGraphExecGetFlags, (CUgraphExec handle, cuuint64_t *flags), flags, x->flags,
           const struct sim_exec *x;
           TRY(exec_arg(handle, &x)))
SIM_GETTER(cuGraphExecGetId, (CUgraphExec handle, unsigned int *out), out, (unsigned int)x->id,
           const struct sim_exec *x;
           TRY(exec_arg(handle, &x)))
