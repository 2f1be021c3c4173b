/*
 * graph.c - graphs and nodes: made, cloned, destroyed. Edges are in edge.c, lists in graph_list.c.
 */
#include "tools/simgpu/graph/conditional.h"
#include "tools/simgpu/graph/graph.h"
#include "tools/simgpu/program/module.h"

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

/* ---- copies of works ------------------------------------------------------------------------- */

static bool work_keep(struct work *dst, const struct work *src)
{
    *dst = *src;
    dst->blob = NULL;
    if (src->blob_bytes != 0) {
        dst->blob = malloc(src->blob_bytes);
        if (!dst->blob)
            return false;
        memcpy(dst->blob, src->blob, src->blob_bytes);
    }
    if (dst->retain)
        dst->retain(dst);
    return true;
}

struct work *works_copy(const struct work *works, size_t count)
{
    struct parts p = {count ? calloc(count, sizeof(*works)) : NULL, 0};
    for (; p.works && p.count < count; p.count++)
        if (!work_keep(&p.works[p.count], &works[p.count]))
            parts_free(&p);
    return p.works;
}

void parts_free(struct parts *p)
{
    for (size_t i = 0; p->works && i < p->count; i++) {
        if (p->works[i].drop)
            p->works[i].drop(&p->works[i]);
        free(p->works[i].blob);
    }
    free(p->works);
    *p = (struct parts){NULL, 0};
}

/* ---- life ------------------------------------------------------------------------------------ */

struct sim_graph *graph_new(void)
{
    struct sim_graph *g = handle_take_zero(&graphs);
    if (!g)
        return NULL;
    g->id = graph_next_id();
    handle_publish(g);
    return g;
}

static void node_empty(struct sim_node *n)
{
    parts_free(&(struct parts){n->works, n->count});
    free(n->memops);
    free(n->params);
    n->works = NULL;
    n->memops = NULL;
    n->params = NULL;
    n->count = 0;
}

struct sim_node *node_new(struct sim_graph *g, CUgraphNodeType type, const struct work *works,
                          size_t count)
{
    struct sim_node *n = handle_take_zero(&nodes);
    if (!n)
        return NULL;
    n->id = graph_next_id();
    n->graph = g;
    n->type = type;
    if (node_fill(n, &(struct parts){works_copy(works, count), count}) != CUDA_SUCCESS) {
        node_empty(n);
        handle_give(&nodes, n);
        return NULL;
    }
    DL_APPEND(g->nodes, n);
    g->count++;
    handle_publish(n);
    return n;
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
    conditions_detach(g);
    if (handle_retire(g))
        handle_give(&graphs, g);
}

CUresult node_fill(struct sim_node *n, struct parts *p)
{
    if (p->count && !p->works)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node_empty(n);
    n->works = p->works;
    n->count = p->count;
    *p = (struct parts){NULL, 0};
    /* The arrays to which queries of the node point. */
    if (n->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
        n->memops = calloc(n->count + 1, sizeof(*n->memops));
        for (size_t i = 0; n->memops && i < n->count; i++)
            memcpy(&n->memops[i], n->works[i].blob, sizeof(*n->memops));
        return n->memops ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (n->type != CU_GRAPH_NODE_TYPE_KERNEL || n->count == 0)
        return CUDA_SUCCESS;
    const struct sim_function *f = n->works[0].func;
    size_t count = f->entry->param_count;
    n->params = calloc(count + 1, sizeof(*n->params));
    for (size_t i = 0; n->params && i < count; i++)
        n->params[i] = (char *)n->works[0].blob + function_param(f, i)->offset;
    return n->params ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool type_uncopyable(CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
           type == TYPE_CONDITIONAL;
}

bool graph_inside(const struct sim_graph *g, const struct sim_graph *of)
{
    while (g != of && g->owner)
        g = g->owner->graph;
    return g == of;
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

static bool node_copy(const struct sim_node *n, struct sim_graph *into)
{
    struct sim_node *c = node_new(into, n->type, n->works, n->count);
    if (!c)
        return false;
    c->origin = n->id;
    memcpy(c->attributes, n->attributes, sizeof(c->attributes));
    if (!n->child)
        return true;
    c->child = graph_copy(n->child);
    if (!c->child)
        return false;
    c->child->owner = c;
    c->child->inner = n->child->inner;
    return true;
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

/* The nodes of a clone have the order of the original: the k-th is the copy of the k-th. */
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
    struct sim_graph *g = graph_new();
    *out = graph_handle(g);
    return g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuGraphDestroy(CUgraph handle)
{
    RELEASED(released);
    TRY(driver_ready());
    SCOPED_LOCK(&graph_lock);
    struct sim_graph *g = graph_find(handle);
    if (!g || g->owner)
        return CUDA_ERROR_INVALID_VALUE;
    if (g->capturing)
        return CUDA_ERROR_ILLEGAL_STATE;
    graph_free(g, &released);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphClone(CUgraph *out, CUgraph original)
{
    TRY(driver_ready());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&graph_lock);
    const struct sim_graph *g = graph_find(original);
    if (!g || graph_has(g, type_uncopyable))
        return !g ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    struct sim_graph *clone = graph_copy(g);
    *out = graph_handle(clone);
    return clone ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph handle)
{
    TRY(driver_ready());
    SCOPED_LOCK(&graph_lock);
    const struct sim_node *n = node_find(original);
    const struct sim_graph *clone = graph_find(handle);
    struct sim_node *c = n && clone && clone->origin == n->graph->id ? copy_of(clone, n->id) : NULL;
    if (!out || !c)
        return CUDA_ERROR_INVALID_VALUE;
    *out = node_handle(c);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphDestroyNode(CUgraphNode handle)
{
    RELEASED(released);
    TRY(driver_ready());
    SCOPED_LOCK(&graph_lock);
    struct sim_node *n = node_find(handle);
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return CUDA_ERROR_NOT_SUPPORTED; /* a graph keeps its memory nodes */
    node_free(n, &released);
    return CUDA_SUCCESS;
}
