/*
 * graph.c - graphs as structures: made, cloned, connected, asked about, destroyed.
 */
#include "tools/simgpu/graph/conditional.h"
#include "tools/simgpu/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

pthread_mutex_t graph_lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle_pool graphs = HANDLE_POOL(struct sim_graph, 1 << 18);
static struct handle_pool nodes = HANDLE_POOL(struct sim_node, 1 << 20);
static uint64_t next_id = 1;

struct sim_graph *graph_find(CUgraph handle)
{
    return handle_find(&graphs, handle);
}

struct sim_node *node_find(CUgraphNode handle)
{
    return handle_find(&nodes, handle);
}

/* Everything behind the handle, which the pool needs. */
#define CLEAR(object)                                                                              \
    memset((char *)(object) + sizeof(struct handle), 0, sizeof *(object) - sizeof(struct handle))

/* ---- works of one's own ------------------------------------------------------------------------------- */

bool work_keep(struct work *dst, const struct work *src)
{
    *dst = *src;
    dst->blob = NULL;
    if (src->blob_bytes != 0) {
        dst->blob = malloc(src->blob_bytes);
        if (dst->blob == NULL)
            return false;
        memcpy(dst->blob, src->blob, src->blob_bytes);
    }
    if (dst->hold != NULL)
        dst->hold(dst);
    return true;
}

void work_discard(struct work *w)
{
    if (w->drop != NULL)
        w->drop(w);
    free(w->blob);
    memset(w, 0, sizeof *w);
}

/* ---- edges --------------------------------------------------------------------------------------------- */

static struct edge *edges_find(const struct edges *e, const struct sim_node *node)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->items[i].node == node)
            return &e->items[i];
    return NULL;
}

static bool edges_push(struct edges *e, struct sim_node *node, struct edge_data data)
{
    if (e->count == e->room) {
        size_t room = e->room != 0 ? e->room * 2 : 4;
        struct edge *items = realloc(e->items, room * sizeof *items);
        if (items == NULL)
            return false;
        e->items = items;
        e->room = room;
    }
    e->items[e->count++] = (struct edge){node, data};
    return true;
}

