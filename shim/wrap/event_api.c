/*
 * event_api.c - events are created, recorded, awaited by streams and by the host, asked about,
 * destroyed and shared.
 */
#include "shim/objects/event.h"

#include "shim/objects/late.h"
#include "shim/path/drain.h"
#include "shim/path/traced.h"
#include "shim/wrap/op.h"

NOTED(cuEventCreate, event_add(*phEvent, Flags), (CUevent *, phEvent), (unsigned int, Flags))

struct record {
    CUstream stream;
    CUevent event;
    unsigned flags;
    bool outside; /* a wait for another process's record */
};

static int record_run(void *payload)
{
    const struct record *a = payload;
    return (int)(a->flags ? REAL(cuEventRecordWithFlags)(a->event, a->stream, a->flags)
                          : REAL(cuEventRecord)(a->event, a->stream));
}

/* The first call with a handle of unknown origin: the driver judges it. */
static CUresult call_unknown(struct call *c, struct shim_stream *s, CUevent event)
{
    c->req.flags |= VHQ_MUST_INLINE;
    bool captures = s && capture_active(s);
    CUresult r = call_on(c, s);
    struct shim_event *ev = s && r == CUDA_SUCCESS ? event_adopt(event) : NULL;
    if (ev && captures)
        atomic_store(&ev->captured, true);
    return r;
}

static CUresult record_submit(struct call *c, struct shim_stream *s, struct shim_event *ev)
{
    struct vhq_fence *fence = NULL, *old = NULL;
    bool waited = false;
    if (s->q) {
        fence = vhq_fence_new();
        /* One reference is the event's, and another thread that records it may drop that one at
         * once. */
        c->req.signals = vhq_fence_get(fence);
        c->req.displaces = old = event_fence_swap(ev, fence, &waited);
        if (!fence || ev->interprocess)
            c->req.flags |= VHQ_MUST_INLINE;
    } else if (unlikely(atomic_load_explicit(&ev->fence, memory_order_relaxed))) {
        old = event_fence_swap(ev, NULL, &waited);
        if (old && (waited || !vhq_fence_submitted(old)))
            c->req.displaces = old;
    }
    CUresult r = call_on(c, s);
    vhq_fence_put(old);
    vhq_fence_put(fence);
    return r;
}

/* True if a record that goes at once needs no fence: nothing buffered waits for the record before,
 * and that one went into no graph. */
static bool record_unfenced(struct shim_event *ev, const struct shim_stream *s)
{
    if (!ev || atomic_load_explicit(&ev->captured, memory_order_relaxed))
        return false;
    if (!s->q)
        return !atomic_load_explicit(&ev->fence, memory_order_relaxed);
    return !ev->interprocess && context_same_base(ev->context, s->ctx) && event_unfence(ev);
}

static CUresult event_record(CUevent event, CUstream stream, unsigned flags, bool ptds)
{
    struct shim_stream *s = call_stream(&stream, ptds);
    struct shim_event *ev = s ? event_find(event) : NULL;
    if (likely(!flags) && record_unfenced(ev, s)) {
        struct call_inline at_once = {.flags = VHQ_UNCOUNTED};
        event_unseal(ev);
        if (call_inline_begin(&at_once, s)) {
            CUresult r = call_inline_end(&at_once, s, REAL(cuEventRecord)(event, stream));
            event_note(ev, s, at_once.epoch);
            return r;
        }
    }
    struct record a = {.stream = stream, .event = event, .flags = flags};
    struct call c = {OP_COPIED(record_run, &a), .req.flags = VHQ_UNCOUNTED | VHQ_MAY_PAD};
    if (unlikely(flags)) /* external: in a capture, it is a node that records */
        event_node_begins();
    if (!ev)
        return call_unknown(&c, s, event);
    bool captures = capture_active(s);
    if (atomic_load_explicit(&ev->captured, memory_order_relaxed) != captures)
        atomic_store(&ev->captured, captures);
    if (captures) {
        /* A buffered record would come behind the one that the capture takes, and undo it. */
        if (!MUTANT(capture_before_record))
            drain_event(ev);
        return call_on(&c, NULL);
    }
    /* What the driver refuses at the call must not be deferred: an event of another context, and
     * flags, which are of use in captures at most. */
    if (!context_same_base(ev->context, s->ctx) || a.flags)
        c.req.flags |= VHQ_MUST_INLINE;
    event_unseal(ev);
    CUresult r = record_submit(&c, s, ev);
    event_note(ev, s, c.epoch);
    return r;
}

