/*
 * primary.c - a device's primary context, which all that retain it share.
 */
#include "tools/simgpu/device/context.h"

enum { DEVICES_MAX = 64 };

static pthread_cond_t ended = PTHREAD_COND_INITIALIZER; /* a context's `ending` went false */
static struct sim_context
    *primaries[DEVICES_MAX]; /* by ordinal; made on first retain; under context_lock */
static unsigned int primary_flags[DEVICES_MAX];

/* The device's primary context; makes it if there is none yet. Under context_lock. */
static struct sim_context *primary_of(CUdevice dev)
{
    if (!primaries[dev]) {
        struct sim_context *ctx = context_new(dev, true, 3020);
        if (!ctx)
            return NULL;
        context_list_add(ctx);
        primaries[dev] = ctx;
    }
    return primaries[dev];
}

CUresult context_primary(CUdevice dev, CUcontext *out)
{
    TRY(device_check(dev));
    SCOPED_LOCK(&context_lock);
    struct sim_context *ctx = primary_of(dev);
    *out = context_handle(ctx);
    return ctx ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Makes the primary context live. Under context_lock. */
static CUresult primary_open(struct sim_context *ctx)
{
    while (ctx->ending)
        pthread_cond_wait(&ended, &context_lock);
    if (atomic_load(&ctx->alive))
        return CUDA_SUCCESS;
    return context_begin(ctx, primary_flags[ctx->ordinal]);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice dev)
{
    TRY(device_check(dev));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&context_lock);
    struct sim_context *ctx = primary_of(dev);
    TRY(ctx ? primary_open(ctx) : CUDA_ERROR_OUT_OF_MEMORY);
    ctx->usage++;
    *out = context_handle(ctx);
    return CUDA_SUCCESS;
}

/* Gives up one retain; the last one ends the context. A reset ends it and keeps the retains. */
static CUresult primary_give_up(CUdevice dev, bool reset)
{
    TRY(device_check(dev));
    pthread_mutex_lock(&context_lock);
    struct sim_context *ctx = primaries[dev];
    bool retained = ctx && ctx->usage > 0;
    if (retained && !reset)
        ctx->usage--;
    bool end = ctx && atomic_load(&ctx->alive) && (reset || ctx->usage == 0);
    if (end) {
        atomic_store(&ctx->alive, false);
        ctx->ending = true;
    }
    pthread_mutex_unlock(&context_lock);
    if (end) {
        context_greens_end(ctx);
        context_end(ctx);
        SCOPED_LOCK(&context_lock);
        ctx->ending = false;
        pthread_cond_broadcast(&ended);
    }
    return retained || reset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice dev), primary_give_up(dev, false))
SIM_ALIAS(cuDevicePrimaryCtxRelease, (CUdevice dev), cuDevicePrimaryCtxRelease_v2, dev)

SIM_CALL(cuDevicePrimaryCtxReset_v2, (CUdevice dev), primary_give_up(dev, true))
SIM_ALIAS(cuDevicePrimaryCtxReset, (CUdevice dev), cuDevicePrimaryCtxReset_v2, dev)

SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    TRY(device_check(dev));
    if (!context_flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&context_lock);
    primary_flags[dev] = flags;
    if (primaries[dev])
        atomic_store(&primaries[dev]->flags, flags);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    TRY(device_check(dev));
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&context_lock);
    *flags = primary_flags[dev];
    *active = primaries[dev] && atomic_load(&primaries[dev]->alive);
    return CUDA_SUCCESS;
}

/* Before 11.0 an active primary context kept its flags, and the call failed. */
SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    unsigned int before;
    int active;
    TRY(cuDevicePrimaryCtxGetState(dev, &before, &active));
    return active ? CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE : cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}
