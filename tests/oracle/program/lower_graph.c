/*
 * lower_graph.c - lowers the intents about graphs (see program.h). All graphs are chains: a part
 * that is captured in a second stream joins again at once.
 */
#include "model.h"

#include <string.h>

static bool node_reads(const struct graph_op *g)
{
    return g->kind == OP_COPY_KERNEL || g->kind == OP_D2D;
}

static bool node_is_event(const struct graph_op *g)
{
    return g->kind == OP_RECORD || g->kind == OP_WAIT;
}

static void node_draw(const struct model *m, struct graph_op *g, uint32_t x)
{
    int dst = pick_buffer(m, x >> 8, g->kind == OP_HOST_FUNC ? H : D);
    int src = pick_buffer(m, x >> 12, D);
    g->dst = (uint8_t)dst;
    g->src = (uint8_t)(src == dst ? (src + 1) % PINNED : src);
    g->a = (x >> 3) | 1;
    g->b = x;
    /* Graphs record even events and wait for odd ones: no graph waits for one that it records. */
    g->event = (uint8_t)(x % (MAIN_EVENTS / 2) * 2 + (g->kind == OP_WAIT));
}

/* The thread claims the events that the nodes name, because another thread might destroy them. */
static bool claim_events(struct model *m, const struct op *op)
{
    for (int i = 0; i < op->graph_count; i++)
        if (node_is_event(&op->graph[i]) && !claim(&m->event_owner[op->graph[i].event], op->thread))
            return false;
    return true;
}

static uint32_t node_random(const uint32_t *r, int i)
{
    return r[3] * 2654435761u + (uint32_t)i * 40503u + r[4];
}

static uint8_t graph_length(const struct model *m, uint32_t r)
{
    return (uint8_t)(1 + r % (m->p->forms >= FORMS_GRAPHS ? GRAPH_OPS : GRAPH_OPS / 2));
}

bool lower_capture(struct model *m, struct op op, const uint32_t *r)
{
    static const enum op_kind kinds[] = {OP_MIX,      OP_MIX, OP_COPY_KERNEL,
                                         OP_MEMSET32, OP_D2D, OP_HOST_FUNC};
    int exec = (int)(r[1] % EXECS), thread = op.thread;
    if (stream_base(op.stream) != MAIN)
        return false;
    if (op.stream == LEGACY) /* the legacy stream cannot be captured */
        op.stream = (uint8_t)(PER_THREAD + thread);
    /* While a stream captures, a context synchronisation or a legacy-stream call of another thread
     * is an error and may spoil the capture. So the other threads wait. */
    if (m->p->threads > 1)
        model_barrier(m);
    if (!claim(&m->exec_owner[exec], thread) || !claim(&m->stream_owner[op.stream], thread))
        return false;
    op.exec = (uint8_t)exec;
    op.graph_count = graph_length(m, r[2]);
    for (int i = 0; i < op.graph_count; i++) {
        uint32_t x = node_random(r, i);
        op.graph[i].kind = kinds[(x >> 4) % 6];
        node_draw(m, &op.graph[i], x);
        op.graph[i].fork = i > 0 && (x >> 20) % 3 == 0;
    }
    m->exec[exec] = op;
    model_emit(m, op);
    if (m->p->threads > 1)
        model_barrier(m);
    return true;
}

/* The graph is made node by node. Some nodes are inside child graphs. */
bool lower_graph_build(struct model *m, struct op op, const uint32_t *r)
{
    static const enum op_kind kinds[] = {OP_MIX, OP_MIX,       OP_COPY_KERNEL, OP_MEMSET32,
                                         OP_D2D, OP_HOST_FUNC, OP_RECORD,      OP_WAIT};
    int exec = (int)(r[1] % EXECS);
    bool events = m->p->forms != FORMS_GRAPHS && m->p->forms != FORMS_PLACES;
    if (stream_base(op.stream) != MAIN || !claim(&m->exec_owner[exec], op.thread))
        return false;
    op.exec = (uint8_t)exec;
    op.graph_count = graph_length(m, r[2]);
    for (int i = 0; i < op.graph_count; i++) {
        struct graph_op *g = &op.graph[i];
        uint32_t x = node_random(r, i);
        g->kind = kinds[(x >> 4) % (events ? 8 : 6)];
        node_draw(m, g, x);
        g->fork = !node_is_event(g) && (x >> 20) % 3 == 0;
    }
    if (!claim_events(m, &op))
        return false;
    m->exec[exec] = op;
    model_emit(m, op);
    return true;
}

