/*
 * context_api.c - calls about whole contexts: threads change their current context, contexts go,
 * and events stand for them. What a thread remembers of its context is void after a change. Before
 * a context goes, what is buffered is submitted and complete; then the shim forgets what it knew of
 * the context.
 */
#include "shim/lookup/each.h"
#include "shim/path/call.h"
#include "shim/path/drain.h"
#include "shim/path/external_wait.h"
#include "shim/objects/event.h"
#include "shim/objects/late.h"
#include "shim/pace/gates.h"
#include "shim/objects/memory.h"

/* ---- current contexts --------------------------------------------------------------------- */

WRAPPED(cuCtxPopCurrent, context_cache_clear(), , (CUcontext *, ctx))
WRAPPED(cuCtxPopCurrent_v2, context_cache_clear(), , (CUcontext *, ctx))

/* `handle`: the context that is current from now on. */
#define ENTER(sym, handle, ...)                                                                    \
    WRAPPED(sym, context_cache_clear(),                                                            \
            if (r == CUDA_SUCCESS && !thread_bypasses()) context_device_tell(handle), __VA_ARGS__)
ENTER(cuCtxSetCurrent, ctx, (CUcontext, ctx))
ENTER(cuCtxPushCurrent, ctx, (CUcontext, ctx))
ENTER(cuCtxPushCurrent_v2, ctx, (CUcontext, ctx))
ENTER(cuCtxCreate, *ctx, (CUcontext *, ctx), (unsigned int, flags), (CUdevice, dev))
ENTER(cuCtxCreate_v2, *ctx, (CUcontext *, ctx), (unsigned int, flags), (CUdevice, dev))
ENTER(cuCtxCreate_v3, *ctx, (CUcontext *, ctx), (CUexecAffinityParam *, params), (int, count),
      (unsigned int, flags), (CUdevice, dev))
ENTER(cuCtxCreate_v4, *ctx, (CUcontext *, ctx), (CUctxCreateParams *, params),
      (unsigned int, flags), (CUdevice, dev))

/* ---- contexts that go ---------------------------------------------------------------------- */

static void closing(CUcontext handle)
{
    context_cache_clear();
    struct shim_context *ctx = thread_bypasses() ? NULL : context_find(handle);
    if (!ctx)
        return;
    context_finish(ctx, NULL);
    context_close(ctx, true);
}

/* Forgets the memory that was allocated or registered in the context, and went with it. */
static CUresult closed(CUresult r)
{
    memory_forget();
    memory_registered_prune();
    return r;
}

WRAPPED(cuCtxDestroy, closing(ctx), closed(r), (CUcontext, ctx))
WRAPPED(cuCtxDestroy_v2, closing(ctx), closed(r), (CUcontext, ctx))

/* Counts down by one, unless it is 0. Returns what it was. */
static uint32_t count_down(_Atomic uint32_t *count)
{
    uint32_t was = atomic_load(count);
    while (was && !atomic_compare_exchange_weak(count, &was, was - 1))
        ;
    return was;
}

static void attached(CUcontext handle)
{
    struct shim_context *ctx = context_find(handle);
    context_cache_clear();
    if (ctx)
        atomic_fetch_add(&ctx->attached, 1);
}
NOTED(cuCtxAttach, attached(*pctx), (CUcontext *, pctx), (unsigned int, flags))

/* While attaches are left to undo the context lives on, and nothing waits. If that is not known it
 * is closed. A context that lives on is then made known again, and loses only its estimates. */
EXPORT CUresult cuCtxDetach(CUcontext handle)
{
    struct shim_context *ctx = thread_bypasses() ? NULL : context_find(handle);
    if (ctx && count_down(&ctx->attached))
        return REAL(cuCtxDetach)(handle);
    closing(handle);
    return closed(REAL(cuCtxDetach)(handle));
}
EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    CUcontext ctx = NULL;
    if (!thread_bypasses() && REAL(cuCtxFromGreenCtx)(&ctx, hCtx) == CUDA_SUCCESS)
        closing(ctx);
    return closed(REAL(cuGreenCtxDestroy)(hCtx));
}

/* ---- primary contexts --------------------------------------------------------------------- */

static struct shim_context *primary_of(CUdevice device)
{
    CUcontext handle = NULL;
    unsigned flags;
    int active = 0;
    if (thread_bypasses() || !atomic_load_explicit(&context_count, memory_order_relaxed) ||
        REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS || !active ||
        REAL(cuDevicePrimaryCtxRetain)(&handle, device) != CUDA_SUCCESS)
        return NULL;
    REAL(cuDevicePrimaryCtxRelease_v2)(device);
    return context_find(handle);
}

static void finish_each(struct shim_context *ctx, void *unused)
{
    context_finish(ctx, NULL);
    late_reap(ctx, UINT32_MAX); /* while there is a context */
    gates_pause_mirrors(ctx, true);
    context_park(ctx);
}

static void go_on_each(struct shim_context *ctx, void *unused)
{
    gates_pause_mirrors(ctx, false);
    context_unpark(ctx);
}

static void find_green(struct shim_context *ctx, void *user)
{
    struct shim_context **green = user;
    if (ctx->handle != ctx->base)
        *green = ctx;
}

/* How often the application holds a device's primary context, as far as the shim saw its calls. */
enum { RETAINED = 64 };
static _Atomic uint32_t retained[RETAINED];

