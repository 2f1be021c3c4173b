/*
 * event_api.c - events are created, asked about, awaited by the host, destroyed and shared.
 */
#include "shim/objects/event.h"

#include "shim/lookup/each.h"
#include "shim/path/call.h"
#include "shim/objects/late.h"
#include "shim/path/drain.h"
#include "shim/path/external_wait.h"
#include "shim/path/traced.h"

static void created(CUevent handle, unsigned flags)
{
    struct shim_event *ev = event_add(handle);
    if (!ev)
        return;
    ev->interprocess = (flags & CU_EVENT_INTERPROCESS) != 0;
    ev->untimed = (flags & CU_EVENT_DISABLE_TIMING) != 0;
}
NOTED(cuEventCreate, created(*phEvent, Flags), (CUevent *, phEvent), (unsigned int, Flags))

/* ---- query, synchronise, elapsed time ----------------------------------------------------- */

static CUresult event_result(const struct shim_event *ev, CUresult r)
{
    struct shim_context *ctx = event_context(ev);
    return ctx ? context_answer(ctx, r) : r;
}

/* The driver says that the latest record is complete. It may be another one than was seen. */
static void event_completed(const struct shim_event *ev, const struct event_seen *seen)
{
    if (event_same(ev, seen))
        schedule_complete(seen->stream, seen->epoch);
}

static __attribute__((noinline)) CUresult outside_wait(const struct shim_event *ev, CUevent handle)
{
    CUresult r = CUDA_SUCCESS;
    struct shim_context *ctx = MUTANT(thread_waits_untold) ? NULL : context_find(ev->context);
    if (ctx)
        external_wait_thread_begins(ctx, NULL, &r);
    r = REAL(cuEventSynchronize)(handle);
    if (ctx)
        external_wait_thread_ends(&r);
    return r;
}

/* A deliberate bug. */
static bool event_late(void)
{
    static _Atomic unsigned asked;
    return MUTANT(event_told_late) && atomic_fetch_add(&asked, 1) % 2 == 0;
}

EXPORT CUresult cuEventQuery(CUevent hEvent)
{
    struct shim_event *ev = thread_bypasses() ? NULL : event_find(hEvent);
    if (!ev)
        return REAL(cuEventQuery)(hEvent);
    struct event_seen seen = event_snapshot(ev);
    CUresult r;
    if ((!MUTANT(event_query_early) && event_buffered(ev)) || event_late()) {
        /* A capture may forbid this call, which then spoils the capture. So the driver is asked. */
        r = capture_any() ? REAL(cuEventQuery)(hEvent) : CUDA_ERROR_NOT_READY;
        return event_result(ev, r == CUDA_SUCCESS ? CUDA_ERROR_NOT_READY : r);
    }
    STOP(event_query);
    r = REAL(cuEventQuery)(hEvent);
    if (r == CUDA_ERROR_NOT_READY && ev->interprocess) {
        /* What runs may wait for this thread, which waits for another process. */
        const struct shim_context *ctx = context_find(ev->context);
        if (ctx)
            external_wait_asked(ctx);
    }
    if (MUTANT(event_epoch_late))
        seen = event_snapshot(ev);
    if (r == CUDA_SUCCESS)
        event_completed(ev, &seen);
    return event_result(ev, r);
}

static CUresult event_synchronize(CUevent hEvent)
{
    struct shim_event *ev = thread_bypasses() ? NULL : event_find(hEvent);
    if (!ev)
        return REAL(cuEventSynchronize)(hEvent);
    bool captures = capture_any();
    struct event_seen seen = event_snapshot(ev);
    struct vhq_fence *fence = event_fence_get(ev, false);
    if (fence && seen.stream && !MUTANT(event_sync_undrained))
        vhq_fence_drain(fence, thread_boosts(seen.stream));
    vhq_fence_put(fence);
    CUresult r;
    CAPTURE_LATER(captures, r,
                  unlikely(ev->interprocess) ? outside_wait(ev, hEvent)
                                             : REAL(cuEventSynchronize)(hEvent));
    if (r == CUDA_SUCCESS)
        event_completed(ev, &seen);
    return event_result(ev, r);
}

EXPORT CUresult cuEventSynchronize(CUevent hEvent)
{
    uint64_t from_ns = traced_from();
    return traced_waited("cuEventSynchronize", from_ns, event_synchronize(hEvent));
}

/* Such an event has no time, whatever is buffered, and the driver says so. */
static bool event_timeless(CUevent handle, const struct shim_event *ev)
{
    bool never = ev && !atomic_load(&ev->recorded) && !atomic_load(&event_nodes_seen);
    return !handle || (ev && ev->untimed) || never;
}

static bool not_yet(const float *ms, CUevent start, CUevent end)
{
    struct shim_event *first = thread_bypasses() ? NULL : event_find(start);
    struct shim_event *last = thread_bypasses() ? NULL : event_find(end);
    bool buffered = (first && event_buffered(first)) || (last && event_buffered(last));
    return buffered && ms && !event_timeless(start, first) && !event_timeless(end, last);
}

#define ELAPSED(sym)                                                                               \
    EXPORT CUresult sym(float *pMilliseconds, CUevent hStart, CUevent hEnd)                        \
    {                                                                                              \
        return not_yet(pMilliseconds, hStart, hEnd) ? CUDA_ERROR_NOT_READY                         \
                                                    : REAL(sym)(pMilliseconds, hStart, hEnd);      \
    }
ELAPSED(cuEventElapsedTime)
ELAPSED(cuEventElapsedTime_v2)

/* ---- destroy, share ----------------------------------------------------------------------- */

static void destroy_end(const struct late *what, bool alive)
{
    if (alive)
        REAL(cuEventDestroy_v2)(what->handle);
}

/* Destroys the event behind its latest record and every wait for it, wherever they are. False:
 * these have been submitted, and the caller destroys the event. */
static bool destroy_later(struct shim_event *ev, struct vhq_fence *fence)
{
    struct shim_context *ctx = event_context(ev);
    const struct late what = {
        .end = destroy_end, .handle = ev->handle, .fence = fence, .waits = true};
    if (ctx && late_add(ctx, &what))
        return true;
    drain_displaced(fence);
    return false;
}

static CUresult event_destroy(CUevent handle)
{
    struct shim_event *ev = thread_bypasses() ? NULL : event_find(handle);
    struct vhq_fence *fence = ev ? event_fence_get(ev, false) : NULL;
    bool pending = fence && (!vhq_fence_submitted(fence) || (ev->waited && !nothing_buffered()));
    if (pending)
        pending = !MUTANT(event_destroy_early) && destroy_later(ev, fence);
    vhq_fence_put(fence);
    if (ev)
        event_forget(ev);
    return pending ? CUDA_SUCCESS : REAL(cuEventDestroy_v2)(handle);
}

EXPORT CUresult cuEventDestroy(CUevent hEvent)
{
    return event_destroy(hEvent);
}
EXPORT CUresult cuEventDestroy_v2(CUevent hEvent)
{
    return event_destroy(hEvent);
}

NOTED(cuIpcGetEventHandle, event_share(event), (CUipcEventHandle *, pHandle), (CUevent, event))

/* Another process or API records such an event. */
static void opened(CUevent event)
{
    event_add(event);
    event_share(event);
}
NOTED(cuIpcOpenEventHandle, opened(*phEvent), (CUevent *, phEvent), (CUipcEventHandle, handle))
/* cudaEGL.h; an EGLSyncKHR is a pointer. */
NOTED(cuEventCreateFromEGLSync, opened(*phEvent), (CUevent *, phEvent), (void *, eglSync),
      (unsigned int, flags))
