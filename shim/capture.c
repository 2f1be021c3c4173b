/*
 * capture.c - begin and end of stream capture (see capture.h).
 */
#include "shim/capture.h"

#include "shim/call.h"
#include "vhq/bite.h"

_Atomic uint32_t capture_count;
pthread_mutex_t capture_beginning = PTHREAD_MUTEX_INITIALIZER;

bool capture_active(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    /* CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: the legacy stream while a blocking one captures. */
    return REAL(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* ---- begin -------------------------------------------------------------------------------- */

struct begin {
    CUstream stream;
    CUresult (*call)(const struct begin *b);
    CUstreamCaptureMode mode;
    CUgraph graph;
    const CUgraphNode *dependencies;
    const void *edges;
    size_t count;
};

/* In the stream's turn, so that nobody marks the stream meanwhile; and counted before it begins, so
 * that nobody marks it afterwards. */
static int begin_now(void *args)
{
    const struct begin *b = args;
    pthread_mutex_lock(&capture_beginning);
    atomic_fetch_add(&capture_count, 1);
    CUresult r = b->call(b);
    pthread_mutex_unlock(&capture_beginning);
    if (r != CUDA_SUCCESS)
        atomic_fetch_sub(&capture_count, 1);
    return (int)r;
}

/* What was called before the capture belongs in front of it. */
static CUresult capture_begin(struct begin *b, bool ptds)
{
    struct call c = {.now = begin_now, .args = b, .req = {.flags = VHQ_FREE}};
    struct shim_stream *s = call_stream(&b->stream, ptds);
    return call_on(&c, BITE(capture_undrained) ? NULL : s);
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

#if CUDA_VERSION >= 12030
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
#endif

/* ---- end ---------------------------------------------------------------------------------- */

static CUresult capture_end(CUstream stream, CUgraph *graph, bool ptds)
{
    stream = stream_normal(stream, ptds);
    bool before = capture_any() && capture_active(stream);
    CUresult r = REAL(cuStreamEndCapture)(stream, graph);
    if (before && !capture_active(stream))
        atomic_fetch_sub(&capture_count, 1);
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
