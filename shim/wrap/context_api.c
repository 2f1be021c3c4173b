/*
 * context_api.c - threads change their current context: what they were told of it is void. Contexts
 * go: what is buffered is submitted and complete before, and what the shim knew of the context is
 * forgotten.
 */
#include "shim/path/call.h"
#include "shim/objects/context.h"
#include "shim/pace/gates.h"
#include "shim/objects/memory.h"

/* ---- current contexts --------------------------------------------------------------------- */

#define SWITCH(sym, params, ...)                                                                   \
    EXPORT CUresult sym params                                                                     \
    {                                                                                              \
        context_switched();                                                                        \
        return REAL(sym)(__VA_ARGS__);                                                             \
    }
SWITCH(cuCtxPopCurrent, (CUcontext * pctx), pctx)
SWITCH(cuCtxPopCurrent_v2, (CUcontext * pctx), pctx)
SWITCH(cuCtxAttach, (CUcontext * pctx, unsigned int flags), pctx, flags)

/* `handle`: the context that is current from now on. */
#define ENTER(sym, params, handle, ...)                                                            \
    EXPORT CUresult sym params                                                                     \
    {                                                                                              \
        context_switched();                                                                        \
        CUresult r = REAL(sym)(__VA_ARGS__);                                                       \
        if (r == CUDA_SUCCESS && !call_native())                                                   \
            context_entered(handle);                                                               \
        return r;                                                                                  \
    }
ENTER(cuCtxSetCurrent, (CUcontext ctx), ctx, ctx)
ENTER(cuCtxPushCurrent, (CUcontext ctx), ctx, ctx)
ENTER(cuCtxPushCurrent_v2, (CUcontext ctx), ctx, ctx)
ENTER(cuCtxCreate, (CUcontext * pctx, unsigned int flags, CUdevice dev), *pctx, pctx, flags, dev)
ENTER(cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev), *pctx, pctx, flags, dev)
ENTER(cuCtxCreate_v3,
      (CUcontext * pctx, CUexecAffinityParam *params, int count, unsigned int flags, CUdevice dev),
      *pctx, pctx, params, count, flags, dev)
ENTER(cuCtxCreate_v4,
      (CUcontext * pctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev), *pctx, pctx,
      params, flags, dev)

/* ---- contexts that go ---------------------------------------------------------------------- */

static void closing(CUcontext handle)
{
    context_switched();
    struct shim_context *ctx = call_native() ? NULL : context_find(handle);
    if (!ctx)
        return;
    context_finish(ctx);
    context_close(ctx, true);
}

/* The memory that was allocated or registered in it went with it. */
static CUresult closed(CUresult r)
{
    memory_forget();
    return r;
}

EXPORT CUresult cuCtxDestroy(CUcontext ctx)
{
    closing(ctx);
    return closed(REAL(cuCtxDestroy)(ctx));
}
EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    closing(ctx);
    return closed(REAL(cuCtxDestroy_v2)(ctx));
}
/* Forgetting a context that lives on costs nothing but its estimates: it is made known again. */
EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
    closing(ctx);
    return closed(REAL(cuCtxDetach)(ctx));
}
EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    CUcontext ctx = NULL;
    if (!call_native() && REAL(cuCtxFromGreenCtx)(&ctx, hCtx) == CUDA_SUCCESS)
        closing(ctx);
    return closed(REAL(cuGreenCtxDestroy)(hCtx));
}

/* ---- primary contexts --------------------------------------------------------------------- */

static struct shim_context *primary_of(CUdevice device)
{
    CUcontext handle = NULL;
    unsigned flags;
    int active = 0;
    if (call_native() || !atomic_load_explicit(&context_count, memory_order_relaxed) ||
        REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS || !active ||
        REAL(cuDevicePrimaryCtxRetain)(&handle, device) != CUDA_SUCCESS)
        return NULL;
    REAL(cuDevicePrimaryCtxRelease_v2)(device);
    return context_find(handle);
}

static void finish_each(struct shim_context *ctx, void *unused)
{
    context_finish(ctx);
    gates_pause(ctx, true);
    context_park(ctx);
}

static void go_on_each(struct shim_context *ctx, void *unused)
{
    gates_pause(ctx, false);
    context_unpark(ctx);
}

static void find_green(struct shim_context *ctx, void *user)
{
    struct shim_context **green = user;
    if (ctx->handle != ctx->base)
        *green = ctx;
}

/* Its green contexts have gone with it. */
static void primary_close(struct shim_context *ctx)
{
    struct shim_context *green;
    do {
        green = NULL;
        context_each_kin(ctx, find_green, &green);
        if (green)
            context_close(green, false);
    } while (green);
    context_close(ctx, false);
}

/* Which release is the last only the driver knows; a reset is one always. */
static CUresult primary_end(CUdevice device, CUresult (*end)(CUdevice))
{
    struct shim_context *ctx = primary_of(device);
    unsigned flags;
    int active = 1;
    if (ctx)
        context_each_kin(ctx, finish_each, NULL);
    CUresult r = closed(end(device));
    if (ctx && r == CUDA_SUCCESS &&
        REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && !active)
        primary_close(ctx);
    else if (ctx)
        context_each_kin(ctx, go_on_each, NULL);
    return r;
}

#define PRIMARY(sym)                                                                               \
    EXPORT CUresult sym(CUdevice dev)                                                              \
    {                                                                                              \
        return primary_end(dev, REAL(sym));                                                        \
    }
PRIMARY(cuDevicePrimaryCtxRelease)
PRIMARY(cuDevicePrimaryCtxRelease_v2)
PRIMARY(cuDevicePrimaryCtxReset)
PRIMARY(cuDevicePrimaryCtxReset_v2)
