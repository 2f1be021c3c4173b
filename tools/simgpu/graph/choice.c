/*
 * choice.c - conditional nodes in executable graphs. Only when such a node's turn comes is it known
 * what it runs. So a thread, which the node has for that time, submits the works of the bodies
 * then, to streams of their own. The node's stream waits meanwhile.
 *
 * A simulator must not hang where a GPU would not. Most kernels have no effect here, so a loop ends
 * after a round in which no kernel has set its condition. The event log has a mark for it.
 */
#include "tools/simgpu/graph/conditional.h"
#include "tools/simgpu/graph/exec.h"
#include "tools/simgpu/program/condition.h"
#include "tools/simgpu/stream/engine.h"
#include "tools/simgpu/stream/points.h"
#include "tools/simgpu/stream/submit.h"

/* args of the work; the first one is set outside of launches as well */
enum { ARG_CHOICE, ARG_RUN, ARG_PRIORITY = LAUNCH_PRIORITY };

/* One launch's turn of a choice. The work and the thread retain it. */
struct run {
    _Atomic int refs;
    _Atomic bool over;
    CUresult result;
    struct choice *choice;
    int priority;
};

static void choice_put(struct choice *c)
{
    if (atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    for (unsigned int i = 0; i < c->size; i++) {
        struct sim_exec *body = &c->bodies[i];
        for (int lane = 0; lane < body->lanes; lane++)
            if (body->branches[lane])
                stream_destroy(body->branches[lane]);
        exec_nodes_free(body->nodes, body->count);
    }
    condition_put(c->condition);
    free(c->bodies);
    free(c);
}

static void run_put(struct run *r)
{
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    choice_put(r->choice);
    free(r);
}

/* ---- running --------------------------------------------------------------------------------- */

static CUresult body_run(struct run *r, unsigned int which)
{
    struct sim_exec *body = &r->choice->bodies[which];
    TRY(launch_open_lanes(body, 0, r->priority));
    TRY(launch_nodes(body, body->branches[0], (struct point){0, 0}));
    return point_wait(body->ctx, body->end);
}

static CUresult run_all(struct run *r)
{
    const struct choice *choice = r->choice;
    const struct condition *c = choice->condition;
    uint32_t value = atomic_load(&c->value);
    uint32_t which = choice->type == CONDITION_SWITCH ? value : value == 0;
    if (choice->type != CONDITION_WHILE)
        return which < choice->size ? body_run(r, which) : CUDA_SUCCESS;
    CUresult rc = CUDA_SUCCESS;
    while (rc == CUDA_SUCCESS && atomic_load(&c->value) != 0) {
        uint64_t before = atomic_load(&c->sets);
        rc = body_run(r, 0);
        if (rc == CUDA_SUCCESS && atomic_load(&c->sets) == before) {
            struct work w = {.kind = WORK_MARK, .name = "while_not_set"};
            struct point done;
            if (work_submit_raw(choice->bodies[0].branches[0], &w, NULL, 0, &done) == CUDA_SUCCESS)
                point_wait(NULL, done);
            break;
        }
    }
    return rc;
}

static void *run_main(void *arg)
{
    struct run *r = arg;
    r->result = run_all(r);
    atomic_store(&r->over, true);
    run_put(r);
    engine_kick();
    return NULL;
}

/* The engine calls this: it must not wait. */
static bool choice_poll(struct work *w)
{
    struct run *r = w->args.ptr[ARG_RUN];
    if (r)
        return atomic_load(&r->over);
    bool here = config_get()->null_mode; /* there is no engine then, and the caller waits anyway */
    w->args.ptr[ARG_RUN] = r = calloc(1, sizeof(*r));
    if (!r)
        return true;
    r->choice = w->args.ptr[ARG_CHOICE];
    r->priority = (int)w->args.u64[ARG_PRIORITY];
    atomic_store(&r->refs, here ? 1 : 2);
    atomic_fetch_add(&r->choice->refs, 1);
    if (here) {
        r->result = run_all(r);
        return true;
    }
    if (engine_thread_start(run_main, r) == 0)
        return false;
    r->result = CUDA_ERROR_OUT_OF_MEMORY;
    run_put(r); /* gives up what the thread would have held */
    return true;
}

static CUresult choice_effect(struct work *w)
{
    const struct run *r = w->args.ptr[ARG_RUN];
    return r ? r->result : CUDA_ERROR_OUT_OF_MEMORY;
}

static void choice_retain(struct work *w)
{
    struct choice *c = w->args.ptr[ARG_CHOICE];
    atomic_fetch_add(&c->refs, 1);
}

static void choice_drop(struct work *w)
{
    if (w->args.ptr[ARG_RUN])
        run_put(w->args.ptr[ARG_RUN]);
    choice_put(w->args.ptr[ARG_CHOICE]);
}

/* ---- defaults, when a launch begins ---------------------------------------------------------- */

static void condition_reset(const struct choice *choice)
{
    struct condition *c = choice->condition;
    if (c->assigns)
        atomic_store(&c->value, c->initial);
    for (unsigned int i = 0; i < choice->size; i++) {
        const struct sim_exec *body = &choice->bodies[i];
        for (size_t k = 0; k < body->count; k++)
            if (body->nodes[k].type == TYPE_CONDITIONAL)
                condition_reset(choice_of(&body->nodes[k]));
    }
}

static CUresult begin_effect(struct work *w)
{
    condition_reset(w->args.ptr[ARG_CHOICE]);
    return CUDA_SUCCESS;
}

CUresult choices_reset(const struct sim_exec *x, struct sim_stream *s, struct point *begun)
{
    CUresult rc = CUDA_SUCCESS;
    for (size_t i = 0; i < x->count && rc == CUDA_SUCCESS; i++) {
        if (x->nodes[i].type != TYPE_CONDITIONAL)
            continue;
        struct work w = {.kind = WORK_MARK,
                         .name = "condition_default",
                         .effect = begin_effect,
                         .drop = choice_drop};
        w.args.ptr[ARG_CHOICE] = choice_of(&x->nodes[i]);
        choice_retain(&w);
        rc = work_submit_raw(s, &w, NULL, 0, begun);
    }
    return rc;
}

/* ---- making ---------------------------------------------------------------------------------- */

static CUresult body_make(struct sim_exec *body, const struct sim_graph *g, struct sim_context *ctx)
{
    body->ctx = ctx;
    if (g->capturing || graph_has(g, type_barred_inside))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = exec_flatten(g, &body->nodes, &body->count);
    if (rc == CUDA_SUCCESS)
        rc = exec_assign_lanes(body);
    for (size_t i = 0; rc == CUDA_SUCCESS && i < body->count; i++)
        if (body->lane_ctx[body->nodes[i].lane] != ctx)
            rc = CUDA_ERROR_INVALID_VALUE; /* all that is inside runs in the node's context */
    return rc;
}

static const char *const names[] = {
    [CONDITION_IF] = "conditional_if",
    [CONDITION_WHILE] = "conditional_while",
    [CONDITION_SWITCH] = "conditional_switch",
};

static struct choice *choice_new(struct condition *condition, int type, unsigned int size)
{
    struct choice *c = calloc(1, sizeof(*c));
    struct sim_exec *bodies = calloc(size, sizeof(*bodies));
    if (!c || !bodies) {
        free(c);
        free(bodies);
        return NULL;
    }
    atomic_store(&c->refs, 1);
    condition_get(condition);
    c->condition = condition;
    c->type = type;
    c->size = size;
    c->bodies = bodies;
    return c;
}

static CUresult choice_make(const struct sim_node *n, struct work *w)
{
    const struct conditional *from = n->conditional;
    struct choice *c = choice_new(from->condition, from->type, from->size);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = CUDA_SUCCESS;
    for (unsigned int i = 0; i < c->size && rc == CUDA_SUCCESS; i++)
        rc = body_make(&c->bodies[i], graph_find(from->handles[i]), from->condition->ctx);
    if (rc != CUDA_SUCCESS) {
        choice_put(c);
        return rc;
    }
    *w = (struct work){.kind = WORK_GRAPH,
                       .name = names[c->type],
                       .effect = choice_effect,
                       .poll = choice_poll,
                       .retain = choice_retain,
                       .drop = choice_drop,
                       .context = context_handle(from->condition->ctx),
                       .node_type = TYPE_CONDITIONAL};
    w->args.ptr[ARG_CHOICE] = c;
    return CUDA_SUCCESS;
}

CUresult exec_flatten(const struct sim_graph *g, struct exec_node **nodes, size_t *count)
{
    struct exec_node *flat;
    size_t n;
    CUresult rc = flat_make(g, &flat, &n);
    /* The flat copy does not have the works of conditional nodes. */
    for (size_t i = 0; i < n && rc == CUDA_SUCCESS; i++) {
        struct exec_node *x = &flat[i];
        if (!x->node || !x->node->conditional)
            continue;
        x->works = calloc(1, sizeof(*x->works));
        rc = x->works ? choice_make(x->node, x->works) : CUDA_ERROR_OUT_OF_MEMORY;
        x->count = rc == CUDA_SUCCESS;
    }
    if (rc != CUDA_SUCCESS) {
        exec_nodes_free(flat, n);
        return rc;
    }
    *nodes = flat;
    *count = n;
    return CUDA_SUCCESS;
}

/* ---- one executable graph at a time ---------------------------------------------------------- */

bool choices_belong(const struct exec_node *nodes, size_t count, const struct sim_exec *x,
                    bool bind)
{
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++) {
        if (nodes[i].type != TYPE_CONDITIONAL)
            continue;
        const struct choice *c = choice_of(&nodes[i]);
        if (bind)
            c->condition->exec = x;
        ok = !c->condition->exec || c->condition->exec == x;
        for (unsigned int k = 0; k < c->size && ok; k++)
            ok = choices_belong(c->bodies[k].nodes, c->bodies[k].count, x, bind);
    }
    return ok;
}