/* An instantiated graph near `r`, or -1. */
static int pick_exec(const struct model *m, uint32_t r)
{
    for (uint32_t i = 0; i < EXECS; i++)
        if (m->exec[(r + i) % EXECS].kind != OP_BARRIER)
            return (int)((r + i) % EXECS);
    return -1;
}

bool event_in_graph(const struct model *m, int event)
{
    for (int e = 0; e < EXECS; e++)
        for (int i = 0; m->exec[e].kind != OP_BARRIER && i < m->exec[e].graph_count; i++)
            if (node_is_event(&m->exec[e].graph[i]) && m->exec[e].graph[i].event == event)
                return true;
    return false;
}

bool buffer_in_graph(const struct model *m, int buffer)
{
    for (int e = 0; e < EXECS; e++)
        for (int i = 0; m->exec[e].kind != OP_BARRIER && i < m->exec[e].graph_count; i++) {
            const struct graph_op *g = &m->exec[e].graph[i];
            if (!node_is_event(g) && (g->dst == buffer || (node_reads(g) && g->src == buffer)))
                return true;
        }
    return false;
}

/* The thread claims all that the nodes use. */
static bool claim_nodes(struct model *m, const struct op *g, int thread)
{
    for (int i = 0; i < g->graph_count; i++) {
        const struct graph_op *n = &g->graph[i];
        if (node_is_event(n) ? !claim(&m->event_owner[n->event], thread)
                             : !claim(&m->buffer_owner[n->dst], thread) ||
                                   (node_reads(n) && !claim(&m->buffer_owner[n->src], thread)))
            return false;
    }
    return true;
}

static void node_on_model(struct model *m, int s, const struct graph_op *n)
{
    struct op step = {.kind = n->kind, .dst = n->dst, .src = n->src, .a = n->a, .b = n->b};
    if (n->kind == OP_RECORD) {
        memcpy(m->event[n->event].clock, m->now[s], sizeof(clock_vec));
        m->event[n->event].recorded = true;
        m->event[n->event].by_context = false;
        return;
    }
    if (n->kind == OP_WAIT) {
        if (m->event[n->event].recorded)
            clock_join(m->now[s], m->event[n->event].clock);
        return;
    }
    if (n->off)
        return;
    note_access(m, s, step.dst, true);
    if (node_reads(n))
        note_access(m, s, step.src, false);
    run_on_model(m, &step);
}

bool lower_graph_launch(struct model *m, struct op op, const uint32_t *r)
{
    int exec = pick_exec(m, r[1]), thread = op.thread, s = op.stream;
    if (exec < 0 || stream_base(s) != MAIN || !claim(&m->exec_owner[exec], thread) ||
        !claim(&m->stream_owner[s], thread))
        return false;
    const struct op *g = &m->exec[exec];
    if (!claim_nodes(m, g, thread))
        return false;
    for (int i = 0; i < g->graph_count; i++) {
        const struct graph_op *n = &g->graph[i];
        if (!node_is_event(n) &&
            (!order_access(m, thread, s, n->dst, true, r[5]) ||
             (node_reads(n) && !order_access(m, thread, s, n->src, false, r[6]))))
            return false;
    }
    op.exec = (uint8_t)exec;
    op.graph_count = g->graph_count;
    for (int i = 0; i < g->graph_count; i++)
        op.graph[i] = g->graph[i];
    model_issue(m, thread, s);
    struct op *launch = model_emit(m, op);
    /* Each node is a step: an event in the middle says nothing about the nodes behind it. */
    for (int i = 0; i < g->graph_count; i++) {
        node_on_model(m, s, &g->graph[i]);
        clock_step(m, s);
    }
    launch->clock[s] = m->now[s][s];
    return true;
}

