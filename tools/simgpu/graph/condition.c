/*
 * condition.c - condition variables: made for a graph, set by kernels.
 */
#include "tools/simgpu/graph/condition.h"
#include "tools/simgpu/graph/conditional.h"

#include <utlist.h>

static struct handle_pool conditions = HANDLE_POOL(struct condition, 1 << 16);

struct condition *condition_find(uint64_t handle)
{
    return handle_find(&conditions, (const void *)(uintptr_t)handle);
}

void condition_hold(struct condition *c)
{
    atomic_fetch_add(&c->holders, 1);
}

void condition_put(struct condition *c)
{
    if (atomic_fetch_sub(&c->holders, 1) == 1 && handle_retire(c))
        handle_give(&conditions, c);
}

/* A real kernel that names what no graph has faults like this. */
CUresult condition_set(uint64_t handle, uint32_t value, CUcontext ctx)
{
    struct condition *c = condition_find(handle);
    if (c == NULL || context_base(c->ctx) != context_base((const void *)ctx))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    atomic_store(&c->value, value);
    atomic_fetch_add(&c->sets, 1);
    return CUDA_SUCCESS;
}

void conditions_leave(struct sim_graph *g)
{
    struct condition *c, *next;
    LL_FOREACH_SAFE(g->conditions, c, next)
    {
        c->graph = NULL;
        condition_put(c);
    }
    g->conditions = NULL;
}

#if CUDA_VERSION >= 12030
/* Under graph_lock. */
static struct condition *condition_new(struct sim_graph *g, struct sim_context *ctx,
                                       uint32_t initial, bool assigns)
{
    struct condition *c = handle_take(&conditions);
    if (c == NULL)
        return NULL;
    memset((char *)c + sizeof c->handle, 0, sizeof *c - sizeof c->handle);
    atomic_store(&c->holders, 1);
    atomic_store(&c->value, initial);
    c->graph = g;
    c->ctx = ctx;
    c->initial = initial;
    c->assigns = assigns;
    LL_PREPEND(g->conditions, c);
    handle_publish(c);
    return c;
}

SIM_EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph graph,
                                                   CUcontext context, unsigned int initial,
                                                   unsigned int flags)
{
    struct sim_context *ctx = context_find(context);
    CUresult rc = driver_ready();
    if (rc == CUDA_SUCCESS && context == NULL)
        rc = context_current(&ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL || ctx == NULL || (flags & ~(unsigned int)CU_GRAPH_COND_ASSIGN_DEFAULT) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&graph_lock);
    struct sim_graph *g = graph_find(graph);
    struct condition *c =
        g != NULL ? condition_new(g, ctx, initial, flags == CU_GRAPH_COND_ASSIGN_DEFAULT) : NULL;
    pthread_mutex_unlock(&graph_lock);
    if (c == NULL)
        return g == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    *out = (uintptr_t)c;
    return CUDA_SUCCESS;
}
#endif
