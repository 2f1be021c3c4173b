/*
 * capture.c - begin and end of stream capture.
 */
#include "shim/objects/capture.h"

#include "common/mutant.h"
#include "shim/lookup/each.h"
#include "shim/path/call.h"
#include "shim/objects/thread.h"
#include "shim/objects/stream.h"

/* ---- begin -------------------------------------------------------------------------------- */

struct begin {
    CUstream stream;
    struct shim_stream *known; /* NULL: nothing of ours gets into it */
    CUresult (*call)(const struct begin *b);
    CUstreamCaptureMode mode;
    CUgraph graph;
    const CUgraphNode *dependencies;
    const CUgraphEdgeData *edges;
    size_t count;
    CUgraphRecaptureCallback changed;
    void *user;
    CUstreamCigCaptureParams *params; /* a command list of a graphics API (CUDA in Graphics) */
};

/* In the stream's turn, so that nobody marks the stream meanwhile; and counted before it begins, so
 * that nobody marks it afterwards. What goes into the legacy stream is nothing to one that does not
 * block. */
static int begin_now(void *args)
{
    const struct begin *b = args;
    if (!b->known)
        return (int)b->call(b);
    bool apart = b->known->kind == VHQ_NONBLOCKING;
    if (!apart)
        capture_shut(b->known->ctx->legacy);
    capture_shut(b->known);
    atomic_fetch_add(&capture_count, 1);
    CUresult r = b->call(b);
    if (r == CUDA_SUCCESS)
        capture_begun(b->known);
    else
        atomic_fetch_sub(&capture_count, 1);
    capture_open(b->known);
    if (!apart)
        capture_open(b->known->ctx->legacy);
    return (int)r;
}

/* What was called before the capture belongs in front of it. */
static CUresult capture_begin(struct begin *b, bool ptds)
{
    struct call c = {.now = begin_now, .args = b, .req = {.flags = VHQ_UNCOUNTED}};
    b->known = call_stream(&b->stream, ptds);
    return call_on(&c, MUTANT(capture_undrained) ? NULL : b->known);
}

static CUresult begin_v1(const struct begin *b)
{
    return REAL(cuStreamBeginCapture)(b->stream);
}
static CUresult begin_v2(const struct begin *b)
{
    return REAL(cuStreamBeginCapture_v2)(b->stream, b->mode);
}

BOTH(cuStreamBeginCapture, (CUstream, stream))
{
    struct begin b = {.stream = stream, .call = begin_v1};
    return capture_begin(&b, ptds);
}
BOTH(cuStreamBeginCapture_v2, (CUstream, stream), (CUstreamCaptureMode, mode))
{
    struct begin b = {.stream = stream, .call = begin_v2, .mode = mode};
    return capture_begin(&b, ptds);
}

static CUresult begin_to_graph(const struct begin *b)
{
    return REAL(cuStreamBeginCaptureToGraph)(b->stream, b->graph, b->dependencies, b->edges,
                                             b->count, b->mode);
}

BOTH(cuStreamBeginCaptureToGraph, (CUstream, stream), (CUgraph, graph),
     (const CUgraphNode *, dependencies), (const CUgraphEdgeData *, edges), (size_t, count),
     (CUstreamCaptureMode, mode))
{
    struct begin b = {.stream = stream,
                      .call = begin_to_graph,
                      .mode = mode,
                      .graph = graph,
                      .dependencies = dependencies,
                      .edges = edges,
                      .count = count};
    return capture_begin(&b, ptds);
}

static CUresult begin_again(const struct begin *b)
{
    return REAL(cuStreamBeginRecaptureToGraph)(b->stream, b->mode, b->graph, b->changed, b->user);
}

BOTH(cuStreamBeginRecaptureToGraph, (CUstream, stream), (CUstreamCaptureMode, mode),
     (CUgraph, graph), (CUgraphRecaptureCallback, changed), (void *, user))
{
    struct begin b = {.stream = stream,
                      .call = begin_again,
                      .mode = mode,
                      .graph = graph,
                      .changed = changed,
                      .user = user};
    return capture_begin(&b, ptds);
}

static CUresult begin_cig(const struct begin *b)
{
    struct shim_stream *s = thread_bypasses() ? NULL : stream_known(b->stream);
    if (s)
        s->cig = true;
    CUresult r = REAL(cuStreamBeginCaptureToCig)(b->stream, b->params);
    if (s && r != CUDA_SUCCESS)
        s->cig = false;
    return r;
}

BOTH(cuStreamBeginCaptureToCig, (CUstream, stream), (CUstreamCigCaptureParams *, params))
{
    struct begin b = {.stream = stream, .call = begin_cig, .params = params};
    return capture_begin(&b, ptds);
}

/* ---- end ---------------------------------------------------------------------------------- */

BOTH(cuStreamEndCapture, (CUstream, stream), (CUgraph *, graph))
{
    struct shim_stream *s = thread_bypasses() ? NULL : stream_known(stream_normal(stream, ptds));
    CUresult r = REAL(cuStreamEndCapture)(stream_normal(stream, ptds), graph);
    if (s)
        capture_maybe_over(s);
    return r;
}

BOTH(cuStreamEndCaptureToCig, (CUstream, stream))
{
    stream = stream_normal(stream, ptds);
    struct shim_stream *s = capture_any() ? stream_known(stream) : NULL;
    CUresult r = REAL(cuStreamEndCaptureToCig)(stream);
    if (r == CUDA_SUCCESS && s && atomic_exchange(&s->cig, false))
        capture_over(s);
    return r;
}