static void edges_remove(struct edges *e, const struct sim_node *node)
{
    struct edge *found = edges_find(e, node);
    if (found == NULL)
        return;
    size_t at = (size_t)(found - e->items);
    e->count--;
    memmove(found, found + 1, (e->count - at) * sizeof *found);
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

static void edge_remove(struct sim_node *from, struct sim_node *to)
{
    edges_remove(&to->in, from);
    edges_remove(&from->out, to);
}

CUresult node_depend(struct sim_node *node, struct sim_node *const *from,
                     const struct edge_data *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (from[i]->graph != node->graph || edges_find(&node->in, from[i]) != NULL)
            return CUDA_ERROR_INVALID_VALUE;
        if (!edge_add(from[i], node, data != NULL ? data[i] : (struct edge_data){{0}}))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

bool node_reaches(struct sim_node *from, const struct sim_node *to)
{
    /* Depth first with a worklist; under graph_lock, so one number tells this walk from others. */
    static uint64_t visits;
    size_t count = 1, room = 64;
    struct sim_node **reached = malloc(room * sizeof(struct sim_node *));
    if (reached == NULL)
        return true; /* refuse rather than risk a circle */
    bool found = false;
    reached[0] = from;
    from->visit = ++visits;
    for (size_t at = 0; at < count && !found; at++) {
        found = reached[at] == to;
        for (size_t i = 0; i < reached[at]->out.count && !found; i++) {
            struct sim_node *next = reached[at]->out.items[i].node;
            if (next->visit == visits)
                continue;
            if (count == room) {
                struct sim_node **more = realloc(reached, 2 * room * sizeof(struct sim_node *));
                if (more == NULL) {
                    free(reached);
                    return true;
                }
                reached = more;
                room *= 2;
            }
            next->visit = visits;
            reached[count++] = next;
        }
    }
    free(reached);
    return found;
}

/* ---- life ----------------------------------------------------------------------------------------------- */

struct sim_graph *graph_new(void)
{
    struct sim_graph *g = handle_take(&graphs);
    if (g == NULL)
        return NULL;
    CLEAR(g);
    g->id = next_id++;
    handle_publish(g);
    return g;
}

struct sim_node *node_new(struct sim_graph *g, CUgraphNodeType type, const struct work *w)
{
    struct sim_node *n = handle_take(&nodes);
    if (n == NULL)
        return NULL;
    CLEAR(n);
    n->id = next_id++;
    n->graph = g;
    n->type = type;
    if (w != NULL && node_fill(n, w, 1) != CUDA_SUCCESS) {
        handle_give(&nodes, n);
        return NULL;
    }
    DL_APPEND(g->nodes, n);
    g->count++;
    handle_publish(n);
    return n;
}

static void node_empty(struct sim_node *n)
{
    work_discard(&n->work);
    for (size_t i = 0; i < n->more_count; i++)
        work_discard(&n->more[i]);
    free(n->more);
    free(n->memops);
    free(n->params);
    n->more = NULL;
    n->memops = NULL;
    n->params = NULL;
    n->more_count = 0;
}

void node_free(struct sim_node *n, struct graph_object **released)
{
    while (n->in.count != 0)
        edge_remove(n->in.items[0].node, n);
    while (n->out.count != 0)
        edge_remove(n, n->out.items[0].node);
    free(n->in.items);
    free(n->out.items);
    DL_DELETE(n->graph->nodes, n);
    n->graph->count--;
    node_empty(n);
    if (n->child != NULL)
        graph_free(n->child, released);
    conditional_free(n, released);
    if (handle_retire(n))
        handle_give(&nodes, n);
}

void graph_free(struct sim_graph *g, struct graph_object **released)
{
    while (g->nodes != NULL)
        node_free(g->nodes, released);
    LL_CONCAT(*released, g->objects);
    g->objects = NULL;
    conditions_leave(g);
    if (handle_retire(g))
        handle_give(&graphs, g);
}

/* Keeps `count` works of a batch (1 for everything but memops) in place of what the node did before. */
CUresult node_fill(struct sim_node *n, const struct work *w, size_t count)
{
    struct work first, *more = NULL;
    if (count > 1 && (more = calloc(count - 1, sizeof *more)) == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool kept = work_keep(&first, w);
    size_t done = 0;
    while (kept && done + 1 < count && (kept = work_keep(&more[done], &w[done + 1])))
        done++;
    CUstreamBatchMemOpParams *memops = NULL;
    if (kept && n->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
        memops = calloc(count, sizeof *memops);
        kept = memops != NULL;
        for (size_t i = 0; kept && i < count; i++)
            memcpy(&memops[i], w[i].blob, sizeof *memops);
    }
    if (!kept) {
        while (done > 0)
            work_discard(&more[--done]);
        free(more);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    node_empty(n);
    n->work = first;
    n->more = more;
    n->more_count = count - 1;
    n->memops = memops;
    return node_params_layout(n) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool node_params_layout(struct sim_node *n)
{
    if (n->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return true;
    const struct sim_function *f = n->work.func;
    size_t count = function_param_count(f);
    n->params = calloc(count + 1, sizeof *n->params);
    for (size_t i = 0; n->params != NULL && i < count; i++)
        n->params[i] = (char *)n->work.blob + function_param(f, i)->offset;
    return n->params != NULL;
}

bool type_single(CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
           type == TYPE_CONDITIONAL;
}

bool graph_has(const struct sim_graph *g, bool (*such)(CUgraphNodeType type))
{
    const struct sim_node *n;
    DL_FOREACH (g->nodes, n) {
        if (such(n->type) || (n->child != NULL && graph_has(n->child, such)) ||
            conditional_has(n, such))
            return true;
    }
    return false;
}

/* ---- cloning -------------------------------------------------------------------------------------------- */

static struct sim_node *node_copy(const struct sim_node *n, struct sim_graph *into)
{
    struct sim_node *c = node_new(into, n->type, NULL);
    if (c == NULL)
        return NULL;
    c->origin = n->id;
    c->attributes_set = n->attributes_set;
    memcpy(c->attributes, n->attributes, sizeof c->attributes);
    c->memop_flags = n->memop_flags;
    struct work *all = calloc(n->more_count + 1, sizeof *all);
    bool ok = all != NULL;
    if (ok) {
        all[0] = n->work;
        if (n->more_count != 0)
            memcpy(all + 1, n->more, n->more_count * sizeof *all);
        ok = node_fill(c, all, n->more_count + 1) == CUDA_SUCCESS;
    }
    free(all);
    if (ok && n->child != NULL) {
        c->child = graph_copy(n->child);
        ok = c->child != NULL;
        if (ok) {
            c->child->owner = c;
            c->child->inner = n->child->inner;
        }
    }
    return ok ? c : NULL;
}

static struct sim_node *copy_of(const struct sim_graph *clone, uint64_t id)
{
    struct sim_node *n;
    DL_FOREACH (clone->nodes, n) {
        if (n->origin == id)
            return n;
    }
    return NULL;
}

/* Nodes of a clone are in the order of the original's: the k-th is the k-th's copy. */
static bool edges_copy(const struct sim_graph *g, struct sim_graph *clone)
{
    const struct sim_node *n;
    struct sim_node *c = clone->nodes;
    bool ok = true;
    DL_FOREACH (g->nodes, n) {
        for (size_t i = 0; i < n->in.count && ok; i++)
            ok = edge_add(copy_of(clone, n->in.items[i].node->id), c, n->in.items[i].data);
        c = c->next;
    }
    return ok;
}

struct sim_graph *graph_copy(const struct sim_graph *g)
{
    struct graph_object *none = NULL;
    struct sim_graph *clone = graph_new();
    if (clone == NULL)
        return NULL;
    clone->origin = g->id;
    bool ok = true;
    const struct sim_node *n;
    DL_FOREACH (g->nodes, n) {
        ok = ok && node_copy(n, clone) != NULL;
    }
    ok = ok && edges_copy(g, clone);
    clone->objects = graph_objects_copy(g->objects);
    if (!ok)
        graph_free(clone, &none);
    return ok ? clone : NULL;
}

/* ---- the API: graphs ------------------------------------------------------------------------------------ */

SIM_EXPORT CUresult cuGraphCreate(CUgraph *out, unsigned int flags)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&graph_lock);
    struct sim_graph *g = graph_new();
    pthread_mutex_unlock(&graph_lock);
    *out = graph_handle(g);
    return g != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuGraphDestroy(CUgraph handle)
{
    struct graph_object *released = NULL;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&graph_lock);
    struct sim_graph *g = graph_find(handle);
    if (g == NULL || g->owner != NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    else if (g->capturing)
        rc = CUDA_ERROR_ILLEGAL_STATE;
    else
        graph_free(g, &released);
    pthread_mutex_unlock(&graph_lock);
    graph_objects_release(released);
    return rc;
}

SIM_EXPORT CUresult cuGraphClone(CUgraph *out, CUgraph original)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&graph_lock);
    const struct sim_graph *g = graph_find(original);
    bool single = g != NULL && graph_has(g, type_single);
    struct sim_graph *clone = g != NULL && !single ? graph_copy(g) : NULL;
    pthread_mutex_unlock(&graph_lock);
    if (g == NULL || single)
        return g == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    *out = graph_handle(clone);
    return clone != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph handle)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&graph_lock);
    const struct sim_node *n = node_find(original);
    const struct sim_graph *clone = graph_find(handle);
    struct sim_node *c =
        n != NULL && clone != NULL && clone->origin == n->graph->id ? copy_of(clone, n->id) : NULL;
    pthread_mutex_unlock(&graph_lock);
    if (out == NULL || c == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = node_handle(c);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *out)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&graph_lock);
    const struct sim_node *n = node_find(handle);
    if (n != NULL && out != NULL)
        *out = n->type;
    pthread_mutex_unlock(&graph_lock);
    return n != NULL && out != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuGraphDestroyNode(CUgraphNode handle)
{
    struct graph_object *released = NULL;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&graph_lock);
    struct sim_node *n = node_find(handle);
    if (n == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    else if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        rc = CUDA_ERROR_NOT_SUPPORTED; /* graphs with memory nodes keep them */
    else
        node_free(n, &released);
    pthread_mutex_unlock(&graph_lock);
    graph_objects_release(released);
    return rc;
}

/* ---- the API: lists -------------------------------------------------------------------------------------
 * All of them answer the same way: with no array, the count; with one, at most *n entries, NULL for
 * those beyond the last, and *n the number written.
 */
struct list_out {
    CUgraphNode *nodes, *others;
    struct edge_data *data;
    size_t room, count;
};

static void list_put(struct list_out *l, struct sim_node *node, struct sim_node *other,
                     const struct edge_data *data)
{
    if (l->nodes != NULL && l->count < l->room) {
        l->nodes[l->count] = node_handle(node);
        if (l->others != NULL)
            l->others[l->count] = node_handle(other);
        if (l->data != NULL && data != NULL)
            l->data[l->count] = *data;
    }
    l->count++;
}

static CUresult list_end(struct list_out *l, size_t *n)
{
    if (l->nodes != NULL)
        for (size_t i = l->count; i < l->room; i++) {
            l->nodes[i] = NULL;
            if (l->others != NULL)
                l->others[i] = NULL;
        }
    *n = l->nodes != NULL && l->room < l->count ? l->room : l->count;
    return CUDA_SUCCESS;
}

#define ERROR_LOSSY_QUERY ((CUresult)402) /* CUDA_ERROR_LOSSY_QUERY, from 12.3 on */

/* An edge that is more than a full dependency, asked for by a call that cannot say so. */
static bool lossy(const struct edge_data *wanted, const struct edge *e)
{
    static const struct edge_data full;
    return wanted == NULL && memcmp(&e->data, &full, sizeof full) != 0;
}

static CUresult graph_list(CUgraph handle, CUgraphNode *out, size_t *n, bool roots)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (n == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct list_out l = {.nodes = out, .room = *n};
    pthread_mutex_lock(&graph_lock);
    const struct sim_graph *g = graph_find(handle);
    struct sim_node *node;
    if (g != NULL) {
        DL_FOREACH (g->nodes, node) {
            if (!roots || node->in.count == 0)
                list_put(&l, node, NULL, NULL);
        }
    }
    pthread_mutex_unlock(&graph_lock);
    return g != NULL ? list_end(&l, n) : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *out, size_t *n)
{
    return graph_list(g, out, n, false);
}

SIM_EXPORT CUresult cuGraphGetRootNodes(CUgraph g, CUgraphNode *out, size_t *n)
{
    return graph_list(g, out, n, true);
}

static CUresult edge_list(CUgraph handle, struct list_out *l, size_t *n)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (n == NULL || (l->nodes == NULL) != (l->others == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    l->room = *n;
    pthread_mutex_lock(&graph_lock);
    const struct sim_graph *g = graph_find(handle);
    rc = g != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    struct sim_node *to;
    if (g != NULL) {
        DL_FOREACH (g->nodes, to) {
            for (size_t i = 0; i < to->in.count; i++) {
                const struct edge *e = &to->in.items[i];
                if (l->nodes != NULL && lossy(l->data, e))
                    rc = ERROR_LOSSY_QUERY;
                list_put(l, e->node, to, &e->data);
            }
        }
    }
    pthread_mutex_unlock(&graph_lock);
    return rc == CUDA_SUCCESS ? list_end(l, n) : rc;
}

static CUresult neighbour_list(CUgraphNode handle, bool in, struct list_out *l, size_t *n)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (n == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    l->room = *n;
    pthread_mutex_lock(&graph_lock);
    const struct sim_node *node = node_find(handle);
    rc = node != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    const struct edges *edges = node != NULL ? (in ? &node->in : &node->out) : NULL;
    for (size_t i = 0; edges != NULL && i < edges->count; i++) {
        if (l->nodes != NULL && lossy(l->data, &edges->items[i]))
            rc = ERROR_LOSSY_QUERY;
        list_put(l, edges->items[i].node, NULL, &edges->items[i].data);
    }
    pthread_mutex_unlock(&graph_lock);
    return rc == CUDA_SUCCESS ? list_end(l, n) : rc;
}

SIM_EXPORT CUresult cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
    return edge_list(g, &(struct list_out){.nodes = from, .others = to}, n);
}

SIM_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out, size_t *n)
{
    return neighbour_list(node, true, &(struct list_out){.nodes = out}, n);
}

