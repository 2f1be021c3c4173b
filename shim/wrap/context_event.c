/*
 * context_event.c - events that stand for whole contexts. Such a record or wait takes its place
 * behind what was called before, in the driver: behind what its context has buffered, and behind
 * earlier records of the event and waits for it, which may be anywhere.
 */
#include "shim/path/call.h"
#include "shim/objects/context.h"
#include "shim/path/drain.h"
#include "shim/objects/event.h"
#include "shim/path/external_wait.h"
#include "vhq/mutant.h"

static void foreign_add(struct shim_context *ctx, void *user)
{
    atomic_fetch_add(&ctx->foreign, 1);
}

static void everything_first(CUcontext handle, bool leave)
{
    if (call_native())
        return;
    if (!leave)
        drain_all(false);
    struct shim_context *ctx = context_find(handle);
    if (ctx)
        context_each_kin(ctx, foreign_add, NULL);
}

static void record_begins(CUcontext handle, CUevent event)
{
    struct shim_context *own = MUTANT(context_record_undrained) ? context_known() : NULL;
    if (own)
        drain_context(own);
    everything_first(handle, MUTANT(context_record_undrained));
    if (!call_native())
        event_record_begins(event);
}

static CUresult recorded(CUevent event, CUresult r)
{
    if (r == CUDA_SUCCESS && !call_native())
        event_recorded(event);
    return r;
}

static CUcontext converted(CUgreenCtx green)
{
    CUcontext handle = NULL;
    return REAL(cuCtxFromGreenCtx)(&handle, green) == CUDA_SUCCESS ? handle : NULL;
}

EXPORT CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
    record_begins(hCtx, hEvent);
    return recorded(hEvent, REAL(cuCtxRecordEvent)(hCtx, hEvent));
}

/* A record of another process may be work that this one holds, as with a stream's wait for it. */
static struct watch *wait_begins(CUcontext handle, CUevent event)
{
    everything_first(handle, MUTANT(context_wait_undrained));
    const struct shim_event *ev = call_native() ? NULL : event_find(event);
    struct shim_context *ctx = ev && ev->interprocess ? context_find(handle) : NULL;
    if (ctx)
        call_note_stands();
    return ctx && !MUTANT(context_waits_untold) ? external_wait_begin_context(ctx) : NULL;
}

EXPORT CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
    struct watch *watched = wait_begins(hCtx, hEvent);
    CUresult r = REAL(cuCtxWaitEvent)(hCtx, hEvent);
    external_wait_end(watched);
    return r;
}

EXPORT CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent)
{
    record_begins(converted(hCtx), hEvent);
    return recorded(hEvent, REAL(cuGreenCtxRecordEvent)(hCtx, hEvent));
}

EXPORT CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)
{
    struct watch *watched = wait_begins(converted(hCtx), hEvent);
    CUresult r = REAL(cuGreenCtxWaitEvent)(hCtx, hEvent);
    external_wait_end(watched);
    return r;
}
