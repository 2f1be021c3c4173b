/*
 * public.c - the few functions of cutin's own (see cutin.h).
 */
#include "scheduler/client.h"
#include "shim/call.h"
#include "shim/cutin.h"

EXPORT const char *cutin_version(void)
{
    return CUTIN_VERSION;
}

/* The stream's queue, kept alive until queue_leave; NULL where it has none. */
static struct vhq *queue_enter(CUstream stream, struct shim_context **ctx, CUresult *result)
{
    struct shim_stream *s = call_stream(&stream, false);
    *result = !s ? CUDA_ERROR_INVALID_HANDLE : s->q ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    if (!s || !s->q)
        return NULL;
    *ctx = s->ctx;
    context_enter(*ctx); /* another thread may be destroying the context */
    return s->q;
}

EXPORT unsigned int cutin_stream_reset(CUstream stream)
{
    struct shim_context *ctx;
    CUresult r;
    struct vhq *q = queue_enter(stream, &ctx, &r);
    if (!q)
        return 0;
    unsigned int dropped = vhq_reset(q);
    context_leave(ctx);
    return dropped;
}

EXPORT unsigned int cuResetHQ(CUstream stream)
{
    return cutin_stream_reset(stream);
}

static CUresult with_queue(CUstream stream, void (*act)(struct vhq *))
{
    struct shim_context *ctx;
    CUresult r;
    struct vhq *q = queue_enter(stream, &ctx, &r);
    if (q) {
        act(q);
        context_leave(ctx);
    }
    return r;
}

EXPORT CUresult cutin_stream_hold(CUstream stream)
{
    return with_queue(stream, vhq_hold);
}

EXPORT CUresult cutin_stream_release(CUstream stream)
{
    return with_queue(stream, vhq_release);
}

EXPORT void cutin_hint_deadline(unsigned int us)
{
    if (!call_native())
        client_hint_deadline(us);
}