/* Changes a and b of the first kernel, through the executable graph. */
bool lower_graph_update(struct model *m, struct op op, const uint32_t *r)
{
    int exec = pick_exec(m, r[1]);
    if (exec < 0 || stream_base(op.stream) != MAIN || !claim(&m->exec_owner[exec], op.thread))
        return false;
    struct op *g = &m->exec[exec];
    if (g->graph[0].kind != OP_MIX || g->kind != OP_CAPTURE)
        return false;
    op.exec = (uint8_t)exec;
    op.dst = g->graph[0].dst;
    g->graph[0].a = op.a;
    g->graph[0].b = op.b;
    model_emit(m, op);
    return true;
}

static bool pick_built(const struct model *m, struct op *op, uint32_t r)
{
    int exec = pick_exec(m, r);
    if (exec < 0 || stream_base(op->stream) != MAIN || m->exec[exec].kind != OP_GRAPH_BUILD)
        return false;
    op->exec = (uint8_t)exec;
    return true;
}

/* New parameters for node op.flag, by the call for nodes of its type. */
bool lower_graph_set(struct model *m, struct op op, const uint32_t *r)
{
    if (!pick_built(m, &op, r[1]) || !claim(&m->exec_owner[op.exec], op.thread))
        return false;
    struct op *g = &m->exec[op.exec];
    op.flag = (uint8_t)(r[2] % g->graph_count);
    op.graph_count = 1;
    op.graph[0] = g->graph[op.flag];
    node_draw(m, &op.graph[0], r[5]);
    if (!claim_events(m, &op))
        return false;
    g->graph[op.flag] = op.graph[0];
    model_emit(m, op);
    return true;
}

static bool any_off(const struct op *g)
{
    for (int i = 0; i < g->graph_count; i++)
        if (g->graph[i].off)
            return true;
    return false;
}

/* New parameters for all nodes, by an update from another graph. CUDA does not say what the update
 * does to nodes that are switched off. */
bool lower_graph_replace(struct model *m, struct op op, const uint32_t *r)
{
    if (!pick_built(m, &op, r[1]) || !claim(&m->exec_owner[op.exec], op.thread))
        return false;
    struct op *g = &m->exec[op.exec];
    if (any_off(g))
        return false;
    op.graph_count = g->graph_count;
    for (int i = 0; i < g->graph_count; i++) {
        op.graph[i] = g->graph[i];
        node_draw(m, &op.graph[i], node_random(r, i));
    }
    if (!claim_events(m, &op))
        return false;
    memcpy(g->graph, op.graph, sizeof(op.graph));
    model_emit(m, op);
    return true;
}

/* Switches kernel, copy or memset op.flag off, or on again. */
bool lower_graph_enable(struct model *m, struct op op, const uint32_t *r)
{
    if (!pick_built(m, &op, r[1]) || !claim(&m->exec_owner[op.exec], op.thread))
        return false;
    struct op *g = &m->exec[op.exec];
    op.flag = (uint8_t)(r[2] % g->graph_count);
    struct graph_op *n = &g->graph[op.flag];
    if (n->fork || node_is_event(n) || n->kind == OP_HOST_FUNC)
        return false;
    n->off = !n->off;
    op.a = !n->off;
    model_emit(m, op);
    return true;
}

bool lower_graph_destroy(struct model *m, struct op op, const uint32_t *r)
{
    int exec = pick_exec(m, r[1]);
    if (exec < 0 || !claim(&m->exec_owner[exec], op.thread))
        return false;
    op.exec = (uint8_t)exec;
    op.stream = MAIN;
    m->exec[exec].kind = OP_BARRIER;
    model_emit(m, op);
    return true;
}
