/*
 * node_add.c - adds nodes to graphs, also nodes with graphs inside.
 */
#include "tools/simgpu/graph/conditional.h"
#include "tools/simgpu/graph/node.h"

/* The arguments with which each call begins that adds a node. */
struct place {
    CUgraphNode *out;
    CUgraph graph;
    const CUgraphNode *after;
    size_t n;
    const struct edge_data *data;
};

/* Under lock. */
static CUresult node_connect(struct sim_node *node, const struct place *at)
{
    struct sim_node **from = calloc(at->n + 1, sizeof(*from));
    CUresult rc = from ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < at->n && rc == CUDA_SUCCESS; i++) {
        from[i] = node_find(at->after[i]);
        if (!from[i])
            rc = CUDA_ERROR_INVALID_VALUE;
    }
    if (rc == CUDA_SUCCESS)
        rc = node_depend(node, from, at->data, at->n);
    free(from);
    return rc;
}

static bool place_valid(const struct place *at)
{
    return at->out && (at->n == 0 || at->after);
}

/* Adds a node. If it succeeds it has taken the parts (NULL: none). Under lock. */
static CUresult node_add(const struct place *at, CUgraphNodeType type, struct parts *p,
                         struct sim_node **out)
{
    struct graph_object *none = NULL;
    struct sim_graph *g = graph_find(at->graph);
    bool memory = type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
    /* Graphs inside others have no memory nodes. */
    if (!place_valid(at) || !g || !conditional_allows(g, type) || (g->owner && memory))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_node *node = node_new(g, type, NULL, 0);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = p ? node_fill(node, p) : CUDA_SUCCESS;
    if (rc == CUDA_SUCCESS)
        rc = node_connect(node, at);
    if (rc == CUDA_SUCCESS) {
        *at->out = node_handle(node);
        *out = node;
    } else
        node_free(node, &none);
    return rc;
}

/* Adds what was built; built_rc is the result of building. */
static CUresult add(const struct place *at, CUgraphNodeType type, CUresult built_rc,
                    struct parts *p)
{
    struct sim_node *node;
    if (built_rc != CUDA_SUCCESS)
        return built_rc;
    SCOPED_LOCK(&graph_lock);
    CUresult rc = node_add(at, type, p, &node);
    if (p)
        parts_free(p);
    return rc;
}

#define ADD(type, build)                                                                           \
    struct parts p = {.count = 0};                                                                 \
    TRY(driver_ready());                                                                           \
    return add(AT, CU_GRAPH_NODE_TYPE_##type, build, &p)
#define PLACE CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n
#define AT    (&(struct place){out, g, after, n, NULL})

SIM_BODY(cuGraphAddKernelNode_v2, (PLACE, const CUDA_KERNEL_NODE_PARAMS *params),
         ADD(KERNEL, parts_kernel(params, &p)))

SIM_EXPORT CUresult cuGraphAddKernelNode(PLACE, const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
    CUDA_KERNEL_NODE_PARAMS params;
    TRY(node_kernel_v1(old, &params));
    return cuGraphAddKernelNode_v2(out, g, after, n, &params);
}

SIM_BODY(cuGraphAddMemcpyNode, (PLACE, const CUDA_MEMCPY3D *params, CUcontext ctx),
         ADD(MEMCPY, parts_memcpy(params, ctx, &p)))
SIM_BODY(cuGraphAddMemsetNode, (PLACE, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx),
         ADD(MEMSET, parts_memset(params, ctx, &p)))
SIM_BODY(cuGraphAddHostNode, (PLACE, const CUDA_HOST_NODE_PARAMS *params),
         ADD(HOST, parts_host(params, &p)))
SIM_BODY(cuGraphAddEventRecordNode, (PLACE, CUevent event),
         ADD(EVENT_RECORD, parts_event(event, true, &p)))
SIM_BODY(cuGraphAddEventWaitNode, (PLACE, CUevent event),
         ADD(WAIT_EVENT, parts_event(event, false, &p)))
SIM_BODY(cuGraphAddBatchMemOpNode, (PLACE, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params),
         ADD(BATCH_MEM_OP, parts_memops(params, &p)))
SIM_BODY(cuGraphAddMemAllocNode, (PLACE, CUDA_MEM_ALLOC_NODE_PARAMS *params),
         ADD(MEM_ALLOC, parts_alloc(params, &p)))
SIM_BODY(cuGraphAddMemFreeNode, (PLACE, CUdeviceptr ptr), ADD(MEM_FREE, parts_free_node(ptr, &p)))
SIM_CALL(cuGraphAddEmptyNode, (PLACE), add(AT, CU_GRAPH_NODE_TYPE_EMPTY, driver_ready(), NULL))

/* ---- graphs inside: copied, or moved with their handles -------------------------------------- */

static bool type_condition(CUgraphNodeType type)
{
    return type == TYPE_CONDITIONAL;
}

/* Whether it can be a child in `into`. A copy has no memory nodes, and none has conditions. */
static bool child_fits(const struct sim_graph *child, const struct sim_graph *into, bool moved)
{
    if (!child || !into || child->inner || child->capturing)
        return false;
    if (!moved)
        return !graph_has(child, type_uncopyable);
    return !child->owner && !graph_inside(into, child) && !graph_has(child, type_condition);
}

static CUresult add_child(const struct place *at, CUgraph handle, bool moved)
{
    struct graph_object *none = NULL;
    struct sim_node *node;
    TRY(driver_ready());
    SCOPED_LOCK(&graph_lock);
    struct sim_graph *child = graph_find(handle);
    if (!place_valid(at) || !child_fits(child, graph_find(at->graph), moved))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *own = moved ? child : graph_copy(child);
    CUresult rc =
        own ? node_add(at, CU_GRAPH_NODE_TYPE_GRAPH, NULL, &node) : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS) {
        node->child = own;
        own->owner = node;
        own->inner = moved;
    } else if (own && !moved)
        graph_free(own, &none);
    return rc;
}