BOTH(cuEventRecord, (CUevent, event), (CUstream, stream))
{
    return event_record(event, stream, 0, ptds);
}
BOTH(cuEventRecordWithFlags, (CUevent, event), (CUstream, stream), (unsigned int, flags))
{
    return event_record(event, stream, flags, ptds);
}

static int wait_run(void *payload)
{
    const struct record *a = payload;
    struct watch *watched = a->outside ? external_wait_begin(a->stream) : NULL;
    CUresult r = REAL(cuStreamWaitEvent)(a->stream, a->event, a->flags);
    external_wait_end(watched);
    return (int)r;
}

/* From now on completion of `s` tells that the record is complete, if its own stream is tracked. */
static void wait_note(struct shim_stream *s, uint64_t at, const struct shim_event *ev,
                      const struct event_seen *seen)
{
    if (at && seen->epoch && seen->stream && seen->stream != s && seen->stream->tracked &&
        event_same(ev, seen))
        join_note(s, at, seen->stream, seen->epoch);
}

/* True if the driver knows the record. No reference to the fence is held: a fence that serves
 * another record by now was submitted before. */
static bool wait_unfenced(const struct shim_event *ev)
{
    if (!ev || ev->interprocess || atomic_load_explicit(&ev->captured, memory_order_relaxed))
        return false;
    const struct vhq_fence *fence = atomic_load_explicit(&ev->fence, memory_order_acquire);
    return !fence || vhq_fence_submitted(fence);
}

BOTH(cuStreamWaitEvent, (CUstream, stream), (CUevent, event), (unsigned int, flags))
{
    struct shim_stream *s = call_stream(&stream, ptds);
    struct shim_event *ev = s ? event_find(event) : NULL;
    struct event_seen seen = {0};
    CUresult r;
    if (likely(!flags) && wait_unfenced(ev)) {
        struct call_inline at_once = {.flags = VHQ_UNCOUNTED};
        seen = event_snapshot(ev);
        external_wait_follow(s, seen.stream);
        if (call_inline_begin(&at_once, s)) {
            r = call_inline_end(&at_once, s, REAL(cuStreamWaitEvent)(stream, event, 0));
            wait_note(s, at_once.epoch, ev, &seen);
            return r;
        }
    }
    struct record a = {.stream = stream, .event = event, .flags = flags};
    struct call c = {OP_COPIED(wait_run, &a), .req.flags = VHQ_UNCOUNTED | VHQ_MAY_PAD};
    if (unlikely(flags))
        event_node_begins();
    if (!ev)
        return call_unknown(&c, s, event);
    if (capture_active(s)) {
        if (!atomic_load(&ev->captured)) { /* the driver refuses it once it knows the record */
            struct vhq_fence *fence = event_fence_get(ev, false);
            if (fence)
                vhq_fence_drain(fence, true);
            vhq_fence_put(fence);
        }
        return call_on(&c, NULL);
    }
    if (unlikely(atomic_load_explicit(&ev->captured, memory_order_relaxed))) {
        c.req.flags |= VHQ_MUST_INLINE; /* the stream joins the capture: all before it goes first */
        return call_on(&c, s);
    }
    if (ev->interprocess) {
        /* The wait is for the record that the peer has made by now. */
        c.req.flags |= VHQ_MUST_INLINE | VHQ_AFTER_ALL;
        a.outside = true;
    }
    if (flags)
        c.req.flags |= VHQ_MUST_INLINE;
    seen = event_snapshot(ev);
    external_wait_follow(s, seen.stream);
    c.req.after = event_fence_get(ev, !!s->q);
    r = call_on(&c, s);
    vhq_fence_put(c.req.after);
    wait_note(s, c.epoch, ev, &seen);
    return r;
}

