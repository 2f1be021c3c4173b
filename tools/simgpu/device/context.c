/*
 * context.c - contexts: how they are made, found by their handles, and destroyed. current.c has the
 * contexts of a thread, primary.c the shared one of a device, context_api.c what is asked and set.
 *
 * One lock guards the list of contexts and the counts of the primary ones. No thread holds it while
 * it waits for work. Handles are pointers to structures that live as long as the process, so a
 * lookup in the list tells a stale handle from a live one.
 */
#include "tools/simgpu/device/context.h"

pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_context *all; /* under context_lock */
static _Atomic unsigned long long next_id = 1;

/* ---- what other files ask -------------------------------------------------------------------- */

void context_fail(struct sim_context *ctx, CUresult error)
{
    CUresult none = CUDA_SUCCESS;
    atomic_compare_exchange_strong(&ctx->error, &none, error);
    if (ctx->base)
        context_fail(ctx->base, error);
}

struct sim_context *context_any(CUcontext handle)
{
    SCOPED_LOCK(&context_lock);
    struct sim_context *ctx = all;
    while (ctx && context_handle(ctx) != handle)
        ctx = ctx->next;
    return ctx;
}

struct sim_context *context_find(CUcontext handle)
{
    struct sim_context *ctx = handle ? context_any(handle) : NULL;
    return ctx && atomic_load(&ctx->alive) ? ctx : NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The state from which a new context starts, or a primary one that is retained again. */
static void context_defaults(struct sim_context *ctx, unsigned int flags)
{
    atomic_store(&ctx->error, CUDA_SUCCESS);
    atomic_store(&ctx->flags, flags);
    memset(ctx->limits, 0, sizeof(ctx->limits));
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    ctx->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    ctx->cache_config = CU_FUNC_CACHE_PREFER_NONE;
    ctx->shared_config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    ctx->id = atomic_fetch_add(&next_id, 1);
}

static CUresult context_parts_run(struct sim_context *ctx, bool begin)
{
    extern const struct context_part *const __start_context_part[], *const __stop_context_part[];
    const struct context_part *const *p;
    CUresult rc = CUDA_SUCCESS;
    for (enum context_kind kind = 0; kind < CONTEXT_KINDS; kind++)
        for (p = __start_context_part; p < __stop_context_part; p++) {
            if ((*p)->kind != kind)
                continue;
            if (begin && (*p)->begin && rc == CUDA_SUCCESS)
                rc = (*p)->begin(ctx);
            else if (!begin)
                (*p)->end(ctx);
        }
    return rc;
}

CUresult context_begin(struct sim_context *ctx, unsigned int flags)
{
    context_defaults(ctx, flags);
    TRY(context_parts_run(ctx, true));
    atomic_store(&ctx->alive, true);
    return CUDA_SUCCESS;
}

void context_end(struct sim_context *ctx)
{
    context_parts_run(ctx, false);
}

struct sim_context *context_new(int ordinal, bool primary, unsigned int version)
{
    struct sim_context *ctx = calloc(1, sizeof(*ctx));
    if (!ctx)
        return NULL;
    ctx->ordinal = ordinal;
    ctx->primary = primary;
    ctx->version = version;
    pthread_rwlockattr_t fair; /* threads that launch must not starve a graph launch */
    pthread_rwlockattr_init(&fair);
    pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&ctx->submit_lock, &fair);
    pthread_rwlockattr_destroy(&fair);
    return ctx;
}

void context_list_add(struct sim_context *ctx)
{
    ctx->next = all;
    all = ctx;
}

/* Takes a new context that is in no list yet: makes it live and lists it, or frees it. */
static CUresult context_introduce(struct sim_context *ctx, unsigned int flags)
{
    CUresult rc = context_begin(ctx, flags);
    if (rc != CUDA_SUCCESS) {
        free(ctx);
        return rc;
    }
    SCOPED_LOCK(&context_lock);
    context_list_add(ctx);
    return CUDA_SUCCESS;
}

