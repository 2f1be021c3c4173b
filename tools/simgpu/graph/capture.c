/*
 * capture.c - stream capture: submitting into a capturing stream adds nodes to a graph instead.
 *
 * A sequence is one capture, from cuStreamBeginCapture to cuStreamEndCapture; each stream that takes
 * part is a member of it (struct capture), with the nodes that its next node will depend on. Streams
 * join by waiting for an event recorded in a member. graph_lock guards all of it; whether a stream is
 * a member at all is asked without the lock.
 */
#include "tools/simgpu/graph/graph.h"
#include "tools/simgpu/graph/graph_exec.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/face/variants.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct sequence {
    struct sim_graph *graph; /* NULL once the capture has ended */
    bool into; /* cuStreamBeginCaptureToGraph: the graph is the application's already */
    CUstreamCaptureMode mode;
    CUstreamCaptureStatus status;
    pthread_t thread; /* that began it */
    uint64_t id;
    struct sim_context *ctx;
    struct sim_stream *origin;
    struct capture *members;
    int holders; /* members, marks, and the list of all while it is open */
    struct sequence *prev, *next;
};

/* A stream's part in a capture; `nodes` is also what the application may look at as an array. */
struct capture {
    struct sequence *sequence;
    struct sim_stream *stream;
    CUgraphNode *nodes;
    struct edge_data *data;
    size_t count, room;
    struct capture *prev, *next;
};

/* What an event recorded in a capture stands for. */
struct capture_mark {
    struct sequence *sequence;
    size_t count;
    CUgraphNode nodes[];
};

static struct sequence *open_sequences; /* under graph_lock */
static uint64_t next_id = 1;
static _Atomic int open_count; /* most calls ask "is there any capture?"; the answer is mostly no */
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool capture_active(const struct sim_stream *s)
{
    return __atomic_load_n(&s->capture, __ATOMIC_ACQUIRE) != NULL;
}

/* ---- sequences: all under graph_lock ----------------------------------------------------------------------- */

static void sequence_let_go(struct sequence *q)
{
    if (--q->holders == 0)
        free(q);
}

static void sequence_invalidate(struct sequence *q)
{
    if (q->status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        q->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

static struct capture *member_add(struct sequence *q, struct sim_stream *s)
{
    struct capture *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->sequence = q;
    c->stream = s;
    q->holders++;
    DL_APPEND(q->members, c);
    __atomic_store_n(&s->capture, c, __ATOMIC_RELEASE);
    return c;
}

static void member_remove(struct capture *c)
{
    struct sequence *q = c->sequence;
    __atomic_store_n(&c->stream->capture, NULL, __ATOMIC_RELEASE);
    DL_DELETE(q->members, c);
    free(c->nodes);
    free(c->data);
    free(c);
    sequence_let_go(q);
}

static bool member_depend(struct capture *c, CUgraphNode node, struct edge_data data)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->nodes[i] == node)
            return true;
    if (c->count == c->room) {
        size_t room = c->room != 0 ? c->room * 2 : 8;
        CUgraphNode *nodes = realloc(c->nodes, room * sizeof *nodes);
        if (nodes != NULL)
            c->nodes = nodes;
        struct edge_data *all = realloc(c->data, room * sizeof *all);
        if (all != NULL)
            c->data = all;
        if (nodes == NULL || all == NULL)
            return false;
        c->room = room;
    }
    c->nodes[c->count] = node;
    c->data[c->count++] = data;
    return true;
}

/* From here on the member's next node follows this one alone. */
static bool member_follow(struct capture *c, struct sim_node *node)
{
    c->count = 0;
    return member_depend(c, node_handle(node), (struct edge_data){{0}});
}

