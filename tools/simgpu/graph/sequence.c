/*
 * sequence.c - captures and their members; see sequence.h.
 */
#include "tools/simgpu/graph/sequence.h"

#include <utlist.h>

static struct sequence *open_sequences; /* all open captures; under graph_lock */
static uint64_t next_id = 1;
static _Atomic int open_count; /* most calls only ask "is there any capture?", and mostly none is */

void sequence_put(struct sequence *q)
{
    if (--q->refs == 0)
        free(q);
}

void sequence_invalidate(struct sequence *q)
{
    if (q->status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        q->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

struct capture *member_add(struct sequence *q, struct sim_stream *s)
{
    struct capture *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->sequence = q;
    c->stream = s;
    q->refs++;
    DL_APPEND(q->members, c);
    __atomic_store_n(&s->capture, c, __ATOMIC_RELEASE);
    return c;
}

void member_depart(struct capture *c)
{
    struct sequence *q = c->sequence;
    __atomic_store_n(&c->stream->capture, NULL, __ATOMIC_RELEASE);
    DL_DELETE(q->members, c);
    DL_APPEND(q->departed, c);
}

bool member_depend(struct capture *c, CUgraphNode node, struct edge_data data)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->nodes[i] == node)
            return true;
    CUgraphNode *nodes = array_grow(c->nodes, c->count, sizeof(*nodes));
    c->nodes = nodes ? nodes : c->nodes;
    struct edge_data *all = array_grow(c->data, c->count, sizeof(*all));
    c->data = all ? all : c->data;
    if (!nodes || !all)
        return false;
    c->nodes[c->count] = node;
    c->data[c->count++] = data;
    return true;
}

bool member_is_behind(const struct capture *c, CUgraphNode node)
{
    struct sim_node *from = node_find(node);
    bool behind = !from;
    for (size_t i = 0; i < c->count && !behind; i++) {
        const struct sim_node *to = node_find(c->nodes[i]);
        behind = to && node_reaches(from, to);
    }
    return behind;
}

CUresult member_connect(struct capture *c, struct sim_node *node)
{
    for (size_t i = 0; i < c->count; i++) {
        struct sim_node *from = node_find(c->nodes[i]);
        if (!from || from->graph != node->graph)
            return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED; /* the application has destroyed it */
        TRY(node_depend(node, &from, &c->data[i], 1));
    }
    c->count = 0; /* the member's next node follows only this one */
    return member_depend(c, node_handle(node), (struct edge_data){{0}}) ? CUDA_SUCCESS
                                                                        : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sequence_usable(const struct sequence *q)
{
    return q->status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? CUDA_SUCCESS
                                                        : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

void sequence_end(struct sequence *q)
{
    while (q->members)
        member_depart(q->members);
    while (q->departed) {
        struct capture *c = q->departed;
        DL_DELETE(q->departed, c);
        free(c->nodes);
        free(c->data);
        free(c);
        sequence_put(q);
    }
    q->graph->capturing = false;
    q->graph = NULL;
    q->status = CU_STREAM_CAPTURE_STATUS_NONE;
    DL_DELETE(open_sequences, q);
    atomic_fetch_sub(&open_count, 1);
    sequence_put(q);
}

struct sequence *sequence_new(struct sim_stream *s, CUstreamCaptureMode mode,
                              struct sim_graph *into)
{
    struct sequence *q = calloc(1, sizeof(*q));
    if (!q)
        return NULL;
    q->graph = into ? into : graph_new();
    if (!q->graph) {
        free(q);
        return NULL;
    }
    q->into = into;
    q->mode = mode;
    q->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    q->thread = pthread_self();
    q->id = next_id++;
    q->ctx = s->context;
    q->origin = s;
    q->refs = 1;
    q->graph->capturing = true;
    DL_APPEND(open_sequences, q);
    atomic_fetch_add(&open_count, 1);
    return q;
}

bool sequences_any(bool (*hit)(const struct sequence *q, const void *arg), const void *arg,
                   bool spoil)
{
    bool any = false;
    if (atomic_load(&open_count) == 0)
        return false;
    SCOPED_LOCK(&graph_lock);
    struct sequence *q;
    DL_FOREACH (open_sequences, q) {
        if (!hit(q, arg))
            continue;
        if (spoil)
            sequence_invalidate(q);
        any = true;
    }
    return any;
}

bool sequence_has_blocking(const struct sequence *q, const void *ctx)
{
    const struct capture *c;
    DL_FOREACH (q->members, c) {
        if (c->stream->context == ctx && stream_is_blocking(c->stream))
            return true;
    }
    return false;
}
