/*
 * context_api.c - what a context says about itself, and what can be set in it: limits, and hints
 * that have no effect.
 */
#include "tools/simgpu/device/context.h"

/* Values that headers have from 12.5 on. */
enum { CIG_SHMEM_FALLBACK_ENABLED = 9, LIMIT_LAST = CIG_SHMEM_FALLBACK_ENABLED };

SIM_GETTER(cuCtxGetDevice, (CUdevice * out), out, ctx->ordinal, struct sim_context *ctx;
           TRY(context_arg_inactive(NULL, &ctx)))
#if CUDA_VERSION >= 13000
SIM_GETTER(cuCtxGetDevice_v2, (CUdevice * out, CUcontext handle), out, ctx->ordinal,
           struct sim_context *ctx;
           TRY(context_arg_inactive(handle, &ctx)))
#endif

SIM_GETTER(cuCtxGetFlags, (unsigned int *out), out, atomic_load(&ctx->flags),
           struct sim_context *ctx;
           TRY(context_arg_inactive(NULL, &ctx)))

SIM_EXPORT CUresult cuCtxSetFlags(unsigned int flags)
{
    struct sim_context *ctx;
    TRY(context_current(&ctx));
    if (!context_flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    atomic_store(&ctx->flags, flags);
    return CUDA_SUCCESS;
}

SIM_GETTER(cuCtxGetId, (CUcontext handle, unsigned long long *out), out, ctx->id,
           struct sim_context *ctx;
           TRY(context_arg(handle, &ctx)))
SIM_GETTER(cuCtxGetApiVersion, (CUcontext handle, unsigned int *out), out, ctx->version,
           struct sim_context *ctx;
           TRY(context_arg_inactive(handle, &ctx)))

/* Answers as an H100 does under driver 580.159.04. */
static CUresult limit_check(CUlimit limit)
{
    if ((int)limit < 0 || (int)limit > LIMIT_LAST)
        return CUDA_ERROR_INVALID_VALUE;
    return (int)limit == CIG_SHMEM_FALLBACK_ENABLED ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    TRY(limit_check(limit));
    SCOPED_LOCK(&context_lock);
    ctx->limits[limit] = value;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetLimit(size_t *out, CUlimit limit)
{
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(limit_check(limit));
    SCOPED_LOCK(&context_lock);
    *out = ctx->limits[limit];
    return CUDA_SUCCESS;
}

SIM_CALL(cuCtxResetPersistingL2Cache, (void), context_current_ok(NULL))

/* cudaProfiler.h: no profiler is ever attached that these calls could reach. */
SIM_CALL(cuProfilerInitialize, (const char *config, const char *output, int mode),
         context_current_ok(NULL))
SIM_CALL(cuProfilerStart, (void), context_current_ok(NULL))
SIM_CALL(cuProfilerStop, (void), context_current_ok(NULL))

SIM_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct sim_context *ctx;
    TRY(context_current(&ctx));
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetExecAffinity(CUexecAffinityParam *out, CUexecAffinityType type)
{
    TRY(context_current_ok(NULL));
    return !out ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/* Hints that have no effect here. The value is kept and given back. */
#define HINT(name, type, field, last)                                                              \
    SIM_EXPORT CUresult cuCtxSet##name(type value)                                                 \
    {                                                                                              \
        struct sim_context *ctx;                                                                   \
        TRY(context_current_ok(&ctx));                                                             \
        if ((unsigned int)value > (unsigned int)(last))                                            \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        SCOPED_LOCK(&context_lock);                                                                \
        ctx->field = value;                                                                        \
        return CUDA_SUCCESS;                                                                       \
    }                                                                                              \
    SIM_EXPORT CUresult cuCtxGet##name(type *out)                                                  \
    {                                                                                              \
        struct sim_context *ctx;                                                                   \
        TRY(context_current_ok(&ctx));                                                             \
        if (!out)                                                                                  \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        SCOPED_LOCK(&context_lock);                                                                \
        *out = ctx->field;                                                                         \
        return CUDA_SUCCESS;                                                                       \
    }
HINT(CacheConfig, CUfunc_cache, cache_config, CU_FUNC_CACHE_PREFER_EQUAL)
HINT(SharedMemConfig, CUsharedconfig, shared_config, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
