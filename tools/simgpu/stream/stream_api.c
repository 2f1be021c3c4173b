/*
 * stream_api.c - the stream calls of the driver API: create, destroy, ask, wait.
 */
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/face/variants.h"
#include "tools/simgpu/stream/capture.h"

enum { PRIORITY_GREATEST = -5, PRIORITY_LEAST = 0 };

/* ---- create and destroy ---------------------------------------------------------------------- */

static CUresult stream_make(CUstream *out, struct sim_context *ctx, unsigned int flags,
                            int priority)
{
    struct sim_stream *s;
    priority = priority < PRIORITY_GREATEST ? PRIORITY_GREATEST : priority;
    priority = priority > PRIORITY_LEAST ? PRIORITY_LEAST : priority;
    TRY(stream_create(ctx, STREAM_CREATED, flags, priority, &s));
    *out = stream_handle(s);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    if (!out || flags & ~(unsigned int)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    return stream_make(out, ctx, flags, priority);
}

/* Returns at once. What is queued still runs. */
SIM_EXPORT CUresult cuStreamDestroy_v2(CUstream handle)
{
    struct sim_context *ctx;
    struct sim_stream *s;
    CUresult rc = context_current(&ctx);
    if (rc != CUDA_SUCCESS && rc != CUDA_ERROR_INVALID_CONTEXT)
        return rc;
    if (!stream_of_any_context(handle, &s))
        return rc == CUDA_SUCCESS ? CUDA_ERROR_INVALID_HANDLE : rc;
    if (capture_active(s))
        capture_stream_gone(s);
    stream_destroy(s);
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12040
static CUgreenCtx green_handle(struct sim_context *ctx)
{
    return ctx->base ? (CUgreenCtx)(void *)ctx : NULL;
}
#endif

#if CUDA_VERSION >= 12050
SIM_EXPORT CUresult cuGreenCtxStreamCreate(CUstream *out, CUgreenCtx green, unsigned int flags,
                                           int priority)
{
    struct sim_context *ctx;
    TRY(green_find(green, &ctx));
    if (!out || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    return stream_make(out, ctx, flags, priority);
}
#endif

SIM_CALL(cuStreamCreate, (CUstream * out, unsigned int flags),
         cuStreamCreateWithPriority(out, flags, 0))
SIM_ALIAS(cuStreamDestroy, (CUstream stream), cuStreamDestroy_v2, stream)

/* ---- wait ------------------------------------------------------------------------------------ */

/* Any context may name a created stream; the default ones are those of the current context. */
static CUresult stream_arg_any(CUstream handle, bool ptds, struct sim_stream **s)
{
    struct sim_context *ctx;
    if (stream_of_any_context(handle, s)) {
        TRY(driver_ready());
        return atomic_load(&(*s)->context->error);
    }
    TRY(context_current_ok(&ctx));
    return stream_resolve(ctx, handle, ptds, s);
}

static CUresult stream_arg_uncaptured(CUstream handle, bool ptds, struct sim_stream **s)
{
    TRY(stream_arg_any(handle, ptds, s));
    TRY(capture_forbids_stream(*s));
    return stream_is_legacy(*s) ? capture_forbids_legacy((*s)->context) : CUDA_SUCCESS;
}

static CUresult query(CUstream handle, bool ptds)
{
    struct sim_stream *s;
    TRY(stream_arg_uncaptured(handle, ptds, &s));
    return stream_idle(s) ? atomic_load(&s->context->error) : CUDA_ERROR_NOT_READY;
}

static CUresult synchronize(CUstream handle, bool ptds)
{
    struct sim_stream *s;
    TRY(stream_arg_uncaptured(handle, ptds, &s));
    return pools_trim(stream_wait(s));
}

STREAM_API(cuStreamQuery, (CUstream s), query(s, ptds))
STREAM_API(cuStreamSynchronize, (CUstream s), synchronize(s, ptds))

/* ---- ask ------------------------------------------------------------------------------------- */

/* Finds the stream for a call that asks about it; `out` is where the answer goes. */
static CUresult asked(CUstream handle, bool ptds, const void *out, struct sim_stream **s)
{
    TRY(stream_arg_any(handle, ptds, s));
    return !out ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

#define ANSWER(symbol, type, value)                                                                \
    static CUresult symbol##_answer(CUstream handle, type *out, bool ptds)                         \
    {                                                                                              \
        struct sim_stream *s;                                                                      \
        TRY(asked(handle, ptds, out, &s));                                                         \
        *out = (value);                                                                            \
        return CUDA_SUCCESS;                                                                       \
    }                                                                                              \
    STREAM_API(symbol, (CUstream s, type * out), symbol##_answer(s, out, ptds))
ANSWER(cuStreamGetPriority, int, s->priority)
ANSWER(cuStreamGetFlags, unsigned int, s->flags)
ANSWER(cuStreamGetId, unsigned long long, s->id)
ANSWER(cuStreamGetCtx, CUcontext, context_handle(s->context))
ANSWER(cuStreamGetDevice, CUdevice, s->context->ordinal)

#if CUDA_VERSION >= 12050
static CUresult get_context_v2(CUstream handle, CUcontext *ctx, CUgreenCtx *green, bool ptds)
{
    struct sim_stream *s;
    TRY(asked(handle, ptds, ctx, &s));
    *ctx = context_handle(s->context->base ? s->context->base : s->context);
    if (green)
        *green = green_handle(s->context);
    return CUDA_SUCCESS;
}
STREAM_API(cuStreamGetCtx_v2, (CUstream s, CUcontext *ctx, CUgreenCtx *green),
           get_context_v2(s, ctx, green, ptds))

static CUresult get_resource(CUstream handle, CUdevResource *out, CUdevResourceType type, bool ptds)
{
    struct sim_stream *s;
    TRY(asked(handle, ptds, out, &s));
    return context_resource(s->context, out, type);
}

STREAM_API(cuStreamGetDevResource, (CUstream s, CUdevResource *out, CUdevResourceType type),
           get_resource(s, out, type, ptds))
#endif

#if CUDA_VERSION >= 12040
SIM_GETTER(cuStreamGetGreenCtx, (CUstream handle, CUgreenCtx *out), out, green_handle(s->context),
           struct sim_stream *s;
           TRY(stream_arg_any(handle, false, &s)))
#endif

/* ---- attributes ------------------------------------------------------------------------------ */

static const bool attribute_of_streams[] = {
    [CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW] = true,
    [CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY] = true,
    [CU_STREAM_ATTRIBUTE_PRIORITY] = true,
    [CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP] = true,
    [CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN] = true,
};

static bool attribute_known(CUstreamAttrID id)
{
    return (size_t)id < sizeof(attribute_of_streams) && attribute_of_streams[id];
}

static CUresult get_attribute(CUstream handle, CUstreamAttrID id, CUstreamAttrValue *out, bool ptds)
{
    struct sim_stream *s;
    TRY(stream_arg_any(handle, ptds, &s));
    if (!out || !attribute_known(id))
        return CUDA_ERROR_INVALID_VALUE;
    if (id == CU_STREAM_ATTRIBUTE_PRIORITY)
        out->priority = s->priority;
    else
        *out = s->attributes[id];
    return CUDA_SUCCESS;
}

/* Hints that have no effect here are kept and given back. A stream's priority is fixed when it is
 * created. */
static CUresult set_attribute(CUstream handle, CUstreamAttrID id, const CUstreamAttrValue *value,
                              bool ptds)
{
    struct sim_stream *s;
    TRY(stream_arg_any(handle, ptds, &s));
    if (!value || !attribute_known(id) || id == CU_STREAM_ATTRIBUTE_PRIORITY)
        return CUDA_ERROR_INVALID_VALUE;
    s->attributes[id] = *value;
    return CUDA_SUCCESS;
}

static CUresult copy_attributes(CUstream to, CUstream from, bool ptds)
{
    struct sim_stream *dst, *src;
    TRY(stream_arg_any(to, ptds, &dst));
    TRY(stream_arg_any(from, ptds, &src));
    if (dst->context != src->context)
        return CUDA_ERROR_INVALID_VALUE;
    memmove(dst->attributes, src->attributes, sizeof(dst->attributes));
    return CUDA_SUCCESS;
}

STREAM_API(cuStreamGetAttribute, (CUstream s, CUstreamAttrID id, CUstreamAttrValue *out),
           get_attribute(s, id, out, ptds))
STREAM_API(cuStreamSetAttribute, (CUstream s, CUstreamAttrID id, const CUstreamAttrValue *value),
           set_attribute(s, id, value, ptds))
STREAM_API(cuStreamCopyAttributes, (CUstream to, CUstream from), copy_attributes(to, from, ptds))
