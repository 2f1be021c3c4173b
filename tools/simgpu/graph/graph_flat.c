/*
 * graph_flat.c - turns a graph into an array in launch order. A child graph lies between its own
 * node and an empty joint. Every node gets a lane.
 */
#include "tools/simgpu/graph/exec.h"

#include <utlist.h>

struct flat {
    struct exec_node *nodes;
    size_t count;
};

void exec_nodes_free(struct exec_node *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        parts_free(&(struct parts){nodes[i].works, nodes[i].count});
        free(nodes[i].after);
    }
    free(nodes);
}

static struct exec_node *flat_push(struct flat *f)
{
    struct exec_node *nodes = array_grow(f->nodes, f->count, sizeof(*nodes));
    if (!nodes)
        return NULL;
    f->nodes = nodes;
    nodes[f->count] = (struct exec_node){.id = 0};
    return &nodes[f->count++];
}

static CUresult flat_graph(struct flat *f, const struct sim_graph *g, size_t enter);

/* Adds the joint behind a child graph: after every node of the child that no other one follows. */
static CUresult flat_exit(struct flat *f, const struct sim_graph *child, size_t enter)
{
    struct exec_node *x = flat_push(f);
    size_t leaves = 0;
    if (!x)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct sim_node *c;
    DL_FOREACH (child->nodes, c) {
        leaves += c->out.count == 0;
    }
    x->after = calloc(leaves + 1, sizeof(*x->after));
    if (!x->after)
        return CUDA_ERROR_OUT_OF_MEMORY;
    DL_FOREACH (child->nodes, c) {
        if (c->out.count == 0)
            x->after[x->after_count++] = c->exit;
    }
    if (leaves == 0)
        x->after[x->after_count++] = enter;
    return CUDA_SUCCESS;
}

/* The node depends on the exits of those that it depends on in the graph. A root depends on `enter`
 * (SIZE_MAX: nothing). */
static CUresult flat_node(struct flat *f, struct sim_node *n, size_t enter)
{
    struct exec_node *x = flat_push(f);
    if (!x)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n->entry = n->exit = f->count - 1;
    x->id = n->id;
    x->node = n;
    x->type = n->type;
    x->works = works_copy(n->works, n->count);
    x->count = x->works ? n->count : 0;
    size_t count = n->in.count != 0 ? n->in.count : enter != SIZE_MAX;
    x->after = count ? calloc(count, sizeof(*x->after)) : NULL;
    if ((count && !x->after) || x->count != n->count)
        return CUDA_ERROR_OUT_OF_MEMORY;
    x->after_count = count;
    if (count)
        x->after[0] = enter;
    for (size_t i = 0; i < n->in.count; i++)
        x->after[i] = n->in.items[i].node->exit;
    if (!n->child)
        return CUDA_SUCCESS;
    CUresult rc = flat_graph(f, n->child, n->entry);
    if (rc == CUDA_SUCCESS)
        rc = flat_exit(f, n->child, n->entry);
    n->exit = f->count - 1;
    return rc;
}

static bool node_ready(const struct sim_node *n)
{
    for (size_t i = 0; i < n->in.count; i++)
        if (n->in.items[i].node->exit == SIZE_MAX)
            return false;
    return true;
}

/* In the order of creation as far as dependencies allow it. Usually one pass is enough. */
static CUresult flat_graph(struct flat *f, const struct sim_graph *g, size_t enter)
{
    struct sim_node *n;
    DL_FOREACH (g->nodes, n) {
        n->exit = SIZE_MAX;
    }
    size_t placed = 0, before;
    do {
        before = placed;
        DL_FOREACH (g->nodes, n) {
            if (n->exit != SIZE_MAX || !node_ready(n))
                continue;
            TRY(flat_node(f, n, enter));
            placed++;
        }
    } while (placed != before);
    return placed == g->count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult flat_make(const struct sim_graph *g, struct exec_node **nodes, size_t *count)
{
    struct flat f = {NULL, 0};
    CUresult rc = flat_graph(&f, g, SIZE_MAX);
    *nodes = f.nodes;
    *count = f.count;
    return rc;
}

/* ---- lanes ----------------------------------------------------------------------------------- */

enum { UNUSED = -1 };

static int lane_of(const struct sim_exec *x, const struct sim_context *ctx, size_t turn)
{
    int mine[LANES_MAX], count = 0;
    for (int i = 0; i < x->lanes; i++)
        if (x->lane_ctx[i] == ctx)
            mine[count++] = i;
    return count != 0 ? mine[turn % (size_t)count] : UNUSED;
}

static int lane_open(struct sim_exec *x, struct sim_context *ctx, ptrdiff_t *tail)
{
    if (x->lanes == LANES_MAX)
        return UNUSED;
    x->lane_ctx[x->lanes] = ctx;
    tail[x->lanes] = UNUSED;
    return x->lanes++;
}

/* A node goes into a lane whose last node it depends on. Else it opens a lane, or if none is left,
 * lanes take turns. A lane orders more than the graph asks for, which is always allowed. */
static int lane_choose(struct sim_exec *x, const struct exec_node *n, ptrdiff_t *tail, size_t turn)
{
    for (size_t k = 0; k < n->after_count; k++) {
        int lane = x->nodes[n->after[k]].lane;
        if (tail[lane] == (ptrdiff_t)n->after[k] && x->lane_ctx[lane] == n->ctx)
            return lane;
    }
    int first = lane_of(x, n->ctx, 0);
    if (tail[first] == UNUSED)
        return first;
    int fresh = lane_open(x, n->ctx, tail);
    return fresh != UNUSED ? fresh : lane_of(x, n->ctx, turn);
}

CUresult exec_assign_lanes(struct sim_exec *x)
{
    ptrdiff_t tail[LANES_MAX];
    /* Every context has at least one lane. The first lane is that of the launching stream. */
    x->lanes = 0;
    lane_open(x, x->ctx, tail);
    for (size_t i = 0; i < x->count; i++) {
        struct exec_node *n = &x->nodes[i];
        struct sim_context *ctx = n->count != 0 ? context_find(n->works[0].context) : NULL;
        /* Works that name no context, or a green one of the same device, run in the exec's. */
        n->ctx = !ctx || context_base(ctx) == context_base(x->ctx) ? x->ctx : ctx;
        if (lane_of(x, n->ctx, 0) == UNUSED && lane_open(x, n->ctx, tail) == UNUSED)
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    for (size_t i = 0; i < x->count; i++) {
        int lane = lane_choose(x, &x->nodes[i], tail, i);
        x->nodes[i].lane = lane;
        tail[lane] = (ptrdiff_t)i;
    }
    return CUDA_SUCCESS;
}
