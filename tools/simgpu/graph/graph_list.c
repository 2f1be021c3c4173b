/*
 * graph_list.c - what a graph says about itself: its nodes and edges in lists, and a picture.
 */
#include "tools/simgpu/graph/graph.h"

#include <stdio.h>
#include <utlist.h>

/*
 * All lists answer in the same way. Without an array: the count. With one: at most *n entries, NULL
 * in those beyond the last, and in *n the number of entries written.
 */
struct list_out {
    CUgraphNode *nodes, *others;
    struct edge_data *data;
    size_t room, count;
};

static void list_put(struct list_out *l, struct sim_node *node, struct sim_node *other,
                     const struct edge_data *data)
{
    if (l->nodes && l->count < l->room) {
        l->nodes[l->count] = node_handle(node);
        if (l->others)
            l->others[l->count] = node_handle(other);
        if (l->data && data)
            l->data[l->count] = *data;
    }
    l->count++;
}

static CUresult list_end(struct list_out *l, size_t *n)
{
    for (size_t i = l->count; l->nodes && i < l->room; i++) {
        l->nodes[i] = NULL;
        if (l->others)
            l->others[i] = NULL;
    }
    *n = l->nodes && l->room < l->count ? l->room : l->count;
    return CUDA_SUCCESS;
}

#define ERROR_LOSSY_QUERY ((CUresult)402) /* CUDA_ERROR_LOSSY_QUERY, from 12.3 on */

/* Whether the edge is more than a full dependency and the call has no room to say so. */
static bool lossy(const struct edge_data *wanted, const struct edge *e)
{
    static const struct edge_data full;
    return !wanted && memcmp(&e->data, &full, sizeof(full)) != 0;
}

static CUresult graph_list(CUgraph handle, CUgraphNode *out, size_t *n, bool roots)
{
    TRY(driver_ready());
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    struct list_out l = {.nodes = out, .room = *n};
    SCOPED_LOCK(&graph_lock);
    const struct sim_graph *g = graph_find(handle);
    struct sim_node *node;
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    DL_FOREACH (g->nodes, node) {
        if (!roots || node->in.count == 0)
            list_put(&l, node, NULL, NULL);
    }
    return list_end(&l, n);
}

SIM_CALL(cuGraphGetNodes, (CUgraph g, CUgraphNode *out, size_t *n), graph_list(g, out, n, false))
SIM_CALL(cuGraphGetRootNodes, (CUgraph g, CUgraphNode *out, size_t *n), graph_list(g, out, n, true))

static CUresult edge_list(CUgraph handle, struct list_out *l, size_t *n)
{
    TRY(driver_ready());
    if (!n || !l->nodes != !l->others)
        return CUDA_ERROR_INVALID_VALUE;
    l->room = *n;
    SCOPED_LOCK(&graph_lock);
    const struct sim_graph *g = graph_find(handle);
    struct sim_node *to;
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    DL_FOREACH (g->nodes, to) {
        for (size_t i = 0; i < to->in.count; i++) {
            const struct edge *e = &to->in.items[i];
            if (l->nodes && lossy(l->data, e))
                return ERROR_LOSSY_QUERY;
            list_put(l, e->node, to, &e->data);
        }
    }
    return list_end(l, n);
}

static CUresult neighbour_list(CUgraphNode handle, bool in, struct list_out *l, size_t *n)
{
    TRY(driver_ready());
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    l->room = *n;
    SCOPED_LOCK(&graph_lock);
    const struct sim_node *node = node_find(handle);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    const struct edges *edges = in ? &node->in : &node->out;
    for (size_t i = 0; i < edges->count; i++) {
        if (l->nodes && lossy(l->data, &edges->items[i]))
            return ERROR_LOSSY_QUERY;
        list_put(l, edges->items[i].node, NULL, &edges->items[i].data);
    }
    return list_end(l, n);
}

/* The arrays that a call fills. */
#define EDGES(from, to, edge_data)                                                                 \
    (&(struct list_out){.nodes = (from), .others = (to), .data = (void *)(edge_data)})

SIM_CALL(cuGraphGetEdges, (CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n),
         edge_list(g, EDGES(from, to, NULL), n))
SIM_CALL(cuGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode *out, size_t *n),
         neighbour_list(node, true, EDGES(out, NULL, NULL), n))