SIM_CALL(cuGraphAddChildGraphNode, (PLACE, CUgraph child), add_child(AT, child, false))

#if CUDA_VERSION >= 12020
#if CUDA_VERSION >= 12030
static CUresult add_conditional(const struct place *at, CUDA_CONDITIONAL_NODE_PARAMS *params)
{
    struct graph_object *none = NULL;
    struct sim_node *node;
    SCOPED_LOCK(&graph_lock);
    TRY(node_add(at, TYPE_CONDITIONAL, NULL, &node));
    CUresult rc = conditional_make(node, params);
    if (rc != CUDA_SUCCESS)
        node_free(node, &none);
    return rc;
}
#endif

static CUresult add_any(const struct place *at, CUgraphNodeParams *params)
{
    TRY(driver_ready());
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type == CU_GRAPH_NODE_TYPE_EMPTY)
        return add(at, CU_GRAPH_NODE_TYPE_EMPTY, CUDA_SUCCESS, NULL);
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) {
        /* A structure from before 12.9 ends before this, and zero follows, which is a copy. */
        int ownership;
        memcpy(&ownership, (const char *)&params->graph + sizeof(CUgraph), sizeof(ownership));
        if (ownership != OWNERSHIP_COPY && ownership != OWNERSHIP_MOVE)
            return CUDA_ERROR_INVALID_VALUE;
        return add_child(at, params->graph.graph, ownership == OWNERSHIP_MOVE);
    }
#if CUDA_VERSION >= 12030
    if (params->type == TYPE_CONDITIONAL)
        return add_conditional(at, &params->conditional);
#endif
    struct parts p = {.count = 0};
    CUresult rc = parts_any(params, &p);
    return add(at, params->type, rc, &p);
}

SIM_CALL(cuGraphAddNode, (PLACE, CUgraphNodeParams *params), add_any(AT, params))

#if CUDA_VERSION >= 12030
SIM_CALL(cuGraphAddNode_v2,
         (CUgraphNode * out, CUgraph g, const CUgraphNode *after, const CUgraphEdgeData *data,
          size_t n, CUgraphNodeParams *params),
         add_any(&(struct place){out, g, after, n, (const void *)data}, params))
SIM_ALIAS(cuGraphAddNode_v3,
          (CUgraphNode * out, CUgraph g, const CUgraphNode *after, const CUgraphEdgeData *data,
           size_t n, CUgraphNodeParams *params),
          cuGraphAddNode_v2, out, g, after, data, n, params)
#endif
#endif
