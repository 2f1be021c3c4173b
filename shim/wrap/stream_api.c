/*
 * stream_api.c - streams come, change, capture and go.
 */
#include "shim/path/drain.h"
#include "shim/lookup/unknown.h"
#include "shim/wrap/op.h"

static void created(CUresult r, const CUstream *stream)
{
    if (r != CUDA_SUCCESS || thread_bypasses())
        return;
    stream_created(*stream);
    /* A plug-in that came meanwhile may make this stream; its direct links may end buffering. */
    uint32_t before = atomic_load(&inline_reasons);
    unknown_look_links();
    if (atomic_load(&inline_reasons) & ~before)
        drain_all(false);
}

/* Natively a destroyed stream is gone. Here some may still wait for what they have buffered, which
 * is submitted to make room. */
static bool room_made(CUresult r)
{
    struct shim_context *ctx =
        r != CUDA_ERROR_OUT_OF_MEMORY || thread_bypasses() ? NULL : context_current_known();
    if (!ctx || !ctx->set)
        return false;
    context_get(ctx);
    vhq_set_drain(ctx->set, VHQ_DRAIN_ALL, false);
    stream_reap(ctx);
    context_put(ctx);
    return true;
}

#define CREATES(sym, ...)                                                                          \
    WRAPPED(sym, , if (unlikely(room_made(r))) r = REAL(sym)(EACH_VALUE(__VA_ARGS__));             \
            created(r, stream), __VA_ARGS__)
CREATES(cuStreamCreate, (CUstream *, stream), (unsigned int, flags))
CREATES(cuStreamCreateWithPriority, (CUstream *, stream), (unsigned int, flags), (int, priority))
CREATES(cuGreenCtxStreamCreate, (CUstream *, stream), (CUgreenCtx, green), (unsigned int, flags),
        (int, priority))

/* The last command of its vHQ. stream_reap makes the driver's destroy: until the vHQ is gone, a
 * thread may want to put a marker into the stream. */
static int destroy_run(void *payload)
{
    struct shim_stream *s = *(struct shim_stream **)payload;
    atomic_store(&s->ctx->reap, true);
    atomic_store(&s->state, STREAM_DESTROYED);
    return 0;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream handle)
{
    struct shim_stream *s =
        thread_bypasses() || !handle || stream_is_default(handle) ? NULL : stream_known(handle);
    if (!s || MUTANT(stream_destroy_early))
        return REAL(cuStreamDestroy_v2)(handle);
    struct shim_context *ctx = s->ctx;
    bool captures = capture_active(s);
    stream_leave(s);
    stream_reap(ctx);
    if (s->q)
        vhq_release(s->q); /* no thread can name it any more to end its own hold */
    if (s->q && vhq_pending(s->q)) {
        struct vhq_cmd *cmd;
        struct vhq_req req = {.bytes = sizeof(s), .flags = VHQ_UNCOUNTED | VHQ_MUST_BUFFER};
        struct vhq *q = s->q;
        vhq_begin(q, &req, &cmd);
        cmd->run = destroy_run;
        cmd->drop = NULL;
        *(struct shim_stream **)cmd->payload = s;
        vhq_end(q, NULL, 0);
        return CUDA_SUCCESS;
    }
    stream_end(s, !captures);
    return REAL(cuStreamDestroy_v2)(handle);
}

EXPORT CUresult cuStreamDestroy(CUstream handle)
{
    return cuStreamDestroy_v2(handle);
}

/* ---- attributes: they apply to what is submitted from then on ------------------------------- */

OP_RUN(cuStreamCopyAttributes, REAL(cuStreamCopyAttributes)(a->stream, a->source),
       (CUstream, source))
BOTH(cuStreamCopyAttributes, (CUstream, dst), (CUstream, src))
{
    struct cuStreamCopyAttributes_args a = {dst, stream_normal(src, ptds)};
    return op_turn(cuStreamCopyAttributes_run, &a, 0, ptds);
}
OP_RUN(cuStreamSetAttribute, REAL(cuStreamSetAttribute)(a->stream, a->which, a->value),
       (CUstreamAttrID, which), (const CUstreamAttrValue *, value))
BOTH(cuStreamSetAttribute, (CUstream, stream), (CUstreamAttrID, which),
     (const CUstreamAttrValue *, value))
{
    struct cuStreamSetAttribute_args a = {stream, which, value};
    return op_turn(cuStreamSetAttribute_run, &a, 0, ptds);
}

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

/* `real` makes the driver's call. The capture begins behind what was called before it. */
#define BEGINS(sym, real, ...)                                                                     \
    struct sym##_args {                                                                            \
        EACH(OP_FIELD, __VA_ARGS__)                                                                \
    };                                                                                             \
    static CUresult sym##_run(const void *args)                                                    \
    {                                                                                              \
        const struct sym##_args *a = args;                                                         \
        return real(OP_COMMAS(EACH(OP_USE_, __VA_ARGS__)));                                        \
    }                                                                                              \
    BOTH(sym, __VA_ARGS__)                                                                         \
    {                                                                                              \
        struct sym##_args a = {EACH(OP_INIT, __VA_ARGS__)};                                        \
        struct begin b = {call_stream(&a.stream, ptds), sym##_run, &a};                            \
        struct call c = {.now = begin_now, .args = &b, .req = {.flags = VHQ_UNCOUNTED}};           \
        return call_on(&c, MUTANT(capture_undrained) ? NULL : b.known);                            \
    }

BEGINS(cuStreamBeginCapture, REAL(cuStreamBeginCapture), (CUstream, stream))
BEGINS(cuStreamBeginCapture_v2, REAL(cuStreamBeginCapture_v2), (CUstream, stream),
       (CUstreamCaptureMode, mode))
BEGINS(cuStreamBeginCaptureToGraph, REAL(cuStreamBeginCaptureToGraph), (CUstream, stream),
       (CUgraph, graph), (const CUgraphNode *, dependencies), (const CUgraphEdgeData *, edges),
       (size_t, count), (CUstreamCaptureMode, mode))
BEGINS(cuStreamBeginRecaptureToGraph, REAL(cuStreamBeginRecaptureToGraph), (CUstream, stream),
       (CUstreamCaptureMode, mode), (CUgraph, graph), (CUgraphRecaptureCallback, changed),
       (void *, user))

/* Notes that the capture makes a command list of a graphics API (CUDA in Graphics). */
static CUresult cig_begin(CUstream stream, CUstreamCigCaptureParams *params)
{
    struct shim_stream *s = thread_bypasses() ? NULL : stream_known(stream);
    if (s)
        s->cig = true;
    CUresult r = REAL(cuStreamBeginCaptureToCig)(stream, params);
    if (s && r != CUDA_SUCCESS)
        s->cig = false;
    return r;
}
BEGINS(cuStreamBeginCaptureToCig, cig_begin, (CUstream, stream),
       (CUstreamCigCaptureParams *, params))

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
