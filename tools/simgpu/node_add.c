/*
 * node_add.c - nodes come into graphs: alone, or with a graph inside.
 */
#include "tools/simgpu/node.h"

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
    struct sim_node **from = calloc(at->n + 1, sizeof *from);
    CUresult rc = from != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < at->n && rc == CUDA_SUCCESS; i++) {
        from[i] = node_find(at->after[i]);
        if (from[i] == NULL)
            rc = CUDA_ERROR_INVALID_VALUE;
    }
    if (rc == CUDA_SUCCESS)
        rc = node_depend(node, from, at->data, at->n);
    free(from);
    return rc;
}

/* Under lock. `child` (may be NULL) is copied into the node. */
static CUresult node_add(const struct place_in_graph *at, CUgraphNodeType type,
                         const struct parts *p, const struct sim_graph *child)
{
    struct graph_object *none = NULL;
    struct sim_graph *g = graph_find(at->graph);
    if (g == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_node *node = node_new(g, type, NULL);
    if (node == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = p != NULL ? node_fill(node, p->works, p->count) : CUDA_SUCCESS;
    if (rc == CUDA_SUCCESS && child != NULL) {
        node->child = graph_copy(child);
        rc = node->child != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (rc == CUDA_SUCCESS)
            node->child->owner = node;
    }
    if (rc == CUDA_SUCCESS)
        rc = node_connect(node, at);
    if (rc == CUDA_SUCCESS)
        *at->out = node_handle(node);
    else
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
    if (out != NULL && (n == 0 || after != NULL)) {
        pthread_mutex_lock(&graph_lock);
        rc = node_add(&at, type, p, NULL);
        pthread_mutex_unlock(&graph_lock);
    }
    if (p != NULL)
        parts_free(p);
    return rc;
}

#define ADD(type, build)                                                                           \
    CUresult rc = driver_ready();                                                                  \
    struct parts p = {.count = 0};                                                                 \
    if (rc == CUDA_SUCCESS)                                                                        \
        rc = build;                                                                                \
    return add(out, g, after, NULL, n, CU_GRAPH_NODE_TYPE_##type, rc, &p)
#define PLACE CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n

SIM_EXPORT CUresult cuGraphAddKernelNode_v2(PLACE, const CUDA_KERNEL_NODE_PARAMS *params)
{
    ADD(KERNEL, parts_kernel(params, &p));
}

SIM_EXPORT CUresult cuGraphAddKernelNode(PLACE, const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
    CUDA_KERNEL_NODE_PARAMS params;
    CUresult rc = node_kernel_v1(old, &params);
    return rc == CUDA_SUCCESS ? cuGraphAddKernelNode_v2(out, g, after, n, &params) : rc;
}

SIM_EXPORT CUresult cuGraphAddMemcpyNode(PLACE, const CUDA_MEMCPY3D *params, CUcontext ctx)
{
    ADD(MEMCPY, parts_memcpy(params, ctx, &p));
}

SIM_EXPORT CUresult cuGraphAddMemsetNode(PLACE, const CUDA_MEMSET_NODE_PARAMS *params,
                                         CUcontext ctx)
{
    ADD(MEMSET, parts_memset(params, ctx, &p));
}

SIM_EXPORT CUresult cuGraphAddHostNode(PLACE, const CUDA_HOST_NODE_PARAMS *params)
{
    ADD(HOST, parts_host(params, &p));
}

SIM_EXPORT CUresult cuGraphAddEventRecordNode(PLACE, CUevent event)
{
    ADD(EVENT_RECORD, parts_event(event, true, &p));
}

SIM_EXPORT CUresult cuGraphAddEventWaitNode(PLACE, CUevent event)
{
    ADD(WAIT_EVENT, parts_event(event, false, &p));
}

SIM_EXPORT CUresult cuGraphAddBatchMemOpNode(PLACE, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    ADD(BATCH_MEM_OP, parts_memops(params, &p));
}

SIM_EXPORT CUresult cuGraphAddMemAllocNode(PLACE, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    ADD(MEM_ALLOC, parts_alloc(params, &p));
}

SIM_EXPORT CUresult cuGraphAddMemFreeNode(PLACE, CUdeviceptr ptr)
{
    ADD(MEM_FREE, parts_free_node(ptr, &p));
}

SIM_EXPORT CUresult cuGraphAddEmptyNode(PLACE)
{
    return add(out, g, after, NULL, n, CU_GRAPH_NODE_TYPE_EMPTY, driver_ready(), NULL);
}

static CUresult add_child(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                          const struct edge_data *data, size_t n, CUgraph child)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL || (n != 0 && after == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    struct place_in_graph at = {out, g, after, data, n};
    pthread_mutex_lock(&graph_lock);
    const struct sim_graph *c = graph_find(child);
    rc = c != NULL ? node_add(&at, CU_GRAPH_NODE_TYPE_GRAPH, NULL, c) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&graph_lock);
    return rc;
}

SIM_EXPORT CUresult cuGraphAddChildGraphNode(PLACE, CUgraph child)
{
    return add_child(out, g, after, NULL, n, child);
}

#if CUDA_VERSION >= 12020
static CUresult add_any(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                        const struct edge_data *data, size_t n, CUgraphNodeParams *params)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type == CU_GRAPH_NODE_TYPE_EMPTY)
        return add(out, g, after, data, n, CU_GRAPH_NODE_TYPE_EMPTY, CUDA_SUCCESS, NULL);
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return add_child(out, g, after, data, n, params->graph.graph);
    struct parts p = {.count = 0};
    rc = parts_any(params, &p);
    return add(out, g, after, data, n, params->type, rc, &p);
}

SIM_EXPORT CUresult cuGraphAddNode(PLACE, CUgraphNodeParams *params)
{
    return add_any(out, g, after, NULL, n, params);
}

#if CUDA_VERSION >= 12030
SIM_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                                      const CUgraphEdgeData *data, size_t n,
                                      CUgraphNodeParams *params)
{
    return add_any(out, g, after, (const struct edge_data *)(const void *)data, n, params);
}

SIM_EXPORT CUresult cuGraphAddNode_v3(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                                      const CUgraphEdgeData *data, size_t n,
                                      CUgraphNodeParams *params);
SIM_EXPORT CUresult cuGraphAddNode_v3(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
                                      const CUgraphEdgeData *data, size_t n,
                                      CUgraphNodeParams *params)
{
    return cuGraphAddNode_v2(out, g, after, data, n, params);
}
#endif
#endif
