/*
 * capture.c - begin and end of stream capture.
 */
#include "shim/lookup/each.h"
#include "shim/path/call.h"

/* ---- begin -------------------------------------------------------------------------------- */

struct begin {
    struct shim_stream *known; /* NULL: nothing of the shim's gets into the capture */
    CUresult (*call)(const void *args);
    const void *args;
};

/* A capture begins in the stream's turn, so no thread marks the stream meanwhile. It is counted
 * before it begins, so no thread marks the stream afterwards. What goes into the legacy stream does
 * not matter to a nonblocking stream. */
static int begin_now(void *args)
{
    const struct begin *b = args;
    if (!b->known)
        return (int)b->call(b->args);
    bool apart = b->known->kind == VHQ_NONBLOCKING;
    if (!apart)
        capture_begin_lock(b->known->ctx->legacy);
    capture_begin_lock(b->known);
    atomic_fetch_add(&capture_count, 1);
    CUresult r = b->call(b->args);
    if (r == CUDA_SUCCESS)
        capture_begun(b->known);
    else
        atomic_fetch_sub(&capture_count, 1);
    capture_begin_unlock(b->known);
    if (!apart)
        capture_begin_unlock(b->known->ctx->legacy);
    return (int)r;
}

/* As WRAPPED, around the driver's call with the arguments `a`. The capture begins behind what was
 * called before it. */
#define BEGINS(sym, before, after, ...)                                                            \
    struct sym##_args {                                                                            \
        EACH(OP_FIELD, __VA_ARGS__)                                                                \
    };                                                                                             \
    static CUresult sym##_run(const void *args)                                                    \
    {                                                                                              \
        const struct sym##_args *a = args;                                                         \
        before;                                                                                    \
        CUresult r = REAL(sym)(OP_COMMAS(EACH(OP_USE_, __VA_ARGS__)));                             \
        after;                                                                                     \
        return r;                                                                                  \
    }                                                                                              \
    BOTH(sym, __VA_ARGS__)                                                                         \
    {                                                                                              \
        struct sym##_args a = {EACH(OP_INIT, __VA_ARGS__)};                                        \
        struct begin b = {call_stream(&a.stream, ptds), sym##_run, &a};                            \
        struct call c = {.now = begin_now, .args = &b, .req = {.flags = VHQ_UNCOUNTED}};           \
        return call_on(&c, MUTANT(capture_undrained) ? NULL : b.known);                            \
    }

BEGINS(cuStreamBeginCapture, , , (CUstream, stream))
BEGINS(cuStreamBeginCapture_v2, , , (CUstream, stream), (CUstreamCaptureMode, mode))
BEGINS(cuStreamBeginCaptureToGraph, , , (CUstream, stream), (CUgraph, graph),
       (const CUgraphNode *, dependencies), (const CUgraphEdgeData *, edges), (size_t, count),
       (CUstreamCaptureMode, mode))
BEGINS(cuStreamBeginRecaptureToGraph, , , (CUstream, stream), (CUstreamCaptureMode, mode),
       (CUgraph, graph), (CUgraphRecaptureCallback, changed), (void *, user))

/* Notes that the capture makes a command list of a graphics API (CUDA in Graphics). */
static struct shim_stream *cig_begin(CUstream stream)
{
    struct shim_stream *s = thread_bypasses() ? NULL : stream_known(stream);
    if (s)
        s->cig = true;
    return s;
}

BEGINS(cuStreamBeginCaptureToCig, struct shim_stream *s = cig_begin(a->stream),
       if (s && r != CUDA_SUCCESS) s->cig = false, (CUstream, stream),
       (CUstreamCigCaptureParams *, params))

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
