/*
 * queues.c - all streams of a context: they are made with it, waited for, and destroyed with it.
 */
#include "tools/simgpu/stream/engine.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/points.h"
#include "tools/simgpu/stream/rm.h"
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/stream/capture.h"

static CUresult device_context_make(struct sim_context *ctx)
{
    ctx->device_context = ctx->base ? ctx->base->device_context : 0;
    if (config_get()->null_mode || ctx->base)
        return CUDA_SUCCESS;
    device_lock(engine_device());
    ctx->device_context = device_context_open(engine_device(), (uint32_t)ctx->ordinal);
    if (ctx->device_context && config_get()->sm_share < 100)
        engine_device()->shared->contexts[ctx->device_context % DEVICE_CONTEXTS].sms =
            config_context_sms();
    device_unlock(engine_device());
    if (!ctx->device_context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rm_group_open(ctx->device_context, ctx->ordinal);
    return CUDA_SUCCESS;
}

static CUresult queues_open(struct sim_context *ctx)
{
    TRY(engine_start());
    if (!ctx->queues) { /* they outlive the context, as struct sim_context does */
        struct context_queues *q = calloc(1, sizeof(*q));
        if (!q)
            return CUDA_ERROR_OUT_OF_MEMORY;
        pthread_mutex_init(&q->lock, NULL);
        ctx->queues = q;
    }
    TRY(device_context_make(ctx));
    return stream_create(ctx, STREAM_LEGACY, CU_STREAM_DEFAULT, 0, &queues_of(ctx)->legacy);
}

/* NULL if the list is empty, apart from streams that are being destroyed. */
static struct sim_stream *stream_still_live(struct context_queues *q)
{
    SCOPED_LOCK(&q->lock);
    struct sim_stream *s = q->streams;
    while (s && !atomic_load(&s->handle.live))
        s = s->next;
    return s;
}

static void queues_close(struct sim_context *ctx)
{
    struct sim_stream *s;
    context_wait_idle(ctx);
    pthread_mutex_lock(&own_streams_lock);
    while ((s = stream_still_live(queues_of(ctx)))) {
        if (capture_active(s))
            capture_stream_gone(s);
        stream_destroy(s);
    }
    pthread_mutex_unlock(&own_streams_lock);
    if (config_get()->null_mode || engine_stopped() || ctx->base)
        return;
    rm_group_close(ctx->device_context, ctx->ordinal);
    uint64_t now = device_lock_now();
    device_context_close(engine_device(), ctx->device_context);
    device_unlock_at(now);
}
CONTEXT_PART(CONTEXT_STREAMS, queues_open, queues_close)

/* ---- waiting --------------------------------------------------------------------------------- */

static void points_of_green(struct sim_context *green, void *set)
{
    points_of_context(green, false, NULL, set);
}

/* For a primary context this includes its green ones. */
CUresult context_wait_idle(struct sim_context *ctx)
{
    struct points set;
    set.count = 0;
    points_of_context(ctx, false, NULL, &set);
    context_green_each(ctx, points_of_green, &set);
    return points_wait(ctx, &set);
}

static CUresult synchronize(CUcontext handle)
{
    struct sim_context *ctx;
    TRY(context_arg(handle, &ctx));
    TRY(atomic_load(&ctx->error));
    TRY(capture_forbids_context(ctx));
    return pools_trim(context_wait_idle(ctx));
}

SIM_CALL(cuCtxSynchronize, (void), synchronize(NULL))
#if CUDA_VERSION >= 13000
SIM_CALL(cuCtxSynchronize_v2, (CUcontext handle), synchronize(handle))
#endif
