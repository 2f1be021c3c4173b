/*
 * graph_update.c - changes of an executable graph: node by node, or as a whole from another graph
 * of the same shape. Launches that were made before keep what they were made with.
 */
#include "tools/simgpu/graph/exec.h"
#include "tools/simgpu/graph/node.h"

#define SWAP(a, b)                                                                                 \
    do {                                                                                           \
        __typeof__(a) had = (a);                                                                   \
        (a) = (b);                                                                                 \
        (b) = had;                                                                                 \
    } while (0)

/* ---- one node -------------------------------------------------------------------------------- */

/* The exec's copy of a graph's node, also of one inside conditional nodes. x->lock is held. */
static struct exec_node *exec_node_of(struct sim_exec *x, uint64_t id)
{
    struct exec_node *found = NULL;
    for (size_t i = 0; i < x->count && !found; i++)
        found = choice_find(&x->nodes[i], id);
    return found;
}

/* Returns 0 if there is no such node. */
static uint64_t node_id(CUgraphNode handle, CUgraphNodeType *type)
{
    SCOPED_LOCK(&graph_lock);
    const struct sim_node *n = node_find(handle);
    *type = n ? n->type : CU_GRAPH_NODE_TYPE_EMPTY;
    return n ? n->id : 0;
}

static CUresult exec_change(CUgraphExec handle, CUgraphNode node, CUgraphNodeType type,
                            CUresult built_rc, struct parts *p)
{
    if (built_rc != CUDA_SUCCESS)
        return built_rc;
    CUgraphNodeType now;
    uint64_t id = node_id(node, &now);
    struct sim_exec *x = exec_find(handle);
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    if (x && id != 0 && now == type) {
        SCOPED_LOCK(&x->lock);
        struct exec_node *n = exec_node_of(x, id);
        const struct sim_context *ctx = context_find(p->works[0].context);
        if (n && (!ctx || context_base(ctx) == context_base(n->ctx))) { /* it keeps its context */
            SWAP(n->works, p->works);
            SWAP(n->count, p->count);
            rc = CUDA_SUCCESS;
        }
    }
    parts_free(p);
    return rc;
}

#define EXEC_SET(type, build)                                                                      \
    struct parts p = {.count = 0};                                                                 \
    TRY(driver_ready());                                                                           \
    return exec_change(x, node, CU_GRAPH_NODE_TYPE_##type, build, &p)

SIM_BODY(cuGraphExecKernelNodeSetParams_v2,
         (CUgraphExec x, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *in),
         EXEC_SET(KERNEL, parts_kernel(in, &p)))

SIM_EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec x, CUgraphNode node,
                                                   const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
    CUDA_KERNEL_NODE_PARAMS params;
    TRY(node_kernel_v1(old, &params));
    return cuGraphExecKernelNodeSetParams_v2(x, node, &params);
}

SIM_BODY(cuGraphExecMemcpyNodeSetParams,
         (CUgraphExec x, CUgraphNode node, const CUDA_MEMCPY3D *in, CUcontext ctx),
         EXEC_SET(MEMCPY, parts_memcpy(in, ctx, &p)))
SIM_BODY(cuGraphExecMemsetNodeSetParams,
         (CUgraphExec x, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *in, CUcontext ctx),
         EXEC_SET(MEMSET, parts_memset(in, ctx, &p)))
SIM_BODY(cuGraphExecHostNodeSetParams,
         (CUgraphExec x, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *in),
         EXEC_SET(HOST, parts_host(in, &p)))
SIM_BODY(cuGraphExecEventRecordNodeSetEvent, (CUgraphExec x, CUgraphNode node, CUevent event),
         EXEC_SET(EVENT_RECORD, parts_event(event, true, &p)))
SIM_BODY(cuGraphExecEventWaitNodeSetEvent, (CUgraphExec x, CUgraphNode node, CUevent event),
         EXEC_SET(WAIT_EVENT, parts_event(event, false, &p)))
SIM_BODY(cuGraphExecBatchMemOpNodeSetParams,
         (CUgraphExec x, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *in),
         EXEC_SET(BATCH_MEM_OP, parts_memops(in, &p)))

/* ---- a whole graph --------------------------------------------------------------------------- */

