/*
 * context.c - contexts: made, stacked per thread, shared as a device's primary one, destroyed.
 *
 * One lock guards the list of contexts and the primaries' counts; it is never held while work is
 * waited for. Handles are pointers to structures that live as long as the process, so a stale handle
 * is told from a live one by looking, not by luck.
 */
#include "tools/simgpu/device/context.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/memory/peer.h"
#include "tools/simgpu/runtime/export_table.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXT_MAGIC = 0x43545831, DEVICES_MAX = 64, API_VERSION_MIN = 3020 };
/* CU_LIMIT_SHMEM_SIZE, _CIG_ENABLED, _CIG_SHMEM_FALLBACK_ENABLED: of 12.5 and later headers. */
enum { LIMIT_LAST = 9 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER; /* some context's `ending` went false */
static struct sim_context *all;                         /* under lock */
static struct sim_context
    *primaries[DEVICES_MAX]; /* by ordinal; made on first retain; under lock */
static unsigned int primary_flags[DEVICES_MAX];
static _Atomic unsigned long long next_id = 1;

/* The calling thread's stack of contexts; the last one is current. */
static _Thread_local struct stack {
    struct sim_context **items;
    size_t depth, room;
} stack;

static pthread_key_t stack_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

/* At the end of a thread; another destructor may still call CUDA, and then has no context. */
static void stack_free(void *items)
{
    stack = (struct stack){NULL, 0, 0};
    free(items);
}

static void stack_key_make(void)
{
    pthread_key_create(&stack_key, stack_free);
}

static struct sim_context *stack_top(void)
{
    return stack.depth != 0 ? stack.items[stack.depth - 1] : NULL;
}

static CUresult stack_push(struct sim_context *ctx)
{
    if (stack.depth == stack.room) {
        size_t room = stack.room != 0 ? stack.room * 2 : 8;
        struct sim_context **items = realloc(stack.items, room * sizeof *items);
        if (items == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        stack.items = items;
        stack.room = room;
        pthread_once(&stack_once, stack_key_make);
        pthread_setspecific(stack_key, items);
    }
    stack.items[stack.depth++] = ctx;
    return CUDA_SUCCESS;
}

/* ---- what other files ask ----------------------------------------------------------------------- */

CUresult context_current(struct sim_context **out)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (callback_thread())
        return CUDA_ERROR_NOT_PERMITTED;
    struct sim_context *ctx = stack_top();
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!atomic_load(&ctx->alive))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult context_enter(struct sim_context **out)
{
    CUresult rc = context_current(out);
    return rc == CUDA_SUCCESS ? atomic_load(&(*out)->error) : rc;
}

void context_fail(struct sim_context *ctx, CUresult error)
{
    CUresult none = CUDA_SUCCESS;
    atomic_compare_exchange_strong(&ctx->error, &none, error);
    if (ctx->base)
        context_fail(ctx->base, error);
}

static struct sim_context *context_any(CUcontext handle)
{
    pthread_mutex_lock(&lock);
    struct sim_context *ctx = all;
    while (ctx != NULL && context_handle(ctx) != handle)
        ctx = ctx->next;
    pthread_mutex_unlock(&lock);
    return ctx;
}

struct sim_context *context_find(CUcontext handle)
{
    struct sim_context *ctx = handle != NULL ? context_any(handle) : NULL;
    return ctx != NULL && atomic_load(&ctx->alive) ? ctx : NULL;
}

/* ---- life --------------------------------------------------------------------------------------- */

/* What a fresh context, or a primary one that comes back, starts from. */
static void context_defaults(struct sim_context *ctx, unsigned int flags)
{
    atomic_store(&ctx->error, CUDA_SUCCESS);
    atomic_store(&ctx->flags, flags);
    memset(ctx->limits, 0, sizeof ctx->limits);
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

static struct sim_context *context_new(int ordinal, bool primary, unsigned int version)
{
    struct sim_context *ctx = calloc(1, sizeof *ctx);
    if (ctx == NULL)
        return NULL;
    ctx->magic = CONTEXT_MAGIC;
    ctx->ordinal = ordinal;
    ctx->primary = primary;
    ctx->version = version;
    pthread_rwlockattr_t fair; /* whoever launches must not starve a graph launch */
    pthread_rwlockattr_init(&fair);
    pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&ctx->submit_lock, &fair);
    pthread_rwlockattr_destroy(&fair);
    return ctx;
}

static void context_list(struct sim_context *ctx)
{
    pthread_mutex_lock(&lock);
    ctx->next = all;
    all = ctx;
    pthread_mutex_unlock(&lock);
}

static bool flags_valid(unsigned int flags)
{
    unsigned int sched = flags & CU_CTX_SCHED_MASK;
    return (flags & ~(unsigned int)CU_CTX_FLAGS_MASK) == 0 && (sched & (sched - 1)) == 0;
}

static CUresult context_create(CUcontext *out, unsigned int version, unsigned int flags,
                               CUdevice dev)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL || !flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    rc = device_check(dev);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct sim_context *ctx = context_new(dev, false, version);
    if (ctx == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context_defaults(ctx, flags);
    ctx->usage = 1;
    rc = context_open_queues(ctx);
    if (rc != CUDA_SUCCESS) {
        free(ctx);
        return rc;
    }
    memory_join_device();
    atomic_store(&ctx->alive, true);
    context_list(ctx);
    *out = context_handle(ctx);
    return stack_push(ctx);
}

/* Waits for the context's work and takes everything in it away. Whoever turned `alive` off calls it. */
static void context_end(struct sim_context *ctx)
{
    export_table_context_end(ctx);
    context_close_queues(ctx);
    memory_context_gone(ctx);
    peer_context_gone(ctx);
}

static CUresult context_destroy(CUcontext handle)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    struct sim_context *ctx = handle != NULL ? context_any(handle) : NULL;
    if (ctx == NULL || ctx->primary || ctx->base)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!atomic_exchange(&ctx->alive, false))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    context_end(ctx);
    if (stack_top() == ctx)
        stack.depth--;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice dev)
{
    return context_create(out, 3020, flags, dev);
}