SIM_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *out, size_t *n)
{
    return neighbour_list(node, false, &(struct list_out){.nodes = out}, n);
}

/* ---- the API: edges ------------------------------------------------------------------------------------- */

/* Under lock. Stops at the first bad pair, with those before it done. */
static CUresult edges_change(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                             const struct edge_data *data, size_t n, bool add)
{
    const struct sim_graph *g = graph_find(handle);
    for (size_t i = 0; i < n; i++) {
        struct sim_node *a = node_find(from[i]), *b = node_find(to[i]);
        if (g == NULL || a == NULL || b == NULL || a->graph != g || b->graph != g)
            return CUDA_ERROR_INVALID_VALUE;
        bool there = edges_find(&b->in, a) != NULL;
        if (there == add || (add && node_reaches(b, a)))
            return CUDA_ERROR_INVALID_VALUE;
        if (!add)
            edge_remove(a, b);
        else if (!edge_add(a, b, data != NULL ? data[i] : (struct edge_data){{0}}))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return g != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult edges_api(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                          const struct edge_data *data, size_t n, bool add)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (n != 0 && (from == NULL || to == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&graph_lock);
    rc = edges_change(g, from, to, data, n, add);
    pthread_mutex_unlock(&graph_lock);
    return rc;
}

SIM_EXPORT CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from,
                                           const CUgraphNode *to, size_t n)
{
    return edges_api(g, from, to, NULL, n, true);
}

SIM_EXPORT CUresult cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from,
                                              const CUgraphNode *to, size_t n)
{
    return edges_api(g, from, to, NULL, n, false);
}