static bool counted(CUdevice device)
{
    return device >= 0 && device < RETAINED;
}

NOTED(cuDevicePrimaryCtxRetain, if (counted(dev)) atomic_fetch_add(&retained[dev], 1),
      (CUcontext *, pctx), (CUdevice, dev))

/* `last`: the context may end. */
static CUresult primary_end(CUdevice device, CUresult (*end)(CUdevice), bool last)
{
    struct shim_context *ctx = primary_of(device), *goes = NULL;
    unsigned flags;
    int active = 1;
    if (ctx && last)
        context_each_kin(ctx, finish_each, NULL);
    CUresult r = last ? closed(end(device)) : end(device);
    bool over = ctx && r == CUDA_SUCCESS &&
                REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS &&
                !active;
    if (ctx && last && !over)
        context_each_kin(ctx, go_on_each, NULL);
    while (over && goes != ctx) { /* its green contexts have gone with it */
        goes = ctx;
        context_each_kin(ctx, find_green, &goes);
        context_close(goes, false);
    }
    return r;
}

/* If other holders are left the driver waits for nothing. Two threads may release at the same time,
 * though, and the driver may take the first for the last. */
static CUresult primary_release(CUdevice device, CUresult (*end)(CUdevice))
{
    uint32_t holders = counted(device) && !thread_bypasses() ? count_down(&retained[device]) : 0;
    bool last = holders <= 1 || MUTANT(release_waits);
    CUresult r = primary_end(device, end, last);
    if (r != CUDA_SUCCESS && !last)
        atomic_fetch_add(&retained[device], 1);
    return r;
}

static CUresult primary_reset(CUdevice device, CUresult (*end)(CUdevice))
{
    if (counted(device))
        atomic_store(&retained[device], 0);
    return primary_end(device, end, true);
}

#define PRIMARY(sym, ends)                                                                         \
    EXPORT CUresult sym(CUdevice dev)                                                              \
    {                                                                                              \
        return ends(dev, REAL(sym));                                                               \
    }
PRIMARY(cuDevicePrimaryCtxRelease, primary_release)
PRIMARY(cuDevicePrimaryCtxRelease_v2, primary_release)
PRIMARY(cuDevicePrimaryCtxReset, primary_reset)
PRIMARY(cuDevicePrimaryCtxReset_v2, primary_reset)

/* ---- events that stand for whole contexts -------------------------------------------------- */

/* Such a record or wait takes its place in the driver behind what was called before: what its
 * context has buffered, and earlier records of the event and waits for it, which may be in any
 * context. */

static void given_work(struct shim_context *ctx, void *user)
{
    pthread_mutex_lock(&ctx->lock);
    ctx->waits = true;
    for (struct shim_stream *s = ctx->streams; s; s = s->next)
        atomic_fetch_add(&s->epoch, EPOCH_CALL);
    pthread_mutex_unlock(&ctx->lock);
}

/* A wait counts as work in each stream, before the driver is called and again after it. So a thread
 * that finds a stream done in between has not seen the wait. A record is work in no stream. */
static void streams_wait(CUcontext handle)
{
    struct shim_context *ctx = thread_bypasses() ? NULL : context_find(handle);
    if (ctx)
        context_each_kin(ctx, given_work, NULL);
}

static void record_begins(CUevent event)
{
    struct shim_context *own = MUTANT(context_record_undrained) ? context_current_known() : NULL;
    if (own)
        drain_context(own, false);
    if (thread_bypasses())
        return;
    if (!MUTANT(context_record_undrained))
        drain_all(false);
    struct shim_event *ev = event_find(event);
    if (ev) /* it is behind all of some context, and stands for no stream */
        event_note(ev, NULL, 0);
}

#define RECORDS(sym, type)                                                                         \
    WRAPPED(sym, record_begins(hEvent),                                                            \
            if (r == CUDA_SUCCESS && !thread_bypasses()) event_clear_captured(hEvent),             \
            (type, hCtx), (CUevent, hEvent))
RECORDS(cuCtxRecordEvent, CUcontext)
RECORDS(cuGreenCtxRecordEvent, CUgreenCtx)

/* `green`: NULL in a call that names the context itself. */
static CUresult context_wait(CUcontext handle, const CUgreenCtx *green, CUevent event)
{
    if (!MUTANT(context_wait_undrained) && !thread_bypasses())
        drain_all(false);
    streams_wait(handle);
    /* Another process's record may be work that this one holds, as with a stream's wait for it. */
    const struct shim_event *ev = thread_bypasses() ? NULL : event_find(event);
    struct shim_context *ctx = ev && ev->interprocess ? context_find(handle) : NULL;
    if (ctx)
        external_wait_note();
    struct watch *watched =
        ctx && !MUTANT(context_waits_untold) ? external_wait_begin_context(ctx) : NULL;
    CUresult r =
        green ? REAL(cuGreenCtxWaitEvent)(*green, event) : REAL(cuCtxWaitEvent)(handle, event);
    external_wait_end(watched);
    if (r == CUDA_SUCCESS)
        streams_wait(handle);
    return r;
}

EXPORT CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
    return context_wait(hCtx, NULL, hEvent);
}
EXPORT CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)
{
    CUcontext handle = NULL;
    if (REAL(cuCtxFromGreenCtx)(&handle, hCtx) != CUDA_SUCCESS)
        handle = NULL;
    return context_wait(handle, &hCtx, hEvent);
}