SIM_EXPORT CUresult cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice dev)
{
    return context_create(out, 3010, flags, dev);
}

SIM_EXPORT CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int count,
                                   unsigned int flags, CUdevice dev)
{
    if (count < 0 || (count > 0 && affinity == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    if (count > 0)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return context_create(out, 11040, flags, dev);
}

#if CUDA_VERSION >= 12050
SIM_EXPORT CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
                                   CUdevice dev)
{
    if (params != NULL && params->cigParams != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (params != NULL && params->numExecAffinityParams > 0)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return context_create(out, 12050, flags, dev);
}
#endif

SIM_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    return context_destroy(ctx);
}

SIM_EXPORT CUresult cuCtxDestroy(CUcontext ctx)
{
    return context_destroy(ctx);
}

SIM_EXPORT CUresult cuCtxAttach(CUcontext *out, unsigned int flags)
{
    struct sim_context *ctx;
    CUresult rc = context_current(&ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    ctx->usage++;
    pthread_mutex_unlock(&lock);
    *out = context_handle(ctx);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxDetach(CUcontext handle)
{
    struct sim_context *ctx;
    CUresult rc = context_current(&ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (handle != context_handle(ctx) || ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    bool last = --ctx->usage == 0;
    pthread_mutex_unlock(&lock);
    return last ? context_destroy(handle) : CUDA_SUCCESS;
}

/* ---- green contexts ----------------------------------------------------------------------------- */

CUresult context_green_make(struct sim_context *base, struct sim_context **out)
{
    struct sim_context *ctx = context_new(base->ordinal, false, base->version);
    if (ctx == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ctx->base = base;
    context_defaults(ctx, atomic_load(&base->flags));
    CUresult rc = context_open_queues(ctx);
    if (rc != CUDA_SUCCESS) {
        free(ctx);
        return rc;
    }
    atomic_store(&ctx->alive, true);
    context_list(ctx);
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult context_green_end(struct sim_context *ctx)
{
    if (!atomic_exchange(&ctx->alive, false))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    context_end(ctx);
    return CUDA_SUCCESS;
}

void context_green_each(const struct sim_context *base,
                        void (*fn)(struct sim_context *green, void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    for (struct sim_context *ctx = all; ctx != NULL; ctx = ctx->next)
        if (ctx->base == base && atomic_load(&ctx->alive))
            fn(ctx, arg);
    pthread_mutex_unlock(&lock);
}

/* ---- primary contexts --------------------------------------------------------------------------- */

/* The device's primary context, made if need be. Under lock. */
static struct sim_context *primary_of(CUdevice dev)
{
    if (primaries[dev] == NULL) {
        struct sim_context *ctx = context_new(dev, true, 3020);
        if (ctx == NULL)
            return NULL;
        ctx->next = all;
        all = ctx;
        primaries[dev] = ctx;
    }
    return primaries[dev];
}

CUresult context_primary(CUdevice dev, CUcontext *out)
{
    CUresult rc = device_check(dev);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&lock);
    struct sim_context *ctx = primary_of(dev);
    pthread_mutex_unlock(&lock);
    *out = context_handle(ctx);
    return ctx != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Makes the primary context live. Under lock. */
static CUresult primary_open(struct sim_context *ctx)
{
    while (ctx->ending)
        pthread_cond_wait(&ended, &lock);
    if (atomic_load(&ctx->alive))
        return CUDA_SUCCESS;
    context_defaults(ctx, primary_flags[ctx->ordinal]);
    CUresult rc = context_open_queues(ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    memory_join_device();
    atomic_store(&ctx->alive, true);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice dev)
{
    CUresult rc = device_check(dev);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct sim_context *ctx = primary_of(dev);
    rc = ctx != NULL ? primary_open(ctx) : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS) {
        ctx->usage++;
        *out = context_handle(ctx);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

/* A green context outlives the last release of the primary one, which it retains, but no reset. */
static void greens_end(const struct sim_context *base)
{
    struct sim_context *green;
    do {
        pthread_mutex_lock(&lock);
        for (green = all; green != NULL; green = green->next)
            if (green->base == base && atomic_exchange(&green->alive, false))
                break;
        pthread_mutex_unlock(&lock);
        if (green != NULL)
            context_end(green);
    } while (green != NULL);
}

/* Gives up one retain, and ends the context with the last. A reset ends it and keeps the retains. */
static CUresult primary_give_up(CUdevice dev, bool reset)
{
    CUresult rc = device_check(dev);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&lock);
    struct sim_context *ctx = primaries[dev];
    bool retained = ctx != NULL && ctx->usage > 0;
    if (retained && !reset)
        ctx->usage--;
    bool end = ctx != NULL && atomic_load(&ctx->alive) && (reset || ctx->usage == 0);
    if (end) {
        atomic_store(&ctx->alive, false);
        ctx->ending = true;
    }
    pthread_mutex_unlock(&lock);
    if (end) {
        greens_end(ctx);
        context_end(ctx);
        pthread_mutex_lock(&lock);
        ctx->ending = false;
        pthread_cond_broadcast(&ended);
        pthread_mutex_unlock(&lock);
    }
    return retained || reset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    return primary_give_up(dev, false);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    return primary_give_up(dev, false);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    return primary_give_up(dev, true);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    return primary_give_up(dev, true);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    CUresult rc = device_check(dev);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    primary_flags[dev] = flags;
    if (primaries[dev] != NULL)
        atomic_store(&primaries[dev]->flags, flags);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* Before 11.0 an active primary context kept its flags. */
SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    CUresult rc = device_check(dev);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&lock);
    bool active = primaries[dev] != NULL && atomic_load(&primaries[dev]->alive);
    pthread_mutex_unlock(&lock);
    return active ? CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE : cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    CUresult rc = device_check(dev);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (flags == NULL || active == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    *flags = primary_flags[dev];
    *active = primaries[dev] != NULL && atomic_load(&primaries[dev]->alive);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* ---- current ------------------------------------------------------------------------------------ */

static CUresult push(CUcontext handle)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    struct sim_context *ctx = handle != NULL ? context_any(handle) : NULL;
    return ctx != NULL ? stack_push(ctx) : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult pop(CUcontext *out)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (stack.depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (out != NULL)
        *out = context_handle(stack_top());
    stack.depth--;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    return push(ctx);
}

SIM_EXPORT CUresult cuCtxPushCurrent(CUcontext ctx)
{
    return push(ctx);
}

SIM_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    return pop(out);
}

SIM_EXPORT CUresult cuCtxPopCurrent(CUcontext *out)
{
    return pop(out);
}

SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext handle)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    struct sim_context *ctx = handle != NULL ? context_any(handle) : NULL;
    if (handle != NULL && ctx == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.depth != 0)
        stack.depth--;
    return ctx != NULL ? stack_push(ctx) : CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetCurrent(CUcontext *out)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = stack_top() != NULL ? context_handle(stack_top()) : NULL;
    return CUDA_SUCCESS;
}

/* ---- synchronise -------------------------------------------------------------------------------- */

static CUresult synchronize(struct sim_context *ctx)
{
    CUresult rc = atomic_load(&ctx->error);
    if (rc == CUDA_SUCCESS)
        rc = capture_forbids_context(ctx);
    return rc == CUDA_SUCCESS ? context_wait_idle(ctx) : rc;
}

SIM_EXPORT CUresult cuCtxSynchronize(void)
{
    struct sim_context *ctx;
    CUresult rc = context_current(&ctx);
    return rc == CUDA_SUCCESS ? synchronize(ctx) : rc;
}

/* A context argument of the 13.0 calls: NULL means the current one. */
static CUresult context_argument(CUcontext handle, struct sim_context **out)
{
    if (handle == NULL)
        return context_current(out);
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    struct sim_context *ctx = context_any(handle);
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!atomic_load(&ctx->alive))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = ctx;
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000
SIM_EXPORT CUresult cuCtxSynchronize_v2(CUcontext handle)
{
    struct sim_context *ctx;
    CUresult rc = context_argument(handle, &ctx);
    return rc == CUDA_SUCCESS ? synchronize(ctx) : rc;
}
#endif

/* ---- properties --------------------------------------------------------------------------------- */

static CUresult device_of(CUcontext handle, CUdevice *out)
{
    struct sim_context *ctx;
    CUresult rc = context_argument(handle, &ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = ctx->ordinal;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetDevice(CUdevice *out)
{
    return device_of(NULL, out);
}

#if CUDA_VERSION >= 13000
SIM_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *out, CUcontext ctx)
{
    return device_of(ctx, out);
}
#endif

SIM_EXPORT CUresult cuCtxGetFlags(unsigned int *out)
{
    struct sim_context *ctx;
    CUresult rc = context_current(&ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = atomic_load(&ctx->flags);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxSetFlags(unsigned int flags)
{
    struct sim_context *ctx;
    CUresult rc = context_current(&ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    atomic_store(&ctx->flags, flags);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetId(CUcontext handle, unsigned long long *out)
{
    struct sim_context *ctx;
    CUresult rc = context_argument(handle, &ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = ctx->id;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *out)
{
    struct sim_context *ctx;
    CUresult rc = context_argument(handle, &ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = ctx->version;
    return CUDA_SUCCESS;
}

static bool limit_known(CUlimit limit)
{
    return (int)limit >= 0 && (int)limit <= LIMIT_LAST;
}

SIM_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct sim_context *ctx;
    CUresult rc = context_enter(&ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!limit_known(limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    pthread_mutex_lock(&lock);
    ctx->limits[limit] = value;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetLimit(size_t *out, CUlimit limit)
{
    struct sim_context *ctx;
    CUresult rc = context_enter(&ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!limit_known(limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    pthread_mutex_lock(&lock);
    *out = ctx->limits[limit];
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxResetPersistingL2Cache(void)
{
    struct sim_context *ctx;
    return context_enter(&ctx);
}

SIM_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct sim_context *ctx;
    CUresult rc = context_current(&ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (least != NULL)
        *least = 0;
    if (greatest != NULL)
        *greatest = -5;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetExecAffinity(CUexecAffinityParam *out, CUexecAffinityType type)
{
    struct sim_context *ctx;
    CUresult rc = context_enter(&ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    return out == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/* Hints without effect here: kept and given back. */
#define HINT(name, type, field, last)                                                              \
    SIM_EXPORT CUresult cuCtxSet##name(type value)                                                 \
    {                                                                                              \
        struct sim_context *ctx;                                                                   \
        CUresult rc = context_enter(&ctx);                                                         \
        if (rc != CUDA_SUCCESS)                                                                    \
            return rc;                                                                             \
        if ((unsigned int)value > (unsigned int)(last))                                            \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        pthread_mutex_lock(&lock);                                                                 \
        ctx->field = value;                                                                        \
        pthread_mutex_unlock(&lock);                                                               \
        return CUDA_SUCCESS;                                                                       \
    }                                                                                              \
    SIM_EXPORT CUresult cuCtxGet##name(type *out)                                                  \
    {                                                                                              \
        struct sim_context *ctx;                                                                   \
        CUresult rc = context_enter(&ctx);                                                         \
        if (rc != CUDA_SUCCESS)                                                                    \
            return rc;                                                                             \
        if (out == NULL)                                                                           \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        pthread_mutex_lock(&lock);                                                                 \
        *out = ctx->field;                                                                         \
        pthread_mutex_unlock(&lock);                                                               \
        return CUDA_SUCCESS;                                                                       \
    }
HINT(CacheConfig, CUfunc_cache, cache_config, CU_FUNC_CACHE_PREFER_EQUAL)
HINT(SharedMemConfig, CUsharedconfig, shared_config, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
