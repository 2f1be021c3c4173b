/*
 * capture.c - begin and end of stream capture.
 */
#include "shim/objects/capture.h"

#include "common/mutant.h"
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
};

static CUresult begin_counted(const struct begin *b)
{
    pthread_mutex_lock(&capture_beginning);
    atomic_fetch_add(&capture_count, 1);
    CUresult r = b->call(b);
    pthread_mutex_unlock(&capture_beginning);
    return r;
}

/* In the stream's turn, so that nobody marks the stream meanwhile; and counted before it begins, so
 * that nobody marks it afterwards. What goes into the legacy stream is nothing to one that does not
 * block. */
static int begin_now(void *args)
{
    const struct begin *b = args;
    if (!b->known)
        return (int)b->call(b);
    bool apart = b->known->kind == VHQ_NONBLOCKING && !MUTANT(capture_waits_for_legacy);
    if (!apart)
        pthread_mutex_lock(&capture_legacy);
    CUresult r = begin_counted(b);
    if (!apart)
        pthread_mutex_unlock(&capture_legacy);
    if (r != CUDA_SUCCESS || atomic_exchange(&b->known->captures, true))
        atomic_fetch_sub(&capture_count, 1);
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

#define BEGIN(suffix, ptds)                                                                        \
    EXPORT CUresult cuStreamBeginCapture##suffix(CUstream hStream)                                 \
    {                                                                                              \
        struct begin b = {.stream = hStream, .call = begin_v1};                                    \
        return capture_begin(&b, ptds);                                                            \
    }                                                                                              \
    EXPORT CUresult cuStreamBeginCapture_v2##suffix(CUstream hStream, CUstreamCaptureMode mode)    \
    {                                                                                              \
        struct begin b = {.stream = hStream, .call = begin_v2, .mode = mode};                      \
        return capture_begin(&b, ptds);                                                            \
    }
BEGIN(, false)
BEGIN(_ptsz, true)

static CUresult begin_to_graph(const struct begin *b)
{
    return REAL(cuStreamBeginCaptureToGraph)(b->stream, b->graph, b->dependencies, b->edges,
                                             b->count, b->mode);
}

#define BEGIN_TO_GRAPH(sym, ptds)                                                                  \
    EXPORT CUresult sym(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,         \
                        const CUgraphEdgeData *dependencyData, size_t numDependencies,             \
                        CUstreamCaptureMode mode)                                                  \
    {                                                                                              \
        struct begin b = {.stream = hStream,                                                       \
                          .call = begin_to_graph,                                                  \
                          .mode = mode,                                                            \
                          .graph = hGraph,                                                         \
                          .dependencies = dependencies,                                            \
                          .edges = dependencyData,                                                 \
                          .count = numDependencies};                                               \
        return capture_begin(&b, ptds);                                                            \
    }
BEGIN_TO_GRAPH(cuStreamBeginCaptureToGraph, false)
BEGIN_TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz, true)

static CUresult begin_again(const struct begin *b)
{
    return REAL(cuStreamBeginRecaptureToGraph)(b->stream, b->mode, b->graph, b->changed, b->user);
}

#define BEGIN_AGAIN(sym, ptds)                                                                     \
    EXPORT CUresult sym(CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,                \
                        CUgraphRecaptureCallback callbackFunc, void *userData)                     \
    {                                                                                              \
        struct begin b = {.stream = hStream,                                                       \
                          .call = begin_again,                                                     \
                          .mode = mode,                                                            \
                          .graph = hGraph,                                                         \
                          .changed = callbackFunc,                                                 \
                          .user = userData};                                                       \
        return capture_begin(&b, ptds);                                                            \
    }
BEGIN_AGAIN(cuStreamBeginRecaptureToGraph, false)
BEGIN_AGAIN(cuStreamBeginRecaptureToGraph_ptsz, true)

/* Into a command list of a graphics API (CUDA in Graphics). */
struct begin_cig {
    struct begin begin;
    CUstreamCigCaptureParams *params;
};

static CUresult begin_cig(const struct begin *b)
{
    struct shim_stream *s = thread_bypasses() ? NULL : stream_known(b->stream);
    if (s)
        s->cig = true;
    CUresult r = REAL(cuStreamBeginCaptureToCig)(b->stream, ((const struct begin_cig *)b)->params);
    if (s && r != CUDA_SUCCESS)
        s->cig = false;
    return r;
}

#define BEGIN_CIG(sym, ptds)                                                                       \
    EXPORT CUresult sym(CUstream hStream, CUstreamCigCaptureParams *streamCigCaptureParams)        \
    {                                                                                              \
        struct begin_cig b = {.begin = {.stream = hStream, .call = begin_cig},                     \
                              .params = streamCigCaptureParams};                                   \
        return capture_begin(&b.begin, ptds);                                                      \
    }
BEGIN_CIG(cuStreamBeginCaptureToCig, false)
BEGIN_CIG(cuStreamBeginCaptureToCig_ptsz, true)

/* ---- end ---------------------------------------------------------------------------------- */

static CUresult capture_end(CUstream stream, CUgraph *graph, bool ptds)
{
    struct shim_stream *s = thread_bypasses() ? NULL : stream_known(stream_normal(stream, ptds));
    CUresult r = REAL(cuStreamEndCapture)(stream_normal(stream, ptds), graph);
    if (s && atomic_load(&s->captures) && !capture_active(s))
        capture_over(s);
    return r;
}

EXPORT CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    return capture_end(hStream, phGraph, false);
}
EXPORT CUresult cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph)
{
    return capture_end(hStream, phGraph, true);
}

static CUresult cig_end(CUstream stream, bool ptds)
{
    stream = stream_normal(stream, ptds);
    struct shim_stream *s = capture_any() ? stream_known(stream) : NULL;
    CUresult r = REAL(cuStreamEndCaptureToCig)(stream);
    if (r == CUDA_SUCCESS && s && atomic_exchange(&s->cig, false))
        capture_over(s);
    return r;
}

EXPORT CUresult cuStreamEndCaptureToCig(CUstream hStream)
{
    return cig_end(hStream, false);
}
EXPORT CUresult cuStreamEndCaptureToCig_ptsz(CUstream hStream)
{
    return cig_end(hStream, true);
}