#if CUDA_VERSION >= 12030
_Static_assert(sizeof(struct edge_data) == sizeof(CUgraphEdgeData), "the same eight bytes");
#define DATA(p)       ((struct edge_data *)(void *)(p))
#define CONST_DATA(p) ((const struct edge_data *)(const void *)(p))

SIM_EXPORT CUresult cuGraphGetEdges_v2(CUgraph g, CUgraphNode *from, CUgraphNode *to,
                                       CUgraphEdgeData *data, size_t *n)
{
    return edge_list(g, &(struct list_out){.nodes = from, .others = to, .data = DATA(data)}, n);
}

SIM_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *out,
                                                  CUgraphEdgeData *data, size_t *n)
{
    return neighbour_list(node, true, &(struct list_out){.nodes = out, .data = DATA(data)}, n);
}

SIM_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *out,
                                                    CUgraphEdgeData *data, size_t *n)
{
    return neighbour_list(node, false, &(struct list_out){.nodes = out, .data = DATA(data)}, n);
}

SIM_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph g, const CUgraphNode *from,
                                              const CUgraphNode *to, const CUgraphEdgeData *data,
                                              size_t n)
{
    return edges_api(g, from, to, CONST_DATA(data), n, true);
}

SIM_EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph g, const CUgraphNode *from,
                                                 const CUgraphNode *to, const CUgraphEdgeData *data,
                                                 size_t n)
{
    return edges_api(g, from, to, CONST_DATA(data), n, false);
}
#endif