/* ---- query, synchronise, elapsed time ----------------------------------------------------- */

/* The driver's answer about the latest record, which may be another one than was seen. */
static inline __attribute__((always_inline)) CUresult event_result(const struct shim_event *ev,
                                                                   const struct event_seen *seen,
                                                                   CUresult r)
{
    if (r == CUDA_SUCCESS && event_same(ev, seen))
        schedule_complete(seen->stream, seen->epoch);
    struct shim_context *ctx = event_context(ev);
    return ctx ? context_answer(ctx, r) : r;
}

EXPORT CUresult cuEventQuery(CUevent hEvent)
{
    struct shim_event *ev = thread_bypasses() ? NULL : event_find(hEvent);
    if (!ev)
        return REAL(cuEventQuery)(hEvent);
    struct event_seen seen = event_snapshot(ev);
    CUresult r;
    static _Atomic unsigned asked; /* for the mutant */
    if ((!MUTANT(event_query_early) && event_buffered(ev)) ||
        (MUTANT(event_told_late) && atomic_fetch_add(&asked, 1) % 2 == 0)) {
        /* A capture may forbid this call, which then spoils the capture. So the driver is asked. */
        r = capture_any() ? REAL(cuEventQuery)(hEvent) : CUDA_ERROR_NOT_READY;
        return event_result(ev, &seen, r == CUDA_SUCCESS ? CUDA_ERROR_NOT_READY : r);
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
    return event_result(ev, &seen, r);
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

EXPORT CUresult cuEventSynchronize(CUevent hEvent)
{
    const char *name = "cuEventSynchronize";
    uint64_t from_ns = traced_from();
    struct shim_event *ev = thread_bypasses() ? NULL : event_find(hEvent);
    if (!ev)
        return traced_waited(name, from_ns, REAL(cuEventSynchronize)(hEvent));
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
    return traced_waited(name, from_ns, event_result(ev, &seen, r));
}

/* Such an event has no time, whatever is buffered, and the driver says so. */
static bool event_timeless(CUevent handle, const struct shim_event *ev)
{
    return !handle || (ev && (ev->untimed ||
                              (!atomic_load(&ev->recorded) && !atomic_load(&event_nodes_seen))));
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

EXPORT CUresult cuEventDestroy_v2(CUevent handle)
{
    struct shim_event *ev = thread_bypasses() ? NULL : event_find(handle);
    struct vhq_fence *fence = ev ? event_fence_get(ev, false) : NULL;
    bool pending = fence && (!vhq_fence_submitted(fence) || (ev->waited && !nothing_buffered())) &&
                   !MUTANT(event_destroy_early);
    if (pending) {
        /* It goes behind its latest record and every wait for it, wherever they are. */
        struct shim_context *ctx = event_context(ev);
        const struct late what = {
            .end = destroy_end, .handle = handle, .fence = fence, .waits = true};
        pending = ctx && late_add(ctx, &what);
        if (!pending)
            drain_displaced(fence);
    }
    vhq_fence_put(fence);
    if (ev)
        event_forget(ev);
    return pending ? CUDA_SUCCESS : REAL(cuEventDestroy_v2)(handle);
}

EXPORT CUresult cuEventDestroy(CUevent handle)
{
    return cuEventDestroy_v2(handle);
}

NOTED(cuIpcGetEventHandle, event_share(event), (CUipcEventHandle *, pHandle), (CUevent, event))

/* Another process or API records such an event. */
static void opened(CUevent event)
{
    event_add(event, 0);
    event_share(event);
}
NOTED(cuIpcOpenEventHandle, opened(*phEvent), (CUevent *, phEvent), (CUipcEventHandle, handle))
/* cudaEGL.h; an EGLSyncKHR is a pointer. */
NOTED(cuEventCreateFromEGLSync, opened(*phEvent), (CUevent *, phEvent), (void *, eglSync),
      (unsigned int, flags))
