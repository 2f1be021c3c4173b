/*
 * context.c - the contexts of this process (see context.h).
 */
#include "shim/objects/context.h"

#include <errno.h>
#include <string.h>
#include <utlist.h>

#include "common/clock.h"
#include "shim/lookup/unknown.h"

TABLE(contexts);
POOL(context_pool, struct shim_context, free_next);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for making and closing contexts */
static pthread_cond_t made = PTHREAD_COND_INITIALIZER;
static struct making {
    CUcontext handle;
    struct making *next;
} *making; /* what threads are asking the driver about, without the lock */
static _Atomic uint64_t generations;
_Atomic uint32_t context_count, context_queued;

/* ---- current context ---------------------------------------------------------------------- */

CUcontext context_current_handle(void)
{
    CUcontext handle = NULL;
    return REAL(cuCtxGetCurrent)(&handle) == CUDA_SUCCESS ? handle : NULL;
}

struct context_scope context_push(const struct shim_context *ctx)
{
    bool pushed = context_current_handle() != ctx->base &&
                  REAL(cuCtxPushCurrent_v2)(ctx->base) == CUDA_SUCCESS;
    return (struct context_scope){pushed, capture_relax()};
}

/* Any other current context, even a green one of the same primary context, has another default
 * stream, and what is created in it ends with it. */
struct context_scope context_push_other(const struct shim_context *ctx)
{
    CUcontext handle = context_current_handle();
    if (likely(handle == ctx->handle || handle == ctx->base))
        return (struct context_scope){.pushed = false};
    return context_push(ctx);
}

void context_pop(struct context_scope scope)
{
    CUcontext popped;
    capture_restore(scope.capture);
    if (scope.pushed)
        REAL(cuCtxPopCurrent_v2)(&popped);
}

struct shim_context *context_find(CUcontext handle)
{
    return handle ? (struct shim_context *)(void *)table_find(&contexts, handle) : NULL;
}

struct shim_context *context_current_known(void)
{
    bool any = atomic_load_explicit(&context_count, memory_order_relaxed) != 0;
    return any ? context_find(context_current_handle()) : NULL;
}

/* ---- making one --------------------------------------------------------------------------- */

