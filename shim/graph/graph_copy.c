/* graph_copy.c - see graph_copy.h. */
#include "shim/graph/graph_copy.h"

#include <stdlib.h>

#include "shim/path/call.h"
#include "shim/pace/gates.h"

_Atomic bool graph_objects_seen;

struct place {
    CUgraphNode app, own; /* the application's node, and that of the clone */
    CUgraphNode gate;     /* the gate in front of it; NULL: none */
    uint32_t inside;      /* number of nodes of the graph in it, which follow */
};

struct graph_copy {
    struct shim_context *ctx;
    uint64_t generation;
    CUgraph graph;      /* from which `exec` was made: changes of `exec` name its nodes */
    CUgraphExec exec;   /* NULL: it could not follow the application's graph */
    CUdeviceptr word;   /* for which the gates wait */
    CUevent last;       /* recorded behind the latest launch, of either graph */
    CUgraphExec latest; /* the graph of the latest launch */
    uint32_t gates, count;
    uint32_t found; /* where the next search begins: nodes are mostly changed in order */
    struct place place[];
};

/* ---- making one ------------------------------------------------------------------------------ */

static CUDA_BATCH_MEM_OP_NODE_PARAMS gate_params(const struct graph_copy *c,
                                                 CUstreamBatchMemOpParams *wait)
{
    *wait = (CUstreamBatchMemOpParams){.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                                     .address = c->word,
                                                     .value = 0,
                                                     .flags = CU_STREAM_WAIT_VALUE_EQ}};
    return (CUDA_BATCH_MEM_OP_NODE_PARAMS){.ctx = c->ctx->handle, .count = 1, .paramArray = wait};
}

/* The gate depends on what the node depended on, and the node on the gate alone. */
static CUresult gate_insert(const struct graph_copy *c, CUgraph graph, CUgraphNode node,
                            CUgraphNode *gate)
{
    size_t count = 0;
    CUstreamBatchMemOpParams wait;
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = gate_params(c, &wait);
    CUresult r = REAL(cuGraphNodeGetDependencies)(node, NULL, &count);
    CUgraphNode *before = calloc(count + 1, sizeof(CUgraphNode));
    if (r == CUDA_SUCCESS && !before)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && count)
        r = REAL(cuGraphNodeGetDependencies)(node, before, &count);
    if (r == CUDA_SUCCESS)
        r = REAL(cuGraphAddBatchMemOpNode)(gate, graph, before, count, &p);
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++)
        r = REAL(cuGraphRemoveDependencies)(graph, &before[i], &node, 1);
    if (r == CUDA_SUCCESS)
        r = REAL(cuGraphAddDependencies)(graph, gate, &node, 1);
    free(before);
    return r;
}

/* `graph` is a clone of the graph with the nodes [first, end). `place`: where its nodes and gates
 * are kept, or NULL. */
static CUresult gates_insert(const struct graph_copy *c, const struct graph_nodes *n,
                             struct place *place, CUgraph graph, uint32_t first, uint32_t end)
{
    CUresult r = CUDA_SUCCESS;
    for (uint32_t at = first; at < end && r == CUDA_SUCCESS; at += 1 + n->node[at].inside) {
        const struct graph_node *node = &n->node[at];
        struct place unkept, *to = place ? &place[at] : &unkept;
        CUgraph inner;
        r = REAL(cuGraphNodeFindInClone)(&to->own, node->handle, graph);
        if (r == CUDA_SUCCESS && node->gate)
            r = gate_insert(c, graph, to->own, &to->gate);
        if (r != CUDA_SUCCESS || !node->child)
            continue;
        r = REAL(cuGraphChildGraphNodeGetGraph)(to->own, &inner);
        if (r == CUDA_SUCCESS)
            r = gates_insert(c, n, place, inner, at + 1, at + 1 + node->inside);
    }
    return r;
}

/* NULL: it cannot be made. */
static CUgraph clone_with_gates(const struct graph_copy *c, const struct graph_nodes *n,
                                struct place *place, CUgraph graph)
{
    CUgraph clone;
    if (REAL(cuGraphClone)(&clone, graph) != CUDA_SUCCESS)
        return NULL;
    if (gates_insert(c, n, place, clone, 0, n->count) == CUDA_SUCCESS)
        return clone;
    REAL(cuGraphDestroy)(clone);
    return NULL;
}