/* ---- changing -------------------------------------------------------------------------------- */

/* Copies all but `done`, which belongs to a launch. */
static bool node_copy(struct exec_node *to, const struct exec_node *from)
{
    *to = (struct exec_node){.id = from->id,
                             .node = from->node,
                             .type = from->type,
                             .ctx = from->ctx,
                             .lane = from->lane,
                             .disabled = from->disabled};
    to->works = works_copy(from->works, from->count);
    to->count = to->works ? from->count : 0;
    to->after = calloc(from->after_count + 1, sizeof(*to->after));
    if (to->count != from->count || !to->after)
        return false;
    for (; to->after_count < from->after_count; to->after_count++)
        to->after[to->after_count] = from->after[to->after_count];
    return true;
}

static bool body_copy(struct sim_exec *to, const struct sim_exec *from)
{
    to->ctx = from->ctx;
    to->lanes = from->lanes;
    memcpy(to->lane_ctx, from->lane_ctx, sizeof(to->lane_ctx));
    to->nodes = calloc(from->count + 1, sizeof(*to->nodes));
    bool ok = to->nodes;
    while (ok && to->count < from->count) {
        ok = node_copy(&to->nodes[to->count], &from->nodes[to->count]);
        to->count++;
    }
    return ok;
}

/* A choice that may be changed: launches that are under way keep the old one. */
static struct choice *choice_apart(struct work *w)
{
    struct choice *c = w->args.ptr[ARG_CHOICE];
    if (atomic_load(&c->refs) == 1)
        return c;
    struct choice *copy = choice_new(c->condition, c->type, c->size);
    bool ok = copy;
    for (unsigned int i = 0; i < c->size && ok; i++)
        ok = body_copy(&copy->bodies[i], &c->bodies[i]);
    if (!ok) {
        if (copy)
            choice_put(copy);
        return NULL;
    }
    w->args.ptr[ARG_CHOICE] = copy;
    choice_put(c);
    return copy;
}

static bool nodes_have(const struct exec_node *nodes, size_t count, uint64_t id)
{
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        const struct choice *c = nodes[i].type == TYPE_CONDITIONAL ? choice_of(&nodes[i]) : NULL;
        found = nodes[i].id == id;
        for (unsigned int k = 0; c && k < c->size && !found; k++)
            found = nodes_have(c->bodies[k].nodes, c->bodies[k].count, id);
    }
    return found;
}

struct exec_node *choice_find(struct exec_node *n, uint64_t id)
{
    if (n->id == id || n->type != TYPE_CONDITIONAL)
        return n->id == id ? n : NULL;
    if (!nodes_have(n, 1, id))
        return NULL;
    struct choice *c = choice_apart(&n->works[0]);
    struct exec_node *found = NULL;
    for (unsigned int k = 0; c && k < c->size; k++)
        for (size_t i = 0; i < c->bodies[k].count && !found; i++)
            found = choice_find(&c->bodies[k].nodes[i], id);
    return found;
}