int moment_tell(enum moment moment, struct shim_context *ctx, bool alive, struct shim_stream *s)
{
    /* The linker's names for where the section begins and ends. */
    extern const struct moment_note *const __start_context_note[],
        *const __stop_context_note[], *const __start_stream_note[], *const __stop_stream_note[];
    const struct moment_note *const *n = s ? __start_stream_note : __start_context_note;
    const struct moment_note *const *stop = s ? __stop_stream_note : __stop_context_note;
    for (; n < stop; n++) {
        int rc = 0;
        if ((*n)->moment != moment)
            continue;
        if ((*n)->begin)
            rc = (*n)->begin(ctx);
        else if ((*n)->end)
            (*n)->end(ctx, alive);
        else
            (*n)->stream(s);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* `base` is the current context. */
static struct shim_context *context_new(CUcontext handle, CUcontext base)
{
    const struct gpu_device *gpu = gpu_device_current();
    struct shim_context *ctx = gpu ? pool_get(&context_pool) : NULL;
    if (!ctx)
        return NULL;
    unknown_look_links();
    /* Its node keeps its content: other threads may be reading it. */
    const size_t from = offsetof(struct shim_context, handle);
    memset((char *)ctx + from, 0, sizeof(*ctx) - from);
    ctx->handle = handle;
    ctx->base = base;
    ctx->generation = atomic_fetch_add(&generations, 1) + 1;
    pthread_mutex_init(&ctx->lock, NULL);
    ctx->gpu = gpu;
    /* A green context has fewer multiprocessors than the device. So has any context under MPS with
     * CUDA_MPS_ACTIVE_THREAD_PERCENTAGE. Drivers before 12.4 do not tell. */
    CUdevResource own;
    ctx->processors = gpu->processors;
    if (!MUTANT(share_unseen) &&
        REAL(cuCtxGetDevResource)(handle, &own, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS &&
        own.sm.smCount && own.sm.smCount < ctx->processors)
        ctx->processors = own.sm.smCount;
    if (REAL(cuCtxGetStreamPriorityRange)(&ctx->priority_least, &ctx->priority_greatest) !=
        CUDA_SUCCESS)
        ctx->priority_least = ctx->priority_greatest = 0;
    if (moment_tell(CONTEXT_EMPTY, ctx, true, NULL) == 0 &&
        moment_tell(CONTEXT_QUEUED, ctx, true, NULL) == 0)
        return ctx;
    log_line(LOG_ERROR, "scheduling off for a context: no memory or no thread");
    if (ctx->set)
        vhq_set_destroy(ctx->set, true);
    pool_put(&context_pool, ctx);
    return NULL;
}

/* Makes a context once. Threads that ask for the same context meanwhile wait, and no others do. */
static struct shim_context *context_make(CUcontext handle, CUcontext base)
{
    struct shim_context *ctx = NULL;
    struct making own = {.handle = handle}, *other;
    struct quiet quiet;
    quiet_begin(&quiet);
    if (moment_tell(CONTEXT_WANTED, NULL, false, NULL) == 0) {
        pthread_mutex_lock(&lock);
        while (!(ctx = context_find(handle))) {
            LL_SEARCH_SCALAR(making, other, handle, handle);
            if (!other)
                break;
            pthread_cond_wait(&made, &lock);
        }
        if (!ctx) {
            LL_PREPEND(making, &own);
            pthread_mutex_unlock(&lock);
            ctx = context_new(handle, base);
            pthread_mutex_lock(&lock);
            LL_DELETE(making, &own);
            if (ctx) {
                table_insert(&contexts, &ctx->node, handle);
                atomic_fetch_add(&context_queued, !!ctx->set);
                atomic_fetch_add(&context_count, 1);
            }
            pthread_cond_broadcast(&made);
        }
        pthread_mutex_unlock(&lock);
    }
    quiet_end(&quiet);
    return ctx;
}

/* The primary context if the stream belongs to a green one, else `owner`. */
static CUcontext base_of(CUstream stream, CUcontext owner)
{
    CUcontext base = NULL;
    CUgreenCtx green = NULL;
    if (REAL(cuStreamGetCtx_v2)(stream, &base, &green) == CUDA_SUCCESS && green && base)
        return base;
    return owner;
}

struct shim_context *context_current(void)
{
    CUcontext handle = context_current_handle();
    struct shim_context *ctx = context_find(handle);
    return ctx || !handle ? ctx : context_make(handle, base_of(CU_STREAM_LEGACY, handle));
}

struct shim_context *context_of_stream(CUstream stream)
{
    CUcontext popped, owner = NULL;
    if (REAL(cuStreamGetCtx)(stream, &owner) != CUDA_SUCCESS || !owner)
        return NULL;
    struct shim_context *ctx = context_find(owner);
    CUcontext base = ctx ? NULL : base_of(stream, owner);
    if (ctx || REAL(cuCtxPushCurrent_v2)(base) != CUDA_SUCCESS)
        return ctx;
    ctx = context_make(owner, base);
    REAL(cuCtxPopCurrent_v2)(&popped);
    return ctx;
}

struct shim_context *context_adopt(CUcontext handle)
{
    CUcontext popped;
    struct shim_context *ctx = context_find(handle);
    if (ctx || REAL(cuCtxPushCurrent_v2)(handle) != CUDA_SUCCESS)
        return ctx;
    ctx = context_current();
    REAL(cuCtxPopCurrent_v2)(&popped);
    return ctx;
}

bool context_same_base(CUcontext handle, const struct shim_context *ctx)
{
    if (likely(handle == ctx->handle || handle == ctx->base))
        return true;
    const struct shim_context *other = context_find(handle);
    return other && other->base == ctx->base;
}

/* The context that the thread found last; void when any context has ended since. */
static _Atomic uint32_t endings;
static _Thread_local struct {
    struct shim_context *ctx;
    uint32_t endings;
} mine __attribute__((tls_model("initial-exec")));

struct shim_context *context_cached(void)
{
    uint32_t now = atomic_load_explicit(&endings, memory_order_acquire);
    if (unlikely(!mine.ctx || mine.endings != now)) {
        mine.ctx = context_current();
        mine.endings = now;
    }
    return mine.ctx;
}

void context_cache_clear(void)
{
    mine.ctx = NULL;
}

void context_device_tell(CUcontext handle)
{
    static _Atomic(CUcontext) entered;
    if (!handle || likely(atomic_load_explicit(&entered, memory_order_relaxed) == handle))
        return;
    int keep = errno;
    if (moment_tell(CONTEXT_WANTED, NULL, false, NULL) == 0 && gpu_device_current())
        atomic_store_explicit(&entered, handle, memory_order_relaxed);
    errno = keep;
}

/* ---- life and death ----------------------------------------------------------------------- */

struct visit {
    struct shim_context **found;
    uint32_t count, room;
};

static void collect(struct table_node *node, void *user)
{
    struct visit *v = user;
    struct shim_context *ctx = (struct shim_context *)(void *)node;
    if (v->count < v->room) {
        context_get(ctx);
        v->found[v->count++] = ctx;
    }
}

/* All contexts, or if `base` is not NULL its green ones. The table's lock is not held, because a
 * visit may wait for the end of a hold. Contexts made meanwhile need not be visited. */
static void visit_all(CUcontext base, void (*visit)(struct shim_context *, void *), void *user)
{
    uint32_t room = atomic_load_explicit(&context_count, memory_order_relaxed);
    struct shim_context *found[room + 1];
    struct visit v = {.found = found, .room = room};
    if (!room)
        return;
    table_each(&contexts, NULL, collect, &v);
    for (uint32_t i = 0; i < v.count; i++) {
        if (!base || (found[i]->base == base && found[i]->handle != base))
            visit(found[i], user);
        context_put(found[i]);
    }
}

void context_each(void (*visit)(struct shim_context *, void *), void *user)
{
    visit_all(NULL, visit, user);
}

void context_each_kin(struct shim_context *ctx, void (*visit)(struct shim_context *ctx, void *user),
                      void *user)
{
    CUcontext base = ctx->handle;
    context_get(ctx);
    visit(ctx, user);
    context_put(ctx);
    if (atomic_load_explicit(&context_count, memory_order_relaxed) > 1 &&
        !MUTANT(green_sync_left_out))
        visit_all(base, visit, user);
}

struct of_device {
    CUdevice device;
    struct shim_context *found;
};

static void device_matches(struct shim_context *ctx, void *user)
{
    struct of_device *d = user;
    if (ctx->gpu->handle == d->device && ctx->base == ctx->handle)
        d->found = ctx;
}

struct shim_context *context_of_device(CUdevice device)
{
    struct of_device d = {.device = device};
    context_each(device_matches, &d);
    return d.found;
}

void context_get(struct shim_context *ctx)
{
    STOP(context_get);
    atomic_fetch_add(&ctx->users, 1);
}

struct shim_context *context_find_get(CUcontext handle)
{
    struct shim_context *ctx = NULL;
    table_each(&contexts, handle, collect, &(struct visit){.found = &ctx, .room = 1});
    return ctx;
}

void context_put(struct shim_context *ctx)
{
    atomic_fetch_sub(&ctx->users, 1);
}

/* Two seconds at most. */
static bool becomes_zero(const _Atomic uint32_t *count)
{
    for (int i = 0; i < 20000 && atomic_load(count); i++)
        clock_nap(100000);
    return atomic_load(count) == 0;
}

/* Both sides use sequentially consistent operations, so at least one of the two sees the other. */
void context_park(struct shim_context *ctx)
{
    atomic_fetch_add(&ctx->parked, 1);
    if (ctx->set)
        vhq_set_park(ctx->set, true);
    becomes_zero(&ctx->looking);
}

void context_unpark(struct shim_context *ctx)
{
    if (ctx->set)
        vhq_set_park(ctx->set, false);
    atomic_fetch_sub(&ctx->parked, 1);
}

bool context_poll_begin(struct shim_context *ctx)
{
    atomic_store(&ctx->looking, 1);
    if (atomic_load(&ctx->parked) == 0)
        return true;
    atomic_store(&ctx->looking, 0);
    return false;
}

void context_poll_end(struct shim_context *ctx)
{
    atomic_store(&ctx->looking, 0);
}

void context_finish(struct shim_context *ctx, void *unused)
{
    if (!ctx->set)
        return;
    context_get(ctx);
    if (context_unusable(ctx))
        vhq_set_drain(ctx->set, VHQ_DRAIN_ALL, false);
    else
        vhq_set_finish(ctx->set);
    context_put(ctx);
}

void context_close(struct shim_context *ctx, bool alive)
{
    pthread_mutex_lock(&lock);
    if (!table_remove(&contexts, &ctx->node)) {
        pthread_mutex_unlock(&lock);
        return;
    }
    atomic_fetch_sub(&context_queued, !!ctx->set);
    atomic_fetch_sub(&context_count, 1);
    atomic_fetch_add_explicit(&endings, 1, memory_order_release);
    pthread_mutex_unlock(&lock);
    /* Threads that wait in the set have nothing left to wait for; give them time to notice. */
    if (!becomes_zero(&ctx->users)) {
        log_line(LOG_WARN, "a context was destroyed while threads waited in it");
        return; /* nothing is freed: those threads still use it */
    }
    moment_tell(CONTEXT_ENDING, ctx, alive, NULL);
    if (ctx->set)
        vhq_set_destroy(ctx->set, false);
    moment_tell(CONTEXT_ENDED, ctx, alive, NULL);
    ctx->set = NULL;
    pool_put(&context_pool, ctx);
}