/* Finds the first difference in shape. Nodes are paired by their place. */
static CUgraphExecUpdateResult compare(const struct exec_node *have, size_t have_count,
                                       const struct exec_node *want, size_t want_count,
                                       struct sim_node **where)
{
    for (size_t i = 0; i < have_count && i < want_count; i++) {
        const struct exec_node *a = &have[i], *b = &want[i];
        *where = b->node;
        if (a->type != b->type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (a->after_count != b->after_count ||
            (a->after_count != 0 &&
             memcmp(a->after, b->after, a->after_count * sizeof(*a->after)) != 0))
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        /* Works that name no context fit everywhere. */
        const struct sim_context *ctx = b->count != 0 ? context_find(b->works[0].context) : NULL;
        if (ctx && context_base(ctx) != context_base(a->ctx))
            return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
        if (a->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
            a->works[0].args.u64[0] != b->works[0].args.u64[0])
            return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
        if (a->type != TYPE_CONDITIONAL)
            continue;
        const struct choice *ours = choice_of(a), *theirs = choice_of(b);
        if (ours->type != theirs->type || ours->size != theirs->size)
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        for (unsigned int k = 0; k < ours->size; k++) {
            const struct sim_exec *body = &ours->bodies[k], *other = &theirs->bodies[k];
            CUgraphExecUpdateResult inside =
                compare(body->nodes, body->count, other->nodes, other->count, where);
            if (inside != CU_GRAPH_EXEC_UPDATE_SUCCESS)
                return inside;
        }
    }
    *where = want_count > have_count ? want[have_count].node : NULL;
    return have_count == want_count ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                    : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
}

/* Frees what is left of a change: what x had before, or what it could not take. */
static void left_free(const struct sim_exec *x, struct point end, struct exec_node *nodes,
                      size_t count, struct graph_object *objects)
{
    if (nodes) {
        exec_objects_take(nodes, count, &objects);
        exec_nodes_free(nodes, count);
    }
    exec_objects_release(x->ctx, end, objects);
}

/* Takes the works from `want` if the shapes agree. */
static CUgraphExecUpdateResult exec_take(struct exec_node *have, size_t have_count,
                                         struct exec_node *want, size_t want_count,
                                         struct sim_node **where)
{
    CUgraphExecUpdateResult result = compare(have, have_count, want, want_count, where);
    for (size_t i = 0; result == CU_GRAPH_EXEC_UPDATE_SUCCESS && i < have_count; i++) {
        SWAP(have[i].works, want[i].works);
        SWAP(have[i].count, want[i].count);
        SWAP(have[i].objects, want[i].objects);
    }
    return result;
}

static CUresult update(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    struct exec_node *want = NULL;
    struct graph_object *objects = NULL;
    size_t count = 0;
    TRY(driver_ready());
    struct sim_exec *x = exec_find(handle);
    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    if (!x)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&graph_lock);
    const struct sim_graph *g = graph_find(graph);
    CUresult rc = g && !g->inner ? exec_flatten(g, &want, &count) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS && !choices_belong(want, count, x, false)) {
        exec_nodes_free(want, count);
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    if (rc == CUDA_SUCCESS)
        objects = exec_objects_copy(g, want, count);
    pthread_mutex_unlock(&graph_lock);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct sim_node *where = NULL;
    pthread_mutex_lock(&x->lock);
    info->result = exec_take(x->nodes, x->count, want, count, &where);
    if (info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        SCOPED_LOCK(&graph_lock);
        choices_belong(want, count, NULL, true); /* what x had before the swap */
        choices_belong(x->nodes, x->count, x, true);
        SWAP(x->objects, objects);
    }
    struct point end = x->end;
    pthread_mutex_unlock(&x->lock);
    left_free(x, end, want, count, objects);
    if (info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS)
        return CUDA_SUCCESS;
    info->errorNode = node_handle(where);
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

SIM_CALL(cuGraphExecUpdate_v2, (CUgraphExec x, CUgraph graph, CUgraphExecUpdateResultInfo *info),
         info ? update(x, graph, info) : CUDA_ERROR_INVALID_VALUE)

SIM_EXPORT CUresult cuGraphExecUpdate(CUgraphExec x, CUgraph graph, CUgraphNode *error,
                                      CUgraphExecUpdateResult *result)
{
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    if (!error || !result)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = update(x, graph, &info);
    *error = info.errorNode;
    *result = info.result;
    return rc;
}

/* The nodes of a child graph lie behind its node, up to the joint behind them. */
static size_t child_count(const struct sim_exec *x, size_t at)
{
    size_t depth = 1, i = at + 1;
    while (i < x->count && depth != 0) {
        depth += x->nodes[i].type == CU_GRAPH_NODE_TYPE_GRAPH;
        depth -= x->nodes[i].id == 0;
        i++;
    }
    return i - at - 2;
}

/* Makes `child` flat, as it would lie behind the node at `at`: its dependencies are shifted by that
 * place, and its roots depend on that node. Under graph_lock. */
static CUresult child_flatten(const struct sim_graph *child, size_t at, struct exec_node **nodes,
                              size_t *count)
{
    CUresult rc = exec_flatten(child, nodes, count);
    for (size_t i = 0; rc == CUDA_SUCCESS && i < *count; i++) {
        struct exec_node *n = &(*nodes)[i];
        for (size_t k = 0; k < n->after_count; k++)
            n->after[k] += at + 1;
        if (n->after_count != 0)
            continue;
        n->after = malloc(sizeof(*n->after));
        if (!n->after)
            return CUDA_ERROR_OUT_OF_MEMORY; /* the caller frees what there is */
        n->after[0] = at;
        n->after_count = 1;
    }
    return rc;
}

SIM_EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec handle, CUgraphNode node,
                                                       CUgraph child)
{
    TRY(driver_ready());
    CUgraphNodeType type;
    uint64_t id = node_id(node, &type);
    struct sim_exec *x = exec_find(handle);
    if (!x || id == 0 || type != CU_GRAPH_NODE_TYPE_GRAPH)
        return CUDA_ERROR_INVALID_VALUE;
    struct exec_node *want = NULL;
    struct graph_object *objects = NULL;
    struct sim_node *where;
    size_t count = 0;
    pthread_mutex_lock(&x->lock);
    size_t at = 0;
    while (at < x->count && x->nodes[at].id != id)
        at++;
    pthread_mutex_lock(&graph_lock);
    const struct sim_graph *g = graph_find(child);
    CUresult rc =
        at < x->count && g ? child_flatten(g, at, &want, &count) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        objects = exec_objects_copy(g, want, count);
    pthread_mutex_unlock(&graph_lock);
    if (rc == CUDA_SUCCESS && exec_take(x->nodes + at + 1, child_count(x, at), want, count,
                                        &where) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
        rc = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    if (rc == CUDA_SUCCESS)
        SWAP(x->nodes[at].objects, objects);
    struct point end = x->end;
    pthread_mutex_unlock(&x->lock);
    left_free(x, end, want, count, objects);
    return rc;
}

#if CUDA_VERSION >= 12020
SIM_EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec x, CUgraphNode node, CUgraphNodeParams *in)
{
    struct parts p = {.count = 0};
    TRY(driver_ready());
    if (!in)
        return CUDA_ERROR_INVALID_VALUE;
    if (in->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return cuGraphExecChildGraphNodeSetParams(x, node, in->graph.graph);
    CUresult rc = parts_any(in, &p);
    return exec_change(x, node, in->type, rc, &p);
}
#endif

/* ---- on and off: kernels, copies and memsets ------------------------------------------------- */

static CUresult enabled(CUgraphExec handle, CUgraphNode node, const unsigned int *set,
                        unsigned int *get)
{
    TRY(driver_ready());
    CUgraphNodeType type;
    uint64_t id = node_id(node, &type);
    struct sim_exec *x = exec_find(handle);
    if (!x || id == 0 ||
        (type != CU_GRAPH_NODE_TYPE_KERNEL && type != CU_GRAPH_NODE_TYPE_MEMCPY &&
         type != CU_GRAPH_NODE_TYPE_MEMSET))
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&x->lock);
    struct exec_node *n = exec_node_of(x, id);
    if (n && set)
        n->disabled = *set == 0;
    if (n && get)
        *get = !n->disabled;
    return n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_CALL(cuGraphNodeSetEnabled, (CUgraphExec x, CUgraphNode node, unsigned int on),
         enabled(x, node, &on, NULL))
SIM_CALL(cuGraphNodeGetEnabled, (CUgraphExec x, CUgraphNode node, unsigned int *on),
         on ? enabled(x, node, NULL, on) : CUDA_ERROR_INVALID_VALUE)
