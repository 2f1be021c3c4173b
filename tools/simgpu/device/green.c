/*
 * green.c - green contexts: parts of a device's multiprocessors, with streams of their own. The
 * parts are only counted: kernels of all of them share the device.
 */
#include "tools/simgpu/device/context.h"
#include "tools/simgpu/face/simconfig.h"

#if CUDA_VERSION >= 12050

enum { SMS_LEAST = 4, SMS_STEP = 2 };

/* A descriptor is the number of multiprocessors that it stands for. */
#define DESC(sms)      ((CUdevResourceDesc)(uintptr_t)(sms))
#define DESC_SMS(desc) ((unsigned int)(uintptr_t)(desc))

static void resource_fill(CUdevResource *r, unsigned int sms)
{
    memset(r, 0, sizeof(*r));
    r->type = CU_DEV_RESOURCE_TYPE_SM;
    r->sm.smCount = sms;
#if CUDA_VERSION >= 13000
    r->sm.minSmPartitionSize = SMS_LEAST;
    r->sm.smCoscheduledAlignment = SMS_STEP;
#endif
}

static CUresult resource_get(CUdevResource *out, CUdevResourceType type, unsigned int sms)
{
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    resource_fill(out, sms);
    return CUDA_SUCCESS;
}

CUresult context_resource(const struct sim_context *ctx, CUdevResource *out, CUdevResourceType type)
{
    return resource_get(out, type, ctx->base ? ctx->sms : config_context_sms());
}

SIM_EXPORT CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *out,
                                           CUdevResourceType type)
{
    TRY(device_check(device));
    return resource_get(out, type, (unsigned int)config_get()->sms);
}

SIM_EXPORT CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource *out,
                                        CUdevResourceType type)
{
    TRY(driver_ready());
    const struct sim_context *ctx = context_find(handle);
    return ctx ? context_resource(ctx, out, type) : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_EXPORT CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *out,
                                             CUdevResourceType type)
{
    struct sim_context *ctx;
    TRY(green_find(handle, &ctx));
    return context_resource(ctx, out, type);
}

SIM_EXPORT CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *groups,
                                                const CUdevResource *input,
                                                CUdevResource *remaining, unsigned int flags,
                                                unsigned int least)
{
    TRY(driver_ready());
    if (!groups || !input || input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned int each =
        least < SMS_LEAST ? SMS_LEAST : (least + SMS_STEP - 1) / SMS_STEP * SMS_STEP;
    unsigned int most = input->sm.smCount / each;
    unsigned int made = result && *groups < most ? *groups : most;
    for (unsigned int i = 0; result && i < made; i++)
        resource_fill(&result[i], each);
    if (remaining)
        resource_fill(remaining, input->sm.smCount - made * each);
    *groups = made;
    return CUDA_SUCCESS;
}

#if CUDA_VERSION < 13010
typedef struct CU_DEV_SM_RESOURCE_GROUP_PARAMS_st {
    unsigned int smCount, coscheduledSmCount, preferredCoscheduledSmCount, flags, reserved[12];
} CU_DEV_SM_RESOURCE_GROUP_PARAMS;
CUresult cuDevSmResourceSplit(CUdevResource *result, unsigned int groups,
                              const CUdevResource *input, CUdevResource *rest, unsigned int flags,
                              CU_DEV_SM_RESOURCE_GROUP_PARAMS *wanted);
#endif
/* CU_DEV_SM_RESOURCE_GROUP_BACKFILL of CUDA 13.1. */
enum { BACKFILL = 1, COSCHEDULED = 2 /* "2 otherwise", before compute capability 9.0 */ };

/* Takes of `left` multiprocessors as many as the group asks for, or with 0 all that suit it. */
static CUresult group_take(CU_DEV_SM_RESOURCE_GROUP_PARAMS *g, unsigned int left, bool wanted)
{
    unsigned int step = g->coscheduledSmCount ? g->coscheduledSmCount : COSCHEDULED;
    unsigned int sms = g->smCount ? g->smCount : left / step * step;
    if (step != COSCHEDULED || g->flags & ~(unsigned int)BACKFILL || sms % 2 || sms > left ||
        (wanted && sms < step))
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    g->smCount = sms;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevSmResourceSplit(CUdevResource *result, unsigned int groups,
                                         const CUdevResource *input, CUdevResource *rest,
                                         unsigned int flags,
                                         CU_DEV_SM_RESOURCE_GROUP_PARAMS *wanted)
{
    TRY(driver_ready());
    if (!groups || !input || !wanted || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    unsigned int left = input->sm.smCount;
    for (unsigned int i = 0; i < groups; left -= wanted[i++].smCount) {
        TRY(group_take(&wanted[i], left, result));
        if (result)
            resource_fill(&result[i], wanted[i].smCount);
    }
    if (rest)
        resource_fill(rest, left);
    if (rest && !left)
        rest->type = CU_DEV_RESOURCE_TYPE_INVALID;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *resources,
                                              unsigned int count)
{
    unsigned int sms = 0;
    if (!out || !resources || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++)
        sms += resources[i].sm.smCount;
    *out = DESC(sms);
    return sms ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- life ------------------------------------------------------------------------------------ */

SIM_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice device,
                                     unsigned int flags)
{
    CUcontext primary;
    struct sim_context *ctx;
    if (!out || flags != CU_GREEN_CTX_DEFAULT_STREAM || !DESC_SMS(desc))
        return CUDA_ERROR_INVALID_VALUE;
    TRY(cuDevicePrimaryCtxRetain(&primary, device));
    CUresult rc = context_green_make(context_find(primary), &ctx);
    if (rc != CUDA_SUCCESS) {
        cuDevicePrimaryCtxRelease_v2(device);
        return rc;
    }
    ctx->sms = DESC_SMS(desc);
    *out = (CUgreenCtx)(void *)ctx;
    return CUDA_SUCCESS;
}

CUresult green_find(CUgreenCtx handle, struct sim_context **out)
{
    TRY(driver_ready());
    *out = context_find((CUcontext)(void *)handle);
    return *out && (*out)->base ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx handle)
{
    struct sim_context *ctx;
    TRY(green_find(handle, &ctx));
    TRY(context_destroy(ctx));
    cuDevicePrimaryCtxRelease_v2(ctx->ordinal);
    return CUDA_SUCCESS;
}

SIM_GETTER(cuCtxFromGreenCtx, (CUcontext * out, CUgreenCtx handle), out, context_handle(ctx),
           struct sim_context *ctx;
           TRY(green_find(handle, &ctx)))
#endif
