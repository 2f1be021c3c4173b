/*
 * node_add.c - nodes come into graphs: alone, or with a graph inside.
 */
#include "tools/simgpu/graph/conditional.h"
#include "tools/simgpu/graph/node.h"

#include <stdlib.h>

struct place_in_graph {
    CUgraphNode *out;
    CUgraph graph;
    const CUgraphNode *after;
    const struct edge_data *data;
    size_t n;
};

/* Under lock. */
static CUresult node_connect(struct sim_node *node, const struct place_in_graph *at)
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

/* Graphs inside others take no allocations. */
static bool type_allowed(const struct sim_graph *g, CUgraphNodeType type)
{
    return conditional_allows(g, type) && (!g->owner || (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
                                                         type != CU_GRAPH_NODE_TYPE_MEM_FREE));
}

/* Under lock. */
static CUresult node_add(const struct place_in_graph *at, CUgraphNodeType type,
                         const struct parts *p, struct sim_node **out)
{
    struct graph_object *none = NULL;
    struct sim_graph *g = graph_find(at->graph);
    if (!g || !type_allowed(g, type))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_node *node = node_new(g, type, NULL);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = p ? node_fill(node, p->works, p->count) : CUDA_SUCCESS;
    if (rc == CUDA_SUCCESS)
        rc = node_connect(node, at);
    if (rc == CUDA_SUCCESS) {
        *at->out = node_handle(node);
        *out = node;
    } else
        node_free(node, &none);
    return rc;
}

/* Adds what was built (built_rc says how that went) and lets go of it. */
static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                    const struct edge_data *data, size_t n, CUgraphNodeType type, CUresult built_rc,
                    struct parts *p)
{
    if (built_rc != CUDA_SUCCESS)
        return built_rc;
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    struct place_in_graph at = {out, graph, after, data, n};
    struct sim_node *node;
    if (out && (n == 0 || after)) {
        pthread_mutex_lock(&graph_lock);
        rc = node_add(&at, type, p, &node);
        pthread_mutex_unlock(&graph_lock);
    }
    if (p)
        parts_free(p);
    return rc;
}

#define ADD(type, build)                                                                           \
    struct parts p = {.count = 0};                                                                 \
    TRY(driver_ready());                                                                           \
    return add(out, g, after, NULL, n, CU_GRAPH_NODE_TYPE_##type, build, &p)
#define PLACE CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n

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
SIM_CALL(cuGraphAddEmptyNode, (PLACE),
         add(out, g, after, NULL, n, CU_GRAPH_NODE_TYPE_EMPTY, driver_ready(), NULL))

/* ---- graphs inside: copied, or moved with their handles -------------------------------------- */

static bool type_condition(CUgraphNodeType type)
{
    return type == TYPE_CONDITIONAL;
}

static bool lies_inside(const struct sim_graph *g, const struct sim_graph *of)
{
    while (g != of && g->owner)
        g = g->owner->graph;
    return g == of;
}

/* May it become a node of `into`? A copy has no allocations, and neither has conditions. */
static bool child_fits(const struct sim_graph *child, const struct sim_graph *into, bool moved)
{
    if (!child || !into || child->inner || child->capturing)
        return false;
    if (!moved)
        return !graph_has(child, type_single);
    return !child->owner && !lies_inside(into, child) && !graph_has(child, type_condition);
}

/* Under lock. */
static CUresult child_add(const struct place_in_graph *at, struct sim_graph *child, bool moved)
{
    struct graph_object *none = NULL;
    struct sim_node *node;
    if (!child_fits(child, graph_find(at->graph), moved))
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

static CUresult add_child(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                          const struct edge_data *data, size_t n, CUgraph child, bool moved)
{
    TRY(driver_ready());
    if (!out || (n != 0 && !after))
        return CUDA_ERROR_INVALID_VALUE;
    struct place_in_graph at = {out, g, after, data, n};
    pthread_mutex_lock(&graph_lock);
    CUresult rc = child_add(&at, graph_find(child), moved);
    pthread_mutex_unlock(&graph_lock);
    return rc;
}

SIM_CALL(cuGraphAddChildGraphNode, (PLACE, CUgraph child),
         add_child(out, g, after, NULL, n, child, false))

#if CUDA_VERSION >= 12020
/* A structure from before 12.9 ends in front of the ownership, and what follows is zero: a copy. */
static CUresult add_any_child(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                              const struct edge_data *data, size_t n,
                              const CUgraphNodeParams *params)
{
    int ownership;
    memcpy(&ownership, (const char *)&params->graph + sizeof(CUgraph), sizeof(ownership));
    if (ownership != OWNERSHIP_COPY && ownership != OWNERSHIP_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    return add_child(out, g, after, data, n, params->graph.graph, ownership == OWNERSHIP_MOVE);
}

#if CUDA_VERSION >= 12030
static CUresult add_conditional(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                                const struct edge_data *data, size_t n,
                                CUDA_CONDITIONAL_NODE_PARAMS *params)
{
    struct graph_object *none = NULL;
    struct sim_node *node;
    struct place_in_graph at = {out, g, after, data, n};
    if (!out || (n != 0 && !after))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&graph_lock);
    CUresult rc = node_add(&at, TYPE_CONDITIONAL, NULL, &node);
    if (rc == CUDA_SUCCESS) {
        rc = conditional_make(node, params);
        if (rc != CUDA_SUCCESS)
            node_free(node, &none);
    }
    pthread_mutex_unlock(&graph_lock);
    return rc;
}
#endif

static CUresult add_any(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                        const struct edge_data *data, size_t n, CUgraphNodeParams *params)
{
    TRY(driver_ready());
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type == CU_GRAPH_NODE_TYPE_EMPTY)
        return add(out, g, after, data, n, CU_GRAPH_NODE_TYPE_EMPTY, CUDA_SUCCESS, NULL);
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return add_any_child(out, g, after, data, n, params);
#if CUDA_VERSION >= 12030
    if (params->type == TYPE_CONDITIONAL)
        return add_conditional(out, g, after, data, n, &params->conditional);
#endif
    struct parts p = {.count = 0};
    CUresult rc = parts_any(params, &p);
    return add(out, g, after, data, n, params->type, rc, &p);
}

SIM_CALL(cuGraphAddNode, (PLACE, CUgraphNodeParams *params),
         add_any(out, g, after, NULL, n, params))

#if CUDA_VERSION >= 12030
SIM_CALL(cuGraphAddNode_v2,
         (CUgraphNode * out, CUgraph g, const CUgraphNode *after, const CUgraphEdgeData *data,
          size_t n, CUgraphNodeParams *params),
         add_any(out, g, after, (const struct edge_data *)(const void *)data, n, params))
SIM_ALIAS(cuGraphAddNode_v3,
          (CUgraphNode * out, CUgraph g, const CUgraphNode *after, const CUgraphEdgeData *data,
           size_t n, CUgraphNodeParams *params),
          cuGraphAddNode_v2, out, g, after, data, n, params)
#endif
#endif
