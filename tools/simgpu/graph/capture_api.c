/*
 * capture_api.c - the API of captures: begin one, ask about it, change what it depends on, end it.
 */
#include "tools/simgpu/graph/sequence.h"
#include "tools/simgpu/face/variants.h"
#include "tools/simgpu/stream/capture.h"

#include <utlist.h>

/* ---- begin ----------------------------------------------------------------------------------- */

struct begin {
    CUgraph graph; /* the graph to capture into; NULL: a new one */
    const CUgraphNode *nodes;
    const struct edge_data *data;
    size_t count;
};

static bool nodes_of(const struct sim_graph *g, const CUgraphNode *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct sim_node *node = node_find(nodes[i]);
        if (!node || node->graph != g)
            return false;
    }
    return true;
}

static bool member_depend_all(struct capture *c, const CUgraphNode *nodes,
                              const struct edge_data *data, size_t n)
{
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = member_depend(c, nodes[i], data ? data[i] : (struct edge_data){{0}});
    return ok;
}

static CUresult begin(CUstream hstream, bool ptds, CUstreamCaptureMode mode, const struct begin *b)
{
    struct sim_stream *s;
    TRY(stream_arg(hstream, ptds, NULL, &s));
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED || (b->count != 0 && !b->nodes))
        return CUDA_ERROR_INVALID_VALUE;
    if (stream_is_legacy(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    SCOPED_LOCK(&graph_lock);
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct sim_graph *g = b->graph ? graph_find(b->graph) : NULL;
    if (b->graph && (!g || g->capturing || !nodes_of(g, b->nodes, b->count)))
        return CUDA_ERROR_INVALID_VALUE;
    struct sequence *q = sequence_new(s, mode, g);
    struct capture *c = q ? member_add(q, s) : NULL;
    if (c && member_depend_all(c, b->nodes, b->data, b->count))
        return CUDA_SUCCESS;
    if (q)
        sequence_end(q);
    return CUDA_ERROR_OUT_OF_MEMORY;
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
    return graph ? begin(s, ptds, mode, &b) : CUDA_ERROR_INVALID_VALUE;
}

STREAM_API(cuStreamBeginCaptureToGraph,
           (CUstream s, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *data,
            size_t n, CUstreamCaptureMode mode),
           begin_into(s, ptds, graph, nodes, data, n, mode))

/* A capture that replaces what a graph holds (CUDA 13.3). The nodes are made anew, so their handles
 * change. The callback for nodes that do not match is not called. */
static CUresult begin_again(CUstream s, bool ptds, CUgraph graph, CUstreamCaptureMode mode)
{
    for (;;) {
        CUgraphNode node;
        size_t n = 1;
        TRY(cuGraphGetNodes(graph, &node, &n));
        if (n == 0)
            return begin_into(s, ptds, graph, NULL, NULL, 0, mode);
        TRY(cuGraphDestroyNode(node));
    }
}

#if CUDA_VERSION < 13030
typedef void *CUgraphRecaptureCallback;
#endif
STREAM_API(cuStreamBeginRecaptureToGraph,
           (CUstream s, CUstreamCaptureMode mode, CUgraph graph, CUgraphRecaptureCallback changed,
            void *user),
           ((void)changed, (void)user, begin_again(s, ptds, graph, mode)))
#endif

/* ---- end ------------------------------------------------------------------------------------- */

/* Whether the origin is behind each node that a member would continue from: all work is joined. */
static bool all_joined(const struct capture *members, const struct capture *origin)
{
    const struct capture *c;
    DL_FOREACH (members, c) {
        for (size_t i = 0; c != origin && i < c->count; i++)
            if (!member_is_behind(origin, c->nodes[i]))
                return false;
    }
    return true;
}

/* Whatever it returns, the capture is over; if it fails, its graph is gone, too. But only the
 * stream that began the capture may end it. */
static CUresult end(CUstream hstream, bool ptds, CUgraph *out)
{
    struct sim_stream *s;
    RELEASED(released);
    TRY(stream_arg(hstream, ptds, NULL, &s));
    if (out)
        *out = NULL;
    SCOPED_LOCK(&graph_lock);
    if (!s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct sequence *q = s->capture->sequence;
    if (q->origin != s) {
        sequence_invalidate(q);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    CUresult rc =
        q->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(q->thread, pthread_self())
            ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
            : sequence_usable(q);
    if (rc == CUDA_SUCCESS &&
        !(all_joined(q->members, s->capture) && all_joined(q->departed, s->capture)))
        rc = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    struct sim_graph *g = q->graph;
    bool ours = !q->into;
    sequence_end(q);
    if (rc == CUDA_SUCCESS && out)
        *out = graph_handle(g);
    else if (rc != CUDA_SUCCESS && ours)
        graph_free(g, &released);
    return rc;
}

STREAM_API(cuStreamEndCapture, (CUstream s, CUgraph *out), end(s, ptds, out))

/* ---- questions ------------------------------------------------------------------------------- */

#define PUT(pointer, value)                                                                        \
    do {                                                                                           \
        if (pointer)                                                                               \
            *(pointer) = (value);                                                                  \
    } while (0)

/* The legacy stream never captures. But while a blocking stream captures, it is an error even to
 * ask about the legacy one. The question does no harm to that capture. */
static CUresult capture_info(CUstream hstream, bool ptds, CUstreamCaptureStatus *status,
                             cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
                             const struct edge_data **data, size_t *count)
{
    struct sim_context *ctx;
    struct sim_stream *s;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    TRY(stream_arg(hstream, ptds, &ctx, &s));
    if (stream_is_legacy(s) && sequences_any(sequence_has_blocking, ctx, false))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (!capture_active(s))
        return CUDA_SUCCESS;
    SCOPED_LOCK(&graph_lock);
    const struct capture *c = s->capture;
    if (c)
        *status = c->sequence->status;
    if (!c || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    PUT(id, c->sequence->id);
    PUT(graph, graph_handle(c->sequence->graph));
    PUT(nodes, c->nodes);
    PUT(data, c->data);
    PUT(count, c->count);
    return CUDA_SUCCESS;
}

STREAM_API(cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus *out),
           capture_info(s, ptds, out, NULL, NULL, NULL, NULL, NULL))

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

/* ---- changing what comes next ---------------------------------------------------------------- */

static CUresult update(CUstream hstream, bool ptds, const CUgraphNode *nodes,
                       const struct edge_data *data, size_t n, unsigned int flags)
{
    struct sim_stream *s;
    TRY(stream_arg(hstream, ptds, NULL, &s));
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (n != 0 && !nodes))
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&graph_lock);
    struct capture *c = s->capture;
    TRY(c ? sequence_usable(c->sequence) : CUDA_ERROR_ILLEGAL_STATE);
    if (!nodes_of(c->sequence->graph, nodes, n))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        c->count = 0;
    return member_depend_all(c, nodes, data, n) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
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