bool context_flags_valid(unsigned int flags)
{
    unsigned int sched = flags & CU_CTX_SCHED_MASK;
    return (flags & ~(unsigned int)CU_CTX_FLAGS_MASK) == 0 && (sched & (sched - 1)) == 0;
}

bool context_syncs_memops(const struct sim_context *ctx)
{
    return (atomic_load(&ctx->flags) & 0x80 /* CU_CTX_SYNC_MEMOPS, from 12.1 on */) != 0;
}

static CUresult context_create(CUcontext *out, unsigned int version, unsigned int flags,
                               CUdevice dev)
{
    TRY(driver_ready());
    if (!out || !context_flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    TRY(device_check(dev));
    struct sim_context *ctx = context_new(dev, false, version);
    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ctx->usage = 1;
    TRY(context_introduce(ctx, flags));
    *out = context_handle(ctx);
    return context_push(ctx);
}

SIM_EXPORT CUresult cuCtxDestroy_v2(CUcontext handle)
{
    TRY(driver_ready());
    struct sim_context *ctx = handle ? context_any(handle) : NULL;
    if (!ctx || ctx->primary || ctx->base)
        return CUDA_ERROR_INVALID_CONTEXT;
    TRY(context_destroy(ctx));
    context_pop_if_top(ctx);
    return CUDA_SUCCESS;
}

SIM_CALL(cuCtxCreate_v2, (CUcontext * out, unsigned int flags, CUdevice dev),
         context_create(out, 3020, flags, dev))
SIM_CALL(cuCtxCreate, (CUcontext * out, unsigned int flags, CUdevice dev),
         context_create(out, 3010, flags, dev))

SIM_EXPORT CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int count,
                                   unsigned int flags, CUdevice dev)
{
    if (count < 0 || (count > 0 && !affinity))
        return CUDA_ERROR_INVALID_VALUE;
    if (count > 0)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return context_create(out, 11040, flags, dev);
}

#if CUDA_VERSION >= 12050
SIM_EXPORT CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
                                   CUdevice dev)
{
    if (params && params->cigParams)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (params && params->numExecAffinityParams > 0)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return context_create(out, 12050, flags, dev);
}
#endif

SIM_ALIAS(cuCtxDestroy, (CUcontext ctx), cuCtxDestroy_v2, ctx)

SIM_EXPORT CUresult cuCtxAttach(CUcontext *out, unsigned int flags)
{
    struct sim_context *ctx;
    TRY(context_current(&ctx));
    if (!out || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&context_lock);
    ctx->usage++;
    *out = context_handle(ctx);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxDetach(CUcontext handle)
{
    struct sim_context *ctx;
    TRY(context_current(&ctx));
    if (handle != context_handle(ctx) || ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&context_lock);
    bool last = --ctx->usage == 0;
    pthread_mutex_unlock(&context_lock);
    return last ? cuCtxDestroy_v2(handle) : CUDA_SUCCESS;
}

/* ---- green contexts -------------------------------------------------------------------------- */

CUresult context_green_make(struct sim_context *base, struct sim_context **out)
{
    struct sim_context *ctx = context_new(base->ordinal, false, base->version);
    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ctx->base = base;
    TRY(context_introduce(ctx, atomic_load(&base->flags)));
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult context_destroy(struct sim_context *ctx)
{
    if (!atomic_exchange(&ctx->alive, false))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    context_end(ctx);
    return CUDA_SUCCESS;
}

void context_green_each(const struct sim_context *base,
                        void (*fn)(struct sim_context *green, void *arg), void *arg)
{
    SCOPED_LOCK(&context_lock);
    for (struct sim_context *ctx = all; ctx; ctx = ctx->next)
        if (ctx->base == base && atomic_load(&ctx->alive))
            fn(ctx, arg);
}

void context_greens_end(const struct sim_context *base)
{
    struct sim_context *green;
    do {
        pthread_mutex_lock(&context_lock);
        for (green = all; green; green = green->next)
            if (green->base == base && atomic_exchange(&green->alive, false))
                break;
        pthread_mutex_unlock(&context_lock);
        if (green)
            context_end(green);
    } while (green);
}
