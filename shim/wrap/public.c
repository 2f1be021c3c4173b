/*
 * public.c - the few functions that are cutin's own (see cutin.h).
 */
#define CUTIN_LIBRARY
#include "shim/cutin.h"
#include "scheduler/client/client.h"
#include "shim/path/call.h"
#include "shim/path/counters.h"

EXPORT const char *cutin_version(void)
{
    return CUTIN_VERSION;
}

/* The stream's queue, which stays alive until context_put. NULL: the stream has none. */
static struct vhq *queue_enter(CUstream stream, struct shim_context **ctx, CUresult *result)
{
    struct shim_stream *s = call_stream(&stream, false);
    *result = !s     ? thread_bypasses() ? CUTIN_NOT_LOADED : CUDA_ERROR_INVALID_HANDLE
              : s->q ? CUDA_SUCCESS
                     : CUDA_ERROR_NOT_SUPPORTED;
    if (!s || !s->q)
        return NULL;
    *ctx = s->ctx;
    context_get(*ctx); /* another thread may be destroying the context */
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
    context_put(ctx);
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
        context_put(ctx);
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

EXPORT CUresult cutin_stream_state(CUstream stream, struct cutin_stream_state *state)
{
    struct shim_context *ctx;
    CUresult r;
    if (!state || state->size != sizeof(*state))
        return CUDA_ERROR_INVALID_VALUE;
    struct shim_stream *s = call_stream(&stream, false);
    if (!s)
        return thread_bypasses() ? CUTIN_NOT_LOADED : CUDA_ERROR_INVALID_HANDLE;
    *state = (struct cutin_stream_state){.size = sizeof(*state), .level = s->level};
    struct vhq *q = queue_enter(stream, &ctx, &r);
    if (!q)
        return CUDA_SUCCESS;
    struct vhq_stats stats;
    vhq_get_stats(q, &stats);
    state->queued = 1;
    const _Atomic uint32_t *word =
        s->ctx->gpu->index < 0 ? NULL : client_hold_word(s->ctx->gpu->index, s->level);
    state->held = (word && atomic_load(word) ? CUTIN_HELD_BY_OTHERS : 0) |
                  (vhq_held(s->q) ? CUTIN_HELD_BY_PROGRAM : 0);
    state->buffered = stats.buffered_now;
    state->in_flight = stats.in_flight_now + (uint32_t)counters_pending(s);
    state->submitted = stats.submitted;
    state->dropped = stats.dropped;
    context_put(ctx);
    return CUDA_SUCCESS;
}
