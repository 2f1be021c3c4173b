/*
 * context_event.c - events that stand for whole contexts. Such a record or wait takes its place in
 * the driver behind what was called before: what its context has buffered, and earlier records of
 * the event and waits for it, which may be in any context.
 */
#include "shim/lookup/each.h"
#include "shim/path/call.h"
#include "shim/path/drain.h"
#include "shim/objects/event.h"
#include "shim/path/external_wait.h"

static void everything_first(bool leave)
{
    if (!leave && !thread_bypasses())
        drain_all(false);
}

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
    everything_first(MUTANT(context_record_undrained));
    struct shim_event *ev = thread_bypasses() ? NULL : event_find(event);
    if (ev) /* it is behind all of some context, and stands for no stream */
        event_note(ev, NULL, 0);
}

#define RECORDS(sym, type)                                                                         \
    WRAPPED(sym, record_begins(hEvent),                                                            \
            if (r == CUDA_SUCCESS && !thread_bypasses()) event_clear_captured(hEvent),             \
            (type, hCtx), (CUevent, hEvent))
RECORDS(cuCtxRecordEvent, CUcontext)
RECORDS(cuGreenCtxRecordEvent, CUgreenCtx)

/* Another process's record may be work that this one holds, as with a stream's wait for it. */
static struct watch *wait_begins(CUcontext handle, CUevent event)
{
    everything_first(MUTANT(context_wait_undrained));
    streams_wait(handle);
    const struct shim_event *ev = thread_bypasses() ? NULL : event_find(event);
    struct shim_context *ctx = ev && ev->interprocess ? context_find(handle) : NULL;
    if (ctx)
        external_wait_note();
    return ctx && !MUTANT(context_waits_untold) ? external_wait_begin_context(ctx) : NULL;
}

static CUresult wait_ends(CUcontext handle, struct watch *watched, CUresult r)
{
    external_wait_end(watched);
    if (r == CUDA_SUCCESS)
        streams_wait(handle);
    return r;
}

EXPORT CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
    struct watch *watched = wait_begins(hCtx, hEvent);
    return wait_ends(hCtx, watched, REAL(cuCtxWaitEvent)(hCtx, hEvent));
}

EXPORT CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)
{
    CUcontext handle = NULL;
    if (REAL(cuCtxFromGreenCtx)(&handle, hCtx) != CUDA_SUCCESS)
        handle = NULL;
    struct watch *watched = wait_begins(handle, hEvent);
    return wait_ends(handle, watched, REAL(cuGreenCtxWaitEvent)(hCtx, hEvent));
}
