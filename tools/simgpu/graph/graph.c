/*
 * graph.c - graphs and nodes: made, cloned, destroyed. Edges are in edge.c, lists in graph_list.c.
 */
#include "tools/simgpu/graph/conditional.h"
#include "tools/simgpu/graph/graph.h"
#include "tools/simgpu/program/module.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

pthread_mutex_t graph_lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle_pool graphs = HANDLE_POOL(struct sim_graph, 1 << 18);
static struct handle_pool nodes = HANDLE_POOL(struct sim_node, 1 << 20);
static _Atomic uint64_t next_id = 1;

uint64_t graph_next_id(void)
{
    return atomic_fetch_add(&next_id, 1);
}

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
    memset((char *)(object) + sizeof(struct handle), 0, sizeof(*(object)) - sizeof(struct handle))

/* ---- works of one's own ---------------------------------------------------------------------- */

bool work_keep(struct work *dst, const struct work *src)
{
    *dst = *src;
    dst->blob = NULL;
    if (src->blob_bytes != 0) {
        dst->blob = malloc(src->blob_bytes);
        if (!dst->blob)
            return false;
        memcpy(dst->blob, src->blob, src->blob_bytes);
    }
    if (dst->hold)
        dst->hold(dst);
    return true;
}

void work_discard(struct work *w)
{
    if (w->drop)
        w->drop(w);
    free(w->blob);
    memset(w, 0, sizeof(*w));
}

/* ---- life ------------------------------------------------------------------------------------ */

struct sim_graph *graph_new(void)
{
    struct sim_graph *g = handle_take(&graphs);
    if (!g)
        return NULL;
    CLEAR(g);
    g->id = graph_next_id();
    handle_publish(g);
    return g;
}

struct sim_node *node_new(struct sim_graph *g, CUgraphNodeType type, const struct work *w)
{
    struct sim_node *n = handle_take(&nodes);
    if (!n)
        return NULL;
    CLEAR(n);
    n->id = graph_next_id();
    n->graph = g;
    n->type = type;
    if (w && node_fill(n, w, 1) != CUDA_SUCCESS) {
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
    if (n->child)
        graph_free(n->child, released);
    conditional_free(n, released);
    if (handle_retire(n))
        handle_give(&nodes, n);
}

void graph_free(struct sim_graph *g, struct graph_object **released)
{
    while (g->nodes)
        node_free(g->nodes, released);
    LL_CONCAT(*released, g->objects);
    g->objects = NULL;
    conditions_leave(g);
    if (handle_retire(g))
        handle_give(&graphs, g);
}

/* Keeps `count` works of a batch (1 for everything but memops) in place of what the node did
 * before. */
CUresult node_fill(struct sim_node *n, const struct work *w, size_t count)
{
    struct work first, *more = NULL;
    if (count > 1 && !(more = calloc(count - 1, sizeof(*more))))
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool kept = work_keep(&first, w);
    size_t done = 0;
    while (kept && done + 1 < count && (kept = work_keep(&more[done], &w[done + 1])))
        done++;
    CUstreamBatchMemOpParams *memops = NULL;
    if (kept && n->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
        memops = calloc(count, sizeof(*memops));
        kept = memops;
        for (size_t i = 0; kept && i < count; i++)
            memcpy(&memops[i], w[i].blob, sizeof(*memops));
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
    size_t count = f->entry->param_count;
    n->params = calloc(count + 1, sizeof(*n->params));
    for (size_t i = 0; n->params && i < count; i++)
        n->params[i] = (char *)n->work.blob + function_param(f, i)->offset;
    return n->params;
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
        if (such(n->type) || (n->child && graph_has(n->child, such)) || conditional_has(n, such))
            return true;
    }
    return false;
}

/* ---- cloning --------------------------------------------------------------------------------- */

static struct sim_node *node_copy(const struct sim_node *n, struct sim_graph *into)
{
    struct sim_node *c = node_new(into, n->type, NULL);
    if (!c)
        return NULL;
    c->origin = n->id;
    c->attributes_set = n->attributes_set;
    memcpy(c->attributes, n->attributes, sizeof(c->attributes));
    c->memop_flags = n->memop_flags;
    struct work *all = calloc(n->more_count + 1, sizeof(*all));
    bool ok = all;
    if (ok) {
        all[0] = n->work;
        if (n->more_count != 0)
            memcpy(all + 1, n->more, n->more_count * sizeof(*all));
        ok = node_fill(c, all, n->more_count + 1) == CUDA_SUCCESS;
    }
    free(all);
    if (ok && n->child) {
        c->child = graph_copy(n->child);
        ok = c->child;
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
    if (!clone)
        return NULL;
    clone->origin = g->id;
    bool ok = true;
    const struct sim_node *n;
    DL_FOREACH (g->nodes, n) {
        ok = ok && node_copy(n, clone);
    }
    ok = ok && edges_copy(g, clone);
    clone->objects = graph_objects_copy(g->objects);
    if (!ok)
        graph_free(clone, &none);
    return ok ? clone : NULL;
}

/* ---- the API: graphs ------------------------------------------------------------------------- */

SIM_EXPORT CUresult cuGraphCreate(CUgraph *out, unsigned int flags)
{
    TRY(driver_ready());
    if (!out || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&graph_lock);
    struct sim_graph *g = graph_new();
    pthread_mutex_unlock(&graph_lock);
    *out = graph_handle(g);
    return g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuGraphDestroy(CUgraph handle)
{
    struct graph_object *released = NULL;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&graph_lock);
    struct sim_graph *g = graph_find(handle);
    if (!g || g->owner)
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
    TRY(driver_ready());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&graph_lock);
    const struct sim_graph *g = graph_find(original);
    bool single = g && graph_has(g, type_single);
    struct sim_graph *clone = g && !single ? graph_copy(g) : NULL;
    pthread_mutex_unlock(&graph_lock);
    if (!g || single)
        return !g ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    *out = graph_handle(clone);
    return clone ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph handle)
{
    TRY(driver_ready());
    pthread_mutex_lock(&graph_lock);
    const struct sim_node *n = node_find(original);
    const struct sim_graph *clone = graph_find(handle);
    struct sim_node *c = n && clone && clone->origin == n->graph->id ? copy_of(clone, n->id) : NULL;
    pthread_mutex_unlock(&graph_lock);
    if (!out || !c)
        return CUDA_ERROR_INVALID_VALUE;
    *out = node_handle(c);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphDestroyNode(CUgraphNode handle)
{
    struct graph_object *released = NULL;
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&graph_lock);
    struct sim_node *n = node_find(handle);
    if (!n)
        rc = CUDA_ERROR_INVALID_VALUE;
    else if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        rc = CUDA_ERROR_NOT_SUPPORTED; /* graphs with memory nodes keep them */
    else
        node_free(n, &released);
    pthread_mutex_unlock(&graph_lock);
    graph_objects_release(released);
    return rc;
}
