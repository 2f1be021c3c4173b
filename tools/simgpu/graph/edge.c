/*
 * edge.c - edges between the nodes of a graph. Both ends know them.
 */
#include "tools/simgpu/graph/edge.h"
#include "tools/simgpu/graph/graph.h"

static struct edge *edges_find(const struct edges *e, const struct sim_node *node)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->items[i].node == node)
            return &e->items[i];
    return NULL;
}

static bool edges_push(struct edges *e, struct sim_node *node, struct edge_data data)
{
    struct edge *items = array_grow(e->items, e->count, sizeof(*items));
    if (!items)
        return false;
    e->items = items;
    e->items[e->count++] = (struct edge){node, data};
    return true;
}

static void edges_remove(struct edges *e, const struct sim_node *node)
{
    struct edge *found = edges_find(e, node);
    if (!found)
        return;
    size_t at = (size_t)(found - e->items);
    e->count--;
    memmove(found, found + 1, (e->count - at) * sizeof(*found));
}

bool edge_add(struct sim_node *from, struct sim_node *to, struct edge_data data)
{
    if (!edges_push(&to->in, from, data))
        return false;
    if (edges_push(&from->out, to, data))
        return true;
    edges_remove(&to->in, from);
    return false;
}

void edge_remove(struct sim_node *from, struct sim_node *to)
{
    edges_remove(&to->in, from);
    edges_remove(&from->out, to);
}

CUresult node_depend(struct sim_node *node, struct sim_node *const *from,
                     const struct edge_data *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (from[i]->graph != node->graph || edges_find(&node->in, from[i]))
            return CUDA_ERROR_INVALID_VALUE;
        if (!edge_add(from[i], node, data ? data[i] : (struct edge_data){{0}}))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

bool node_reaches(struct sim_node *from, const struct sim_node *to)
{
    /* Breadth first. Under graph_lock, so one number tells this walk from others. */
    static uint64_t visits;
    size_t count = 1;
    struct sim_node **reached = array_grow(NULL, 0, sizeof(struct sim_node *));
    if (!reached)
        return true; /* out of memory: refuse the edge, which might close a circle */
    bool found = false;
    reached[0] = from;
    from->visit = ++visits;
    for (size_t at = 0; at < count && !found; at++) {
        found = reached[at] == to;
        for (size_t i = 0; i < reached[at]->out.count && !found; i++) {
            struct sim_node *next = reached[at]->out.items[i].node;
            if (next->visit == visits)
                continue;
            struct sim_node **more = array_grow(reached, count, sizeof(struct sim_node *));
            if (!more) {
                free(reached);
                return true;
            }
            reached = more;
            next->visit = visits;
            reached[count++] = next;
        }
    }
    free(reached);
    return found;
}

/* ---- API ------------------------------------------------------------------------------------- */

/* Stops at the first bad pair. The pairs before it are done. */
static CUresult edges_change(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                             const struct edge_data *data, size_t n, bool add)
{
    TRY(driver_ready());
    if (n != 0 && (!from || !to))
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&graph_lock);
    const struct sim_graph *g = graph_find(handle);
    for (size_t i = 0; i < n; i++) {
        struct sim_node *a = node_find(from[i]), *b = node_find(to[i]);
        if (!g || !a || !b || a->graph != g || b->graph != g)
            return CUDA_ERROR_INVALID_VALUE;
        bool there = edges_find(&b->in, a);
        if (there == add || (add && node_reaches(b, a)))
            return CUDA_ERROR_INVALID_VALUE;
        if (!add)
            edge_remove(a, b);
        else if (!edge_add(a, b, data ? data[i] : (struct edge_data){{0}}))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_CALL(cuGraphAddDependencies,
         (CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n),
         edges_change(g, from, to, NULL, n, true))
SIM_CALL(cuGraphRemoveDependencies,
         (CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n),
         edges_change(g, from, to, NULL, n, false))

#if CUDA_VERSION >= 12030
_Static_assert(sizeof(struct edge_data) == sizeof(CUgraphEdgeData), "the same eight bytes");
#define CONST_DATA(p) ((const struct edge_data *)(const void *)(p))

SIM_CALL(cuGraphAddDependencies_v2,
         (CUgraph g, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data,
          size_t n),
         edges_change(g, from, to, CONST_DATA(data), n, true))
SIM_CALL(cuGraphRemoveDependencies_v2,
         (CUgraph g, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data,
          size_t n),
         edges_change(g, from, to, CONST_DATA(data), n, false))
#endif
