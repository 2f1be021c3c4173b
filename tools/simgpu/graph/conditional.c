/*
 * conditional.c - conditional nodes in graphs: the graphs inside them, which nodes those may have,
 * and the conditions for which graphs have handles.
 */
#include "tools/simgpu/graph/conditional.h"
#include "tools/simgpu/program/condition.h"

#include <utlist.h>

/* By what CUDA_CONDITIONAL_NODE_PARAMS says about graphs inside. */
bool type_barred_inside(CUgraphNodeType type)
{
    switch ((int)type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case TYPE_CONDITIONAL:
        return false;
    default:
        return true;
    }
}

bool conditional_allows(const struct sim_graph *g, CUgraphNodeType type)
{
    for (; g->owner; g = g->owner->graph) {
        bool inside = g->owner->type == TYPE_CONDITIONAL;
        if (inside ? type_barred_inside(type) : type == TYPE_CONDITIONAL)
            return false; /* a child graph has no conditions, either */
    }
    return true;
}

static struct sim_graph *body_of(const struct conditional *c, unsigned int i)
{
    return graph_find(c->handles[i]);
}

bool conditional_has(const struct sim_node *n, bool (*such)(CUgraphNodeType type))
{
    const struct conditional *c = n->conditional;
    bool has = false;
    for (unsigned int i = 0; c && i < c->size && !has; i++)
        has = graph_has(body_of(c, i), such);
    return has;
}

bool conditions_unused(const struct sim_graph *g)
{
    const struct condition *c;
    const struct sim_node *n;
    LL_FOREACH (g->conditions, c) {
        if (!c->node)
            return true;
    }
    DL_FOREACH (g->nodes, n) {
        for (unsigned int i = 0; n->conditional && i < n->conditional->size; i++)
            if (conditions_unused(body_of(n->conditional, i)))
                return true;
    }
    return false;
}

void conditions_detach(struct sim_graph *g)
{
    struct condition *c, *next;
    LL_FOREACH_SAFE(g->conditions, c, next)
    {
        c->graph = NULL;
        condition_put(c);
    }
    g->conditions = NULL;
}

void conditional_free(struct sim_node *n, struct graph_object **released)
{
    struct conditional *c = n->conditional;
    if (!c)
        return;
    for (unsigned int i = 0; i < c->size; i++)
        if (c->handles[i])
            graph_free(body_of(c, i), released);
    c->condition->node = NULL;
    condition_put(c->condition);
    free(c->handles);
    free(c);
    n->conditional = NULL;
}

#if CUDA_VERSION >= 12030
CUresult conditional_make(struct sim_node *n, CUDA_CONDITIONAL_NODE_PARAMS *p)
{
    struct condition *condition = condition_find(p->handle);
    int type = (int)p->type;
    bool fits = type == CONDITION_IF      ? p->size == 1 || p->size == 2
                : type == CONDITION_WHILE ? p->size == 1
                                          : type == CONDITION_SWITCH && p->size > 0;
    /* It must be a condition of the node's graph or of one around that, and of no other node. */
    if (!condition || condition->node || !graph_inside(n->graph, condition->graph) || !fits ||
        (p->ctx && context_find(p->ctx) != condition->ctx))
        return CUDA_ERROR_INVALID_VALUE;
    struct conditional *c = calloc(1, sizeof(*c));
    CUgraph *handles = calloc(p->size, sizeof(CUgraph));
    if (!c || !handles) {
        free(c);
        free(handles);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *c = (struct conditional){condition, type, p->size, handles};
    condition_get(condition);
    condition->node = n;
    n->conditional = c;
    p->phGraph_out = handles;
    for (unsigned int i = 0; i < c->size; i++) {
        struct sim_graph *body = graph_new();
        if (!body)
            return CUDA_ERROR_OUT_OF_MEMORY;
        body->owner = n;
        body->inner = true;
        handles[i] = graph_handle(body);
    }
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph graph,
                                                   CUcontext context, unsigned int initial,
                                                   unsigned int flags)
{
    struct sim_context *ctx = context_find(context);
    TRY(context ? driver_ready() : context_current(&ctx));
    if (!out || !ctx || (flags & ~(unsigned int)CU_GRAPH_COND_ASSIGN_DEFAULT) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&graph_lock);
    struct sim_graph *g = graph_find(graph);
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    struct condition *c = condition_make(ctx, initial, flags == CU_GRAPH_COND_ASSIGN_DEFAULT);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->graph = g;
    LL_PREPEND(g->conditions, c);
    *out = (uintptr_t)c;
    return CUDA_SUCCESS;
}
#endif