struct graph_copy *graph_copy_new(struct shim_context *ctx, CUgraph graph, struct graph_nodes *n,
                                  unsigned long long flags)
{
    const unsigned long long device_launch = 4; /* CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH */
    const unsigned long long upload = 2;        /* _UPLOAD: it would need a stream */
    uint64_t spacing_ns = gates_graph_spacing_ns(ctx);
    if (!spacing_ns || n->est_ns + n->unknown * spacing_ns <= spacing_ns)
        return NULL;
    bool can = n->copyable && !(flags & device_launch) &&
               graph_nodes_place_gates(n, graph, spacing_ns) == 0;
    if (can && !n->gates)
        return NULL;
    struct graph_copy *c = can ? calloc(1, sizeof(*c) + n->count * sizeof(*c->place)) : NULL;
    bool made = false;
    if (c) {
        *c = (struct graph_copy){.ctx = ctx,
                                 .generation = ctx->generation,
                                 .word = gates_word_initial(ctx),
                                 .gates = n->gates,
                                 .count = n->count};
        for (uint32_t i = 0; i < n->count; i++)
            c->place[i] = (struct place){.app = n->node[i].handle, .inside = n->node[i].inside};
        struct context_scope scope = context_push(ctx);
        c->graph = c->word ? clone_with_gates(c, n, c->place, graph) : NULL;
        made =
            c->graph && REAL(cuEventCreate)(&c->last, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
            REAL(cuGraphInstantiateWithFlags)(&c->exec, c->graph, flags & ~upload) == CUDA_SUCCESS;
        context_pop(scope);
    }
    if (made)
        return c;
    graph_copy_free(c);
    counters_ungated_graph(ctx);
    return NULL;
}

/* What belongs to a context that has ended went with it. */
static void copy_destroy(struct graph_copy *c)
{
    if (c->exec && context_lives(c->ctx, c->generation))
        REAL(cuGraphExecDestroy)(c->exec);
    if (c->graph)
        REAL(cuGraphDestroy)(c->graph);
    c->exec = NULL;
    c->graph = NULL;
}

void graph_copy_free(struct graph_copy *c)
{
    if (!c)
        return;
    copy_destroy(c);
    if (c->last && context_lives(c->ctx, c->generation))
        REAL(cuEventDestroy_v2)(c->last);
    free(c);
}

/* ---- launching ------------------------------------------------------------------------------- */

static void copy_drop(struct graph_copy *c)
{
    copy_destroy(c);
    counters_ungated_graph(c->ctx);
}

void graph_copy_changed(struct graph_copy *c, CUresult r)
{
    if (r != CUDA_SUCCESS)
        copy_drop(c);
}

CUgraphExec graph_copy_choose(struct graph_copy *c, CUgraphExec handle, struct shim_context *ctx,
                              uint32_t level)
{
    if (!c->exec || ctx != c->ctx || ctx->generation != c->generation)
        return handle;
    CUdeviceptr word = gates_word_if_usable(ctx, level);
    if (word && word != c->word) {
        /* Another page has come with another hold word. Launches under way keep the old address. */
        CUresult r = CUDA_SUCCESS;
        CUstreamBatchMemOpParams wait;
        c->word = word;
        CUDA_BATCH_MEM_OP_NODE_PARAMS p = gate_params(c, &wait);
        for (uint32_t i = 0; i < c->count && r == CUDA_SUCCESS; i++)
            if (c->place[i].gate)
                r = REAL(cuGraphExecBatchMemOpNodeSetParams)(c->exec, c->place[i].gate, &p);
        graph_copy_changed(c, r);
    }
    return word && c->exec ? c->exec : handle;
}

CUresult graph_copy_before(struct graph_copy *c, CUgraphExec chosen, CUstream stream)
{
    if (!c->latest || c->latest == chosen)
        return CUDA_SUCCESS;
    return REAL(cuStreamWaitEvent)(stream, c->last, 0);
}

void graph_copy_after(struct graph_copy *c, CUgraphExec chosen, CUstream stream)
{
    if (chosen == c->exec)
        atomic_fetch_add_explicit(&c->ctx->graph_gates, c->gates, memory_order_relaxed);
    if (REAL(cuEventRecord)(c->last, stream) == CUDA_SUCCESS)
        c->latest = chosen;
    else if (c->exec) /* in another context: without the copy the driver orders all launches */
        copy_drop(c);
}

/* ---- following changes ----------------------------------------------------------------------- */

static struct place *place_of(struct graph_copy *c, CUgraphNode node)
{
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t at = (c->found + i) % c->count;
        if (c->place[at].app != node)
            continue;
        c->found = at + 1;
        return &c->place[at];
    }
    return NULL;
}

bool graph_copy_find(struct graph_copy *c, CUgraphExec *exec, CUgraphNode *node)
{
    const struct place *p = c->exec ? place_of(c, *node) : NULL;
    if (c->exec && !p)
        copy_drop(c);
    if (!c->exec)
        return false;
    *exec = c->exec;
    *node = p->own;
    return true;
}

/* Clones `graph`, and adds gates where the `count` nodes from `place` on have them. NULL: it has
 * another shape, or it cannot be cloned. */
static CUgraph clone_alike(struct graph_copy *c, const struct place *place, uint32_t count,
                           CUgraph graph)
{
    struct graph_nodes n;
    bool alike = graph_nodes_read(&n, graph, c->ctx) == 0 && n.copyable && n.count == count;
    for (uint32_t i = 0; alike && i < count; i++) {
        alike = n.node[i].inside == place[i].inside;
        n.node[i].gate = place[i].gate;
    }
    CUgraph clone = alike ? clone_with_gates(c, &n, NULL, graph) : NULL;
    free(n.node);
    return clone;
}

void graph_copy_replace(struct graph_copy *c, CUgraphNode node, CUgraph graph)
{
    if (!c->exec)
        return;
    /* The driver gives back the objects of the old graph. The clone would keep them, and it has to
     * stay, because its nodes name those of the copy. */
    bool keeps = atomic_load(&graph_objects_seen) && !MUTANT(graph_objects_kept);
    const struct place *p = node && !keeps ? place_of(c, node) : NULL;
    if (keeps || (node && !p)) {
        copy_drop(c);
        return;
    }
    struct context_scope scope = context_push(c->ctx);
    CUgraphExecUpdateResultInfo info;
    CUgraph clone =
        p ? clone_alike(c, p + 1, p->inside, graph) : clone_alike(c, c->place, c->count, graph);
    CUresult r = !clone ? CUDA_ERROR_NOT_SUPPORTED
                 : p    ? REAL(cuGraphExecChildGraphNodeSetParams)(c->exec, p->own, clone)
                        : REAL(cuGraphExecUpdate_v2)(c->exec, clone, &info);
    graph_copy_changed(c, r);
    if (clone)
        REAL(cuGraphDestroy)(clone);
    context_pop(scope);
}