/* ---- the API: a picture --------------------------------------------------------------------------------- */

static void dot_graph(FILE *f, const struct sim_graph *g, int depth)
{
    const struct sim_node *n;
    DL_FOREACH (g->nodes, n) {
        fprintf(f, "%*s\"%llu\" [label=\"%s\"];\n", depth * 2, "", (unsigned long long)n->id,
                n->work.name != NULL ? n->work.name
                : n->child != NULL   ? "graph"
                                     : "empty");
        for (size_t i = 0; i < n->in.count; i++)
            fprintf(f, "%*s\"%llu\" -> \"%llu\";\n", depth * 2, "",
                    (unsigned long long)n->in.items[i].node->id, (unsigned long long)n->id);
        if (n->child == NULL)
            continue;
        fprintf(f, "%*ssubgraph \"cluster_%llu\" {\n", depth * 2, "", (unsigned long long)n->id);
        dot_graph(f, n->child, depth + 1);
        fprintf(f, "%*s}\n", depth * 2, "");
    }
}

SIM_EXPORT CUresult cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned int flags)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    FILE *f = path != NULL ? fopen(path, "we") : NULL;
    if (f == NULL)
        return path != NULL ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&graph_lock);
    const struct sim_graph *g = graph_find(handle);
    if (g != NULL) {
        fprintf(f, "digraph dot {\n");
        dot_graph(f, g, 1);
        fprintf(f, "}\n");
    }
    pthread_mutex_unlock(&graph_lock);
    return fclose(f) == 0 && g != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