static CUresult member_connect(struct capture *c, struct sim_node *node)
{
    for (size_t i = 0; i < c->count; i++) {
        struct sim_node *from = node_find(c->nodes[i]);
        if (from == NULL || from->graph != node->graph)
            return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED; /* destroyed behind the capture's back */
        CUresult rc = node_depend(node, &from, &c->data[i], 1);
        if (rc != CUDA_SUCCESS)
            return rc;
    }
    return member_follow(c, node) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult sequence_usable(const struct sequence *q)
{
    return q->status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? CUDA_SUCCESS
                                                        : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

/* Ends the capture: every member is an ordinary stream again. */
static void sequence_end(struct sequence *q)
{
    while (q->members != NULL)
        member_remove(q->members);
    q->graph->capturing = false;
    q->graph = NULL;
    q->status = CU_STREAM_CAPTURE_STATUS_NONE;
    DL_DELETE(open_sequences, q);
    atomic_fetch_sub(&open_count, 1);
    sequence_let_go(q);
}

/* ---- adding nodes ---------------------------------------------------------------------------------------------- */

/* Takes over w's reference if it succeeds. Under graph_lock. */
static CUresult add_work(struct capture *c, const struct work *w)
{
    CUresult rc = sequence_usable(c->sequence);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct sim_node *node = node_new(c->sequence->graph, w->node_type, w);
    if (node == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = member_connect(c, node);
    if (rc != CUDA_SUCCESS) {
        struct graph_object *none = NULL;
        node_free(node, &none);
        sequence_invalidate(c->sequence);
        return rc;
    }
    if (w->drop != NULL && w->hold != NULL) { /* the node has a reference of its own */
        struct work gone = *w;
        gone.drop(&gone);
    }
    return CUDA_SUCCESS;
}

CUresult capture_add(struct sim_stream *s, const struct work *w)
{
    pthread_mutex_lock(&graph_lock);
    struct work here = *w;
    here.context = context_handle(s->context);
    CUresult rc = s->capture != NULL ? add_work(s->capture, &here) : CUDA_ERROR_ILLEGAL_STATE;
    pthread_mutex_unlock(&graph_lock);
    return rc;
}

/* A graph launched in a capture becomes a child graph: what the exec does now, node by node. */
static struct sim_graph *graph_of_exec(const struct sim_exec *x)
{
    struct sim_graph *g = graph_new();
    struct sim_node **nodes = calloc(x->count + 1, sizeof *nodes);
    bool ok = g != NULL && nodes != NULL;
    for (size_t i = 0; ok && i < x->count; i++) {
        const struct exec_node *n = &x->nodes[i];
        bool empty = n->disabled || n->count == 0;
        nodes[i] = node_new(g, empty ? CU_GRAPH_NODE_TYPE_EMPTY : n->type, NULL);
        ok = nodes[i] != NULL && (empty || node_fill(nodes[i], n->works, n->count) == CUDA_SUCCESS);
        for (size_t k = 0; ok && k < n->after_count; k++)
            ok = edge_add(nodes[n->after[k]], nodes[i], (struct edge_data){{0}});
    }
    free(nodes);
    if (!ok && g != NULL) {
        struct graph_object *none = NULL;
        graph_free(g, &none);
        g = NULL;
    }
    return g;
}

CUresult exec_capture(struct sim_exec *x, struct sim_stream *s)
{
    struct work empty = {.kind = WORK_MARK, .node_type = CU_GRAPH_NODE_TYPE_GRAPH};
    pthread_mutex_lock(&graph_lock);
    struct sim_graph *child = s->capture != NULL ? graph_of_exec(x) : NULL;
    CUresult rc = child != NULL ? add_work(s->capture, &empty) : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS) {
        struct sim_node *node = node_find(s->capture->nodes[0]);
        node->child = child;
        child->owner = node;
    } else if (child != NULL) {
        struct graph_object *none = NULL;
        graph_free(child, &none);
    }
    pthread_mutex_unlock(&graph_lock);
    return rc;
}

/* ---- what a capture forbids -------------------------------------------------------------------------------------- */

/* Is there an open capture that `hit` names? With `spoil` they are invalid afterwards. */
static bool captures_where(bool (*hit)(const struct sequence *q, const void *arg), const void *arg,
                           bool spoil)
{
    bool any = false;
    if (atomic_load(&open_count) == 0)
        return false;
    pthread_mutex_lock(&graph_lock);
    struct sequence *q;
    DL_FOREACH (open_sequences, q) {
        if (hit(q, arg)) {
            if (spoil)
                sequence_invalidate(q);
            any = true;
        }
    }
    pthread_mutex_unlock(&graph_lock);
    return any;
}

static bool invalidate_where(bool (*hit)(const struct sequence *q, const void *arg),
                             const void *arg)
{
    return captures_where(hit, arg, true);
}

static bool has_blocking_member(const struct sequence *q, const void *ctx)
{
    const struct capture *c;
    DL_FOREACH (q->members, c) {
        if (stream_context(c->stream) == ctx && stream_is_blocking(c->stream))
            return true;
    }
    return false;
}

CUresult capture_forbids_legacy(struct sim_context *ctx)
{
    return invalidate_where(has_blocking_member, ctx) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                                                      : CUDA_SUCCESS;
}

/* The rule of cuThreadExchangeStreamCaptureMode: a thread in relaxed mode may do anything; others
 * respect their own captures, and a thread in global mode everybody's global ones. */
static bool forbids_this_thread(const struct sequence *q, const void *unused)
{
    if (q->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    return pthread_equal(q->thread, pthread_self()) ||
           (thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
            q->mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult capture_forbids_unsafe(void)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    return invalidate_where(forbids_this_thread, NULL) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                                       : CUDA_SUCCESS;
}

static bool in_context(const struct sequence *q, const void *ctx)
{
    const struct capture *c;
    DL_FOREACH (q->members, c) {
        if (stream_context(c->stream) == ctx)
            return true;
    }
    return q->ctx == ctx;
}

CUresult capture_forbids_context(struct sim_context *ctx)
{
    return invalidate_where(in_context, ctx) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult capture_forbids_stream(struct sim_stream *s)
{
    if (!capture_active(s))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&graph_lock);
    bool captured = s->capture != NULL;
    if (captured)
        sequence_invalidate(s->capture->sequence);
    pthread_mutex_unlock(&graph_lock);
    return captured ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

/* A capture that lost its origin can not be ended any more: it ends here. */
void capture_stream_gone(struct sim_stream *s)
{
    struct graph_object *released = NULL;
    pthread_mutex_lock(&graph_lock);
    if (s->capture != NULL) {
        struct sequence *q = s->capture->sequence;
        sequence_invalidate(q);
        if (q->origin == s) {
            struct sim_graph *g = q->graph;
            bool ours = !q->into;
            sequence_end(q);
            if (ours)
                graph_free(g, &released);
        } else {
            member_remove(s->capture);
        }
    }
    pthread_mutex_unlock(&graph_lock);
    graph_objects_release(released);
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

static void mark_free(struct capture_mark *mark)
{
    if (mark == NULL)
        return;
    sequence_let_go(mark->sequence);
    free(mark);
}

void capture_event_forget(struct capture_mark **mark)
{
    pthread_mutex_lock(&graph_lock);
    mark_free(*mark);
    *mark = NULL;
    pthread_mutex_unlock(&graph_lock);
}

static CUresult mark_set(const struct capture *c, struct capture_mark **mark)
{
    CUresult rc = sequence_usable(c->sequence);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct capture_mark *m = malloc(sizeof *m + c->count * sizeof *m->nodes);
    if (m == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->sequence = c->sequence;
    m->sequence->holders++;
    m->count = c->count;
    if (c->count != 0)
        memcpy(m->nodes, c->nodes, c->count * sizeof *m->nodes);
    mark_free(*mark);
    *mark = m;
    return CUDA_SUCCESS;
}

CUresult capture_event_record(struct sim_stream *s, struct capture_mark **mark)
{
    pthread_mutex_lock(&graph_lock);
    CUresult rc = s->capture != NULL ? mark_set(s->capture, mark) : CUDA_ERROR_ILLEGAL_STATE;
    pthread_mutex_unlock(&graph_lock);
    return rc;
}

CUresult capture_event_check(struct capture_mark *const *mark)
{
    pthread_mutex_lock(&graph_lock);
    bool captured = *mark != NULL;
    if (captured && (*mark)->sequence->graph != NULL)
        sequence_invalidate((*mark)->sequence);
    pthread_mutex_unlock(&graph_lock);
    return captured ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

/* The stream comes to depend on what the event saw, and joins the capture if it was outside. */
static CUresult mark_join(struct sim_stream *s, const struct capture_mark *m)
{
    struct sequence *q = m->sequence;
    CUresult rc = sequence_usable(q);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (s->capture == NULL && (stream_is_legacy(s))) {
        sequence_invalidate(q);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    struct capture *c = s->capture != NULL ? s->capture : member_add(q, s);
    if (c == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < m->count; i++)
        if (!member_depend(c, m->nodes[i], (struct edge_data){{0}}))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult event_wait_captured(struct sim_stream *s, const struct capture_mark *m)
{
    if (m == NULL) { /* the event belongs to work outside of the capture */
        sequence_invalidate(s->capture->sequence);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (m->sequence->graph == NULL) /* of a capture that has ended */
        return CUDA_ERROR_CAPTURED_EVENT;
    if (s->capture != NULL && s->capture->sequence != m->sequence) {
        sequence_invalidate(s->capture->sequence);
        sequence_invalidate(m->sequence);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    return mark_join(s, m);
}

CUresult capture_event_wait(struct sim_stream *s, struct capture_mark *const *mark, bool *captured)
{
    CUresult rc = CUDA_SUCCESS;
    *captured = false;
    if (!capture_active(s) && *mark == NULL)
        return rc;
    pthread_mutex_lock(&graph_lock);
    if (s->capture != NULL || *mark != NULL) {
        *captured = true;
        rc = event_wait_captured(s, *mark);
    }
    pthread_mutex_unlock(&graph_lock);
    return rc;
}

/* ---- begin --------------------------------------------------------------------------------------------------------- */

struct begin {
    CUgraph graph; /* into this one; NULL: a new one */
    const CUgraphNode *nodes;
    const struct edge_data *data;
    size_t count;
};

/* Under graph_lock. */
static struct sequence *sequence_new(struct sim_stream *s, CUstreamCaptureMode mode,
                                     const struct begin *b)
{
    struct sequence *q = calloc(1, sizeof *q);
    if (q == NULL)
        return NULL;
    q->graph = b->graph != NULL ? graph_find(b->graph) : graph_new();
    if (q->graph == NULL) {
        free(q);
        return NULL;
    }
    q->into = b->graph != NULL;
    q->mode = mode;
    q->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    q->thread = pthread_self();
    q->id = next_id++;
    q->ctx = stream_context(s);
    q->origin = s;
    q->holders = 1;
    q->graph->capturing = true;
    DL_APPEND(open_sequences, q);
    atomic_fetch_add(&open_count, 1);
    return q;
}

static CUresult begin_locked(struct sim_stream *s, CUstreamCaptureMode mode, const struct begin *b)
{
    if (s->capture != NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    const struct sim_graph *g = b->graph != NULL ? graph_find(b->graph) : NULL;
    if (b->graph != NULL && (g == NULL || g->capturing))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < b->count; i++) {
        const struct sim_node *n = node_find(b->nodes[i]);
        if (n == NULL || n->graph != g)
            return CUDA_ERROR_INVALID_VALUE;
    }
    struct sequence *q = sequence_new(s, mode, b);
    struct capture *c = q != NULL ? member_add(q, s) : NULL;
    bool ok = c != NULL;
    for (size_t i = 0; ok && i < b->count; i++)
        ok = member_depend(c, b->nodes[i], b->data != NULL ? b->data[i] : (struct edge_data){{0}});
    if (ok)
        return CUDA_SUCCESS;
    if (q != NULL)
        sequence_end(q);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult begin(CUstream hstream, bool ptds, CUstreamCaptureMode mode, const struct begin *b)
{
    struct sim_context *ctx;
    struct sim_stream *s;
    CUresult rc = stream_enter(hstream, ptds, &ctx, &s);
    if (rc != CUDA_SUCCESS)
        return rc;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED || (b->count != 0 && b->nodes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    if (stream_is_legacy(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&graph_lock);
    rc = begin_locked(s, mode, b);
    pthread_mutex_unlock(&graph_lock);
    return rc;
}

static const struct begin fresh;

STREAM_API(cuStreamBeginCapture, (CUstream s),
           begin(s, ptds, CU_STREAM_CAPTURE_MODE_GLOBAL, &fresh))
STREAM_API(cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode mode),
           begin(s, ptds, mode, &fresh))

#if CUDA_VERSION >= 12030
static CUresult begin_into(CUstream s, bool ptds, CUgraph graph, const CUgraphNode *nodes,
                           const CUgraphEdgeData *data, size_t n, CUstreamCaptureMode mode)
{
    struct begin b = {graph, nodes, (const struct edge_data *)(const void *)data, n};
    return graph != NULL ? begin(s, ptds, mode, &b) : CUDA_ERROR_INVALID_VALUE;
}

STREAM_API(cuStreamBeginCaptureToGraph,
           (CUstream s, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *data,
            size_t n, CUstreamCaptureMode mode),
           begin_into(s, ptds, graph, nodes, data, n, mode))
#endif

/* ---- end ------------------------------------------------------------------------------------------------------------- */

/* Is every node that a member would go on from behind the origin's? Else work is left unjoined. */
static bool joined(const struct sequence *q)
{
    const struct capture *origin = q->origin->capture, *c;
    DL_FOREACH (q->members, c) {
        for (size_t i = 0; c != origin && i < c->count; i++) {
            struct sim_node *n = node_find(c->nodes[i]);
            bool reached = n == NULL;
            for (size_t k = 0; k < origin->count && !reached; k++) {
                const struct sim_node *end = node_find(origin->nodes[k]);
                reached = end != NULL && node_reaches(n, end);
            }
            if (!reached)
                return false;
        }
    }
    return true;
}

/* Why the capture may not end here; under graph_lock. */
static CUresult end_check(const struct sim_stream *s)
{
    if (s->capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct sequence *q = s->capture->sequence;
    if (q->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(q->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (q->origin != s) {
        sequence_invalidate(q);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    return CUDA_SUCCESS;
}

/* Whatever the result, the capture is over; a bad one takes its graph with it. */
static CUresult end_locked(struct sim_stream *s, struct sim_graph **out,
                           struct graph_object **released)
{
    struct sequence *q = s->capture->sequence;
    CUresult rc = sequence_usable(q);
    if (rc == CUDA_SUCCESS && !joined(q))
        rc = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    struct sim_graph *g = q->graph;
    bool ours = !q->into;
    sequence_end(q);
    if (rc == CUDA_SUCCESS)
        *out = g;
    else if (ours)
        graph_free(g, released);
    return rc;
}

static CUresult end(CUstream hstream, bool ptds, CUgraph *out)
{
    struct sim_context *ctx;
    struct sim_stream *s;
    CUresult rc = stream_enter(hstream, ptds, &ctx, &s);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct sim_graph *g = NULL;
    struct graph_object *released = NULL;
    pthread_mutex_lock(&graph_lock);
    rc = end_check(s);
    if (rc == CUDA_SUCCESS)
        rc = end_locked(s, &g, &released);
    pthread_mutex_unlock(&graph_lock);
    graph_objects_release(released);
    if (out != NULL)
        *out = graph_handle(g);
    return rc;
}

STREAM_API(cuStreamEndCapture, (CUstream s, CUgraph *out), end(s, ptds, out))

/* ---- questions --------------------------------------------------------------------------------------------------------- */

struct info {
    CUstreamCaptureStatus status;
    uint64_t id;
    struct sim_graph *graph;
    const CUgraphNode *nodes;
    const struct edge_data *data;
    size_t count;
};

/* The legacy stream never captures, but while a blocking stream does it may not even be asked; the
 * question does that capture no harm. */
static CUresult info_get(CUstream hstream, bool ptds, struct info *info)
{
    struct sim_context *ctx;
    struct sim_stream *s;
    CUresult rc = stream_enter(hstream, ptds, &ctx, &s);
    if (rc == CUDA_SUCCESS && stream_is_legacy(s) &&
        captures_where(has_blocking_member, ctx, false))
        rc = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *info = (struct info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
    if (rc != CUDA_SUCCESS || !capture_active(s))
        return rc;
    pthread_mutex_lock(&graph_lock);
    const struct capture *c = s->capture;
    if (c != NULL)
        *info = (struct info){
            c->sequence->status, c->sequence->id, c->sequence->graph, c->nodes, c->data, c->count};
    pthread_mutex_unlock(&graph_lock);
    return rc;
}

static CUresult is_capturing(CUstream s, bool ptds, CUstreamCaptureStatus *out)
{
    struct info info;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = info_get(s, ptds, &info);
    *out = info.status;
    return rc;
}

STREAM_API(cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus *out),
           is_capturing(s, ptds, out))

#define PUT(pointer, value)                                                                        \
    do {                                                                                           \
        if ((pointer) != NULL)                                                                     \
            *(pointer) = (value);                                                                  \
    } while (0)

static CUresult capture_info(CUstream s, bool ptds, CUstreamCaptureStatus *status, cuuint64_t *id,
                             CUgraph *graph, const CUgraphNode **nodes,
                             const struct edge_data **data, size_t *count)
{
    struct info info;
    if (status == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = info_get(s, ptds, &info);
    *status = info.status;
    if (rc != CUDA_SUCCESS || info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return rc;
    PUT(id, info.id);
    PUT(graph, graph_handle(info.graph));
    PUT(nodes, info.nodes);
    PUT(data, info.data);
    PUT(count, info.count);
    return CUDA_SUCCESS;
}

STREAM_API(cuStreamGetCaptureInfo, (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id),
           capture_info(s, ptds, status, id, NULL, NULL, NULL, NULL))
STREAM_API(cuStreamGetCaptureInfo_v2,
           (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
            const CUgraphNode **nodes, size_t *count),
           capture_info(s, ptds, status, id, graph, nodes, NULL, count))
#if CUDA_VERSION >= 12030
STREAM_API(cuStreamGetCaptureInfo_v3,
           (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
            const CUgraphNode **nodes, const CUgraphEdgeData **data, size_t *count),
           capture_info(s, ptds, status, id, graph, nodes, (const struct edge_data **)(void *)data,
                        count))
#endif

/* ---- changing what comes next -------------------------------------------------------------------------------------------- */

/* Under graph_lock. */
static CUresult update_locked(struct capture *c, const CUgraphNode *nodes,
                              const struct edge_data *data, size_t n, unsigned int flags)
{
    CUresult rc = c != NULL ? sequence_usable(c->sequence) : CUDA_ERROR_ILLEGAL_STATE;
    if (rc != CUDA_SUCCESS)
        return rc;
    for (size_t i = 0; i < n; i++) {
        const struct sim_node *node = node_find(nodes[i]);
        if (node == NULL || node->graph != c->sequence->graph)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        c->count = 0;
    for (size_t i = 0; i < n; i++)
        if (!member_depend(c, nodes[i], data != NULL ? data[i] : (struct edge_data){{0}}))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult update(CUstream hstream, bool ptds, const CUgraphNode *nodes,
                       const struct edge_data *data, size_t n, unsigned int flags)
{
    struct sim_context *ctx;
    struct sim_stream *s;
    CUresult rc = stream_enter(hstream, ptds, &ctx, &s);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (n != 0 && nodes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&graph_lock);
    rc = update_locked(s->capture, nodes, data, n, flags);
    pthread_mutex_unlock(&graph_lock);
    return rc;
}

STREAM_API(cuStreamUpdateCaptureDependencies,
           (CUstream s, CUgraphNode *nodes, size_t n, unsigned int flags),
           update(s, ptds, nodes, NULL, n, flags))
#if CUDA_VERSION >= 12030
STREAM_API(cuStreamUpdateCaptureDependencies_v2,
           (CUstream s, CUgraphNode *nodes, const CUgraphEdgeData *data, size_t n,
            unsigned int flags),
           update(s, ptds, nodes, (const struct edge_data *)(const void *)data, n, flags))
#endif

SIM_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
