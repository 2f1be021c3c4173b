/*
 * capture.c - stream capture. What is submitted to a stream that captures becomes a node of a graph
 * instead, and many other calls are forbidden. graph_lock guards all of it. Only the question
 * whether a stream is a member of a capture does without.
 */
#include "tools/simgpu/graph/sequence.h"
#include "tools/simgpu/stream/capture.h"

#include <utlist.h>

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool capture_active(const struct sim_stream *s)
{
    return __atomic_load_n(&s->capture, __ATOMIC_ACQUIRE);
}

/* ---- adding nodes ---------------------------------------------------------------------------- */

CUresult capture_add(struct sim_stream *s, const struct work *w)
{
    SCOPED_LOCK(&graph_lock);
    struct capture *c = s->capture;
    struct work here = *w;
    here.context = context_handle(s->context);
    TRY(c ? sequence_usable(c->sequence) : CUDA_ERROR_ILLEGAL_STATE);
    struct sim_node *node = node_new(c->sequence->graph, w->node_type, &here, 1);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = member_connect(c, node);
    if (rc != CUDA_SUCCESS) {
        struct graph_object *none = NULL;
        node_free(node, &none);
        sequence_invalidate(c->sequence);
        return rc;
    }
    if (w->drop && w->retain) /* the node has its own reference */
        here.drop(&here);
    return CUDA_SUCCESS;
}

/* ---- what a capture forbids ------------------------------------------------------------------ */

CUresult capture_forbids_legacy(struct sim_context *ctx)
{
    return sequences_any(sequence_has_blocking, ctx, true) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                                                           : CUDA_SUCCESS;
}

/* The rule of cuThreadExchangeStreamCaptureMode. A thread in relaxed mode may do anything. Any
 * other respects its own captures, and in global mode also all threads' global ones. */
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
    return sequences_any(forbids_this_thread, NULL, true) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                                          : CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    TRY(driver_ready());
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

static bool in_context(const struct sequence *q, const void *ctx)
{
    const struct capture *c;
    DL_FOREACH (q->members, c) {
        if (c->stream->context == ctx)
            return true;
    }
    return q->ctx == ctx;
}

CUresult capture_forbids_context(struct sim_context *ctx)
{
    return sequences_any(in_context, ctx, true) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                                : CUDA_SUCCESS;
}

CUresult capture_forbids_stream(struct sim_stream *s)
{
    if (!capture_active(s))
        return CUDA_SUCCESS;
    SCOPED_LOCK(&graph_lock);
    if (!s->capture)
        return CUDA_SUCCESS;
    sequence_invalidate(s->capture->sequence);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* A capture whose origin is destroyed can no longer be ended by a call, so it ends here. Other
 * members may be destroyed: what they did is in the graph. */
void capture_stream_gone(struct sim_stream *s)
{
    RELEASED(released);
    SCOPED_LOCK(&graph_lock);
    struct sequence *q = s->capture ? s->capture->sequence : NULL;
    if (q && q->origin != s) {
        member_depart(s->capture);
    } else if (q) {
        struct sim_graph *ours = q->into ? NULL : q->graph;
        sequence_end(q);
        if (ours)
            graph_free(ours, &released);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static void mark_free(struct capture_mark *mark)
{
    if (!mark)
        return;
    sequence_put(mark->sequence);
    free(mark);
}

void capture_event_forget(struct capture_mark **mark)
{
    SCOPED_LOCK(&graph_lock);
    mark_free(*mark);
    *mark = NULL;
}

CUresult capture_event_record(struct sim_stream *s, struct capture_mark **mark)
{
    SCOPED_LOCK(&graph_lock);
    const struct capture *c = s->capture;
    TRY(c ? sequence_usable(c->sequence) : CUDA_ERROR_ILLEGAL_STATE);
    struct capture_mark *m = malloc(sizeof(*m) + c->count * sizeof(*m->nodes));
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->sequence = c->sequence;
    m->sequence->refs++;
    m->count = c->count;
    if (c->count != 0)
        memcpy(m->nodes, c->nodes, c->count * sizeof(*m->nodes));
    mark_free(*mark);
    *mark = m;
    return CUDA_SUCCESS;
}

CUresult capture_event_check(struct capture_mark *const *mark)
{
    SCOPED_LOCK(&graph_lock);
    if (!*mark)
        return CUDA_SUCCESS;
    if ((*mark)->sequence->graph)
        sequence_invalidate((*mark)->sequence);
    return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult capture_event_wait(struct sim_stream *s, struct capture_mark *const *mark, bool *captured)
{
    *captured = false;
    if (!capture_active(s) && !*mark)
        return CUDA_SUCCESS;
    SCOPED_LOCK(&graph_lock);
    const struct capture_mark *m = *mark;
    *captured = s->capture || m;
    if (!*captured)
        return CUDA_SUCCESS;
    if (!m) { /* the event was recorded outside of the capture */
        sequence_invalidate(s->capture->sequence);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    struct sequence *q = m->sequence;
    if (!q->graph) /* the capture of the event has ended */
        return CUDA_ERROR_CAPTURED_EVENT;
    if (s->capture && s->capture->sequence != q) {
        sequence_invalidate(s->capture->sequence);
        sequence_invalidate(q);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    TRY(sequence_usable(q));
    if (!s->capture && stream_is_legacy(s)) {
        sequence_invalidate(q);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    /* The stream joins the capture if it was outside, and depends on what the event saw. */
    struct capture *c = s->capture ? s->capture : member_add(q, s);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < m->count; i++)
        if (!member_depend(c, m->nodes[i], (struct edge_data){{0}}))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}