SIM_CALL(cuGraphNodeGetDependentNodes, (CUgraphNode node, CUgraphNode *out, size_t *n),
         neighbour_list(node, false, EDGES(out, NULL, NULL), n))

#if CUDA_VERSION >= 12030
SIM_CALL(cuGraphGetEdges_v2,
         (CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *n),
         edge_list(g, EDGES(from, to, data), n))
SIM_CALL(cuGraphNodeGetDependencies_v2,
         (CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data, size_t *n),
         neighbour_list(node, true, EDGES(out, NULL, data), n))
SIM_CALL(cuGraphNodeGetDependentNodes_v2,
         (CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data, size_t *n),
         neighbour_list(node, false, EDGES(out, NULL, data), n))
#endif

/* ---- what they are called -------------------------------------------------------------------- */

/* A call that tells a figure of a graph or a node; cuda.h declares some of them from 13.1 on. */
#define TELL(name, of, kind, find, type, answer)                                                   \
    CUresult name(of handle, type *out);                                                           \
    SIM_EXPORT CUresult name(of handle, type *out)                                                 \
    {                                                                                              \
        TRY(driver_ready());                                                                       \
        SCOPED_LOCK(&graph_lock);                                                                  \
        const struct sim_##kind *it = find(handle);                                                \
        if (!it || !out)                                                                           \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        *out = (type)(answer);                                                                     \
        return CUDA_SUCCESS;                                                                       \
    }
TELL(cuGraphNodeGetType, CUgraphNode, node, node_find, CUgraphNodeType, it->type)
TELL(cuGraphGetId, CUgraph, graph, graph_find, unsigned int, it->id)
TELL(cuGraphNodeGetToolsId, CUgraphNode, node, node_find, unsigned long long, it->id)
TELL(cuGraphNodeGetContainingGraph, CUgraphNode, node, node_find, CUgraph, graph_handle(it->graph))
TELL(cuGraphNodeGetLocalId, CUgraphNode, node, node_find, unsigned int, it->id)

/* ---- a picture ------------------------------------------------------------------------------- */

/* `verbose`: "Output all debug data as if every debug flag is enabled" (cuda.h). What readers of
 * the picture need: the number of the type, and the shape of kernels. */
static void dot_graph(FILE *f, const struct sim_graph *g, int depth, bool verbose)
{
    const struct sim_node *n;
    fprintf(f, "%*slabel=\"graph %llu\";\n", depth * 2, "", (unsigned long long)g->id);
    DL_FOREACH (g->nodes, n) {
        fprintf(f, "%*s\"%llu\" [label=\"%s", depth * 2, "", (unsigned long long)n->id,
                n->count   ? n->works[0].name
                : n->child ? "graph"
                           : "empty");
        if (verbose)
            fprintf(f, "\\ntype %d", (int)n->type);
        if (verbose && n->type == CU_GRAPH_NODE_TYPE_KERNEL)
            fprintf(f, "\\nblocks %u threads %u smem %u", n->works[0].blocks, n->works[0].threads,
                    n->works[0].smem);
        fprintf(f, "\"];\n");
        for (size_t i = 0; i < n->in.count; i++)
            fprintf(f, "%*s\"%llu\" -> \"%llu\";\n", depth * 2, "",
                    (unsigned long long)n->in.items[i].node->id, (unsigned long long)n->id);
        if (!n->child)
            continue;
        fprintf(f, "%*ssubgraph \"cluster_%llu\" {\n", depth * 2, "", (unsigned long long)n->id);
        dot_graph(f, n->child, depth + 1, verbose);
        fprintf(f, "%*s}\n", depth * 2, "");
    }
}

SIM_EXPORT CUresult cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned int flags)
{
    TRY(driver_ready());
    SCOPED_LOCK(&graph_lock);
    const struct sim_graph *g = graph_find(handle);
    if (!g || !path)
        return CUDA_ERROR_INVALID_VALUE;
    FILE *f = fopen(path, "we");
    if (!f)
        return CUDA_ERROR_OPERATING_SYSTEM;
    fprintf(f, "digraph dot {\n");
    dot_graph(f, g, 1, flags & CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
    fprintf(f, "}\n");
    return fclose(f) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
