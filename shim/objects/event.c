/*
 * event.c - events: record, wait, query, synchronise, elapsed time, destroy (see event.h).
 *
 * An application knows an event by its handle; what a wait means is the *record* it saw. Each
 * record through a vHQ is a fence: waits follow it, the next record follows the waits.
 */
#include "shim/objects/event.h"

#include "shim/path/call.h"
#include "shim/objects/capture.h"
#include "shim/path/drain.h"
#include "shim/path/join.h"
#include "shim/path/external_wait.h"
#include "shim/objects/pool.h"
#include "shim/pace/schedule.h"
#include "shim/path/traced.h"
#include "vhq/mutant.h"

TABLE(events, 4096);
POOL(event_pool, struct shim_event, free_next);
_Atomic bool event_nodes_seen;

static void event_lock(struct shim_event *ev)
{
    while (atomic_exchange_explicit(&ev->locked, 1, memory_order_acquire))
        ;
}
static void event_unlock(struct shim_event *ev)
{
    atomic_store_explicit(&ev->locked, 0, memory_order_release);
}

/* ---- known events ------------------------------------------------------------------------- */

static struct shim_event *event_find(CUevent handle)
{
    return handle ? (struct shim_event *)(void *)table_find(&events, handle) : NULL;
}

/* Put a new fence in place of the one of the latest record, which is returned. */
static struct vhq_fence *event_swap(struct shim_event *ev, struct vhq_fence *fence, bool *waited)
{
    event_lock(ev);
    struct vhq_fence *old = atomic_load_explicit(&ev->fence, memory_order_relaxed);
    atomic_store_explicit(&ev->fence, fence, memory_order_relaxed);
    *waited = ev->waited;
    ev->waited = false;
    event_unlock(ev);
    return old;
}

static void event_forget(struct shim_event *ev)
{
    bool waited;
    table_remove(&events, &ev->node);
    vhq_fence_put(event_swap(ev, NULL, &waited));
    pool_put(&event_pool, ev);
}

static struct shim_event *event_add(CUevent handle)
{
    struct shim_event *ev = event_find(handle);
    if (ev) /* destroyed with its context: the handle is new */
        event_forget(ev);
    ev = pool_get(&event_pool);
    if (!ev)
        return NULL;
    ev->handle = handle;
    ev->context = context_handle();
    ev->waited = ev->interprocess = false;
    atomic_store(&ev->fence, NULL);
    atomic_store(&ev->captured, false);
    atomic_store(&ev->stream, NULL);
    atomic_store(&ev->seal, 0);
    table_insert(&events, &ev->node, handle);
    return ev;
}

/* A handle of unknown origin that the driver has accepted. Until then nothing is kept of it: it may
 * be no event at all. */
static struct shim_event *event_adopt(CUevent handle)
{
    static pthread_mutex_t adopting = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&adopting);
    struct shim_event *ev = event_find(handle);
    if (!ev && handle)
        ev = event_add(handle);
    pthread_mutex_unlock(&adopting);
    return ev;
}

/* A wait for an event without a record that is pending may be buffered all the same: a record or a
 * destroy that comes later must follow it. So there is a fence for them to displace. */
static struct vhq_fence *fence_passed(void)
{
    struct vhq_fence *fence = vhq_fence_new();
    if (fence)
        vhq_fence_cancel(fence);
    return fence;
}

struct vhq_fence *event_fence(struct shim_event *ev, bool waits)
{
    struct vhq_fence *passed = NULL;
    if (!atomic_load_explicit(&ev->fence, memory_order_acquire)) {
        if (!waits || !(passed = fence_passed()))
            return NULL;
    }
    event_lock(ev);
    struct vhq_fence *fence = atomic_load_explicit(&ev->fence, memory_order_relaxed);
    if (!fence && passed) {
        fence = passed;
        passed = NULL;
        atomic_store_explicit(&ev->fence, fence, memory_order_relaxed);
    }
    vhq_fence_get(fence);
    ev->waited |= waits;
    event_unlock(ev);
    vhq_fence_put(passed);
    return fence;
}

void event_share(CUevent handle)
{
    struct shim_event *ev = event_adopt(handle);
    struct vhq_fence *fence = ev ? event_fence(ev, false) : NULL;
    if (ev)
        ev->interprocess = true;
    if (fence) /* the peer sees only what was submitted */
        vhq_fence_drain(fence, false);
    vhq_fence_put(fence);
}

struct sweep {
    CUcontext context;
    struct shim_event *found[64];
    unsigned count;
};

static void sweep_match(struct table_node *node, void *user)
{
    struct sweep *sweep = user;
    struct shim_event *ev = (struct shim_event *)(void *)node;
    if (ev->context == sweep->context && sweep->count < 64)
        sweep->found[sweep->count++] = ev;
}

static void events_end(struct shim_context *ctx, bool alive)
{
    struct sweep sweep = {.context = ctx->handle};
    do {
        sweep.count = 0;
        table_each(&events, sweep_match, &sweep);
        for (unsigned i = 0; i < sweep.count; i++)
            event_forget(sweep.found[i]);
    } while (sweep.count);
}
CONTEXT_END(CONTEXT_ENDED, events_end)

EXPORT CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    CUresult r = REAL(cuEventCreate)(phEvent, Flags);
    if (r == CUDA_SUCCESS && !call_native()) {
        struct shim_event *ev = event_add(*phEvent);
        if (ev)
            ev->interprocess = (Flags & CU_EVENT_INTERPROCESS) != 0;
    }
    return r;
}

/* ---- record ------------------------------------------------------------------------------- */

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

/* What the driver refuses while the caller waits must not be deferred: flags that it may not know,
 * an event of another context. */
static bool record_refusable(const struct record *a, const struct shim_event *ev,
                             const struct shim_stream *s)
{
    return !context_same_base(ev->context, s->ctx) ||
           (a->flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL);
}

/* The first call with a handle of unknown origin: the driver judges it. */
static CUresult call_unknown(struct call *c, struct shim_stream *s, CUevent event)
{
    c->req.flags |= VHQ_MUST_INLINE;
    bool captures = s && capture_any() && capture_active(s->handle);
    CUresult r = call_on(c, s);
    struct shim_event *ev = s && r == CUDA_SUCCESS ? event_adopt(event) : NULL;
    if (ev && captures)
        atomic_store(&ev->captured, true);
    return r;
}

static CUresult record_queued(struct call *c, struct shim_stream *s, struct shim_event *ev)
{
    struct vhq_fence *fence = vhq_fence_new();
    bool waited;
    /* One reference is the event's, and another thread that records it may drop that one at
     * once. */
    c->req.signals = vhq_fence_get(fence);
    c->req.displaces = event_swap(ev, fence, &waited);
    if (!fence || ev->interprocess)
        c->req.flags |= VHQ_MUST_INLINE;
    CUresult r = call_on(c, s);
    vhq_fence_put(c->req.displaces);
    vhq_fence_put(fence);
    return r;
}

static CUresult record_straight(struct call *c, struct shim_stream *s, struct shim_event *ev)
{
    struct vhq_fence *old = NULL;
    bool waited = false;
    if (unlikely(atomic_load_explicit(&ev->fence, memory_order_relaxed)))
        old = event_swap(ev, NULL, &waited);
    if (old && (waited || !vhq_fence_submitted(old)))
        c->req.displaces = old;
    CUresult r = call_on(c, s);
    vhq_fence_put(old);
    return r;
}

/* Nobody waits for the record before, and none went into a graph. */
static inline bool record_direct(const struct shim_event *ev, const struct shim_stream *s)
{
    return ev && call_direct(s) && !atomic_load_explicit(&ev->fence, memory_order_relaxed) &&
           !atomic_load_explicit(&ev->captured, memory_order_relaxed);
}

/* Before the driver hears of the record: from then on its answers may be about this one. */
static void record_unseal(struct shim_event *ev)
{
    atomic_store_explicit(&ev->seal, 0, memory_order_relaxed);
}

static uint64_t record_seal(const struct shim_stream *s, uint64_t epoch)
{
    return epoch ^ (uint64_t)(uintptr_t)s;
}

static void record_note(struct shim_event *ev, struct shim_stream *s, uint64_t epoch)
{
    atomic_store_explicit(&ev->epoch, epoch, memory_order_relaxed);
    atomic_store_explicit(&ev->stream, s, memory_order_release);
    atomic_store_explicit(&ev->seal, record_seal(s, epoch), memory_order_release);
}

/* A record, seen before the driver hears of what is called. */
struct seen {
    struct shim_stream *stream;
    uint64_t epoch, seal;
};

static struct seen record_see(const struct shim_event *ev)
{
    struct seen seen = {.seal = atomic_load_explicit(&ev->seal, memory_order_acquire)};
    seen.stream = atomic_load_explicit(&ev->stream, memory_order_acquire);
    seen.epoch = atomic_load_explicit(&ev->epoch, memory_order_acquire);
    return seen;
}

/* Nobody asks when work of other streams is done. */
static inline bool record_counts(const struct shim_event *ev)
{
    const struct shim_stream *s = atomic_load_explicit(&ev->stream, memory_order_acquire);
    return s && s->tracked;
}

/* It is still the latest one, and was when the driver heard of the call. What other processes
 * record, too, may be theirs. */
static bool record_same(const struct shim_event *ev, const struct seen *seen)
{
    return !ev->interprocess && seen->stream &&
           seen->seal == record_seal(seen->stream, seen->epoch) &&
           seen->seal == atomic_load_explicit(&ev->seal, memory_order_acquire);
}

static CUresult event_record(CUevent event, CUstream stream, unsigned flags, bool ptds)
{
    struct shim_stream *s = call_stream(&stream, ptds);
    struct shim_event *ev = s ? event_find(event) : NULL;
    if (likely(!flags) && record_direct(ev, s)) {
        record_unseal(ev);
        uint64_t epoch = call_direct_begin(s);
        CUresult r = call_direct_end(s, &epoch, 0, REAL(cuEventRecord)(event, stream));
        record_note(ev, s, epoch);
        return r;
    }
    struct record a = {.stream = stream, .event = event, .flags = flags};
    struct call c = {.now = record_run,
                     .run = record_run,
                     .args = &a,
                     .req = {.bytes = sizeof(a), .flags = VHQ_UNCOUNTED}};
    if (unlikely(flags)) /* external: in a capture, a node that records */
        event_node_begins();
    if (!ev)
        return call_unknown(&c, s, event);
    bool captures = capture_any() && capture_active(s->handle);
    if (atomic_load_explicit(&ev->captured, memory_order_relaxed) != captures)
        atomic_store(&ev->captured, captures);
    if (captures)
        return call_on(&c, NULL);
    if (record_refusable(&a, ev, s))
        c.req.flags |= VHQ_MUST_INLINE;
    record_unseal(ev);
    CUresult r = s->q ? record_queued(&c, s, ev) : record_straight(&c, s, ev);
    record_note(ev, s, c.epoch);
    return r;
}

EXPORT CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    return event_record(hEvent, hStream, 0, false);
}
EXPORT CUresult cuEventRecord_ptsz(CUevent hEvent, CUstream hStream)
{
    return event_record(hEvent, hStream, 0, true);
}
EXPORT CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    return event_record(hEvent, hStream, flags, false);
}
EXPORT CUresult cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    return event_record(hEvent, hStream, flags, true);
}

void event_record_begins(CUevent handle)
{
    struct shim_event *ev = event_find(handle);
    if (ev)
        record_note(ev, NULL, 0);
}

void event_recorded(CUevent handle)
{
    struct shim_event *ev = event_find(handle);
    if (ev)
        atomic_store(&ev->captured, false);
}

/* ---- wait --------------------------------------------------------------------------------- */

static int wait_run(void *payload)
{
    const struct record *a = payload;
    struct watch *watched = a->outside ? external_wait_begin(a->stream) : NULL;
    CUresult r = REAL(cuStreamWaitEvent)(a->stream, a->event, a->flags);
    external_wait_end(watched);
    return (int)r;
}

/* Completion of `s` will say that the record is complete too, if that matters to anybody. */
static void wait_note(struct shim_stream *s, uint64_t at, const struct shim_event *ev,
                      const struct seen *seen)
{
    if (at && seen->epoch && seen->stream != s && record_same(ev, seen) && seen->stream->tracked)
        join_note(s, at, seen->stream, seen->epoch);
}

static CUresult wait_direct(CUstream stream, struct shim_stream *s, const struct shim_event *ev)
{
    struct seen seen = record_see(ev);
    external_wait_follow(s, seen.stream);
    uint64_t epoch = call_direct_begin(s);
    CUresult r = call_direct_end(s, &epoch, 0, REAL(cuStreamWaitEvent)(stream, ev->handle, 0));
    wait_note(s, epoch, ev, &seen);
    return r;
}

static CUresult event_wait(CUstream stream, CUevent event, unsigned flags, bool ptds)
{
    struct shim_stream *s = call_stream(&stream, ptds);
    struct shim_event *ev = s ? event_find(event) : NULL;
    if (likely(!flags) && record_direct(ev, s) && !ev->interprocess)
        return wait_direct(stream, s, ev);
    struct record a = {.stream = stream, .event = event, .flags = flags};
    struct call c = {.now = wait_run,
                     .run = wait_run,
                     .args = &a,
                     .req = {.bytes = sizeof(a), .flags = VHQ_UNCOUNTED}};
    if (unlikely(flags))
        event_node_begins();
    if (!ev)
        return call_unknown(&c, s, event);
    if (capture_any() && capture_active(s->handle))
        return call_on(&c, NULL);
    if (unlikely(atomic_load_explicit(&ev->captured, memory_order_relaxed))) {
        c.req.flags |= VHQ_MUST_INLINE; /* the stream joins the capture: all before it goes first */
        return call_on(&c, s);
    }
    if (ev->interprocess) {
        /* It means the record the peer has made by now. */
        c.req.flags |= VHQ_MUST_INLINE | VHQ_AFTER_ALL;
        a.outside = true;
    }
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        c.req.flags |= VHQ_MUST_INLINE;
    struct seen seen = {0};
    external_wait_follow(s, atomic_load_explicit(&ev->stream, memory_order_acquire));
    if (record_counts(ev))
        seen = record_see(ev);
    c.req.after = event_fence(ev, !!s->q);
    CUresult r = call_on(&c, s);
    vhq_fence_put(c.req.after);
    wait_note(s, c.epoch, ev, &seen);
    return r;
}

EXPORT CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    return event_wait(hStream, hEvent, Flags, false);
}
EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    return event_wait(hStream, hEvent, Flags, true);
}

/* ---- query, synchronise, elapsed time ----------------------------------------------------- */

/* The stream of the latest record may have been destroyed since, and its struct be another
 * one's. */
static struct shim_context *event_context(const struct shim_event *ev)
{
    const struct shim_stream *s = atomic_load_explicit(&ev->stream, memory_order_acquire);
    struct shim_context *ctx = s ? s->ctx : NULL; /* NULL: never recorded */
    return ctx && ctx->handle == ev->context ? ctx : context_find(ev->context);
}

static CUresult event_result(const struct shim_event *ev, CUresult r)
{
    struct shim_context *ctx = event_context(ev);
    return ctx ? context_answer(ctx, r) : r;
}

static bool event_buffered(struct shim_event *ev)
{
    struct vhq_fence *fence = event_fence(ev, false);
    bool buffered = fence && !vhq_fence_submitted(fence);
    vhq_fence_put(fence);
    return buffered;
}

/* The driver says that the latest record is complete, which may be another one than was seen. */
static void event_completed(const struct shim_event *ev, const struct seen *seen)
{
    if (record_same(ev, seen))
        schedule_complete(seen->stream, seen->epoch);
}

EXPORT CUresult cuEventQuery(CUevent hEvent)
{
    struct shim_event *ev = call_native() ? NULL : event_find(hEvent);
    if (!ev)
        return REAL(cuEventQuery)(hEvent);
    struct seen seen = record_see(ev);
    if (!MUTANT(event_query_early) && event_buffered(ev))
        return event_result(ev, CUDA_ERROR_NOT_READY);
    STOP(event_query);
    CUresult r = REAL(cuEventQuery)(hEvent);
    if (MUTANT(event_epoch_late))
        seen = record_see(ev);
    if (r == CUDA_SUCCESS)
        event_completed(ev, &seen);
    return event_result(ev, r);
}

static CUresult event_synchronize(CUevent hEvent)
{
    struct shim_event *ev = call_native() ? NULL : event_find(hEvent);
    if (!ev)
        return REAL(cuEventSynchronize)(hEvent);
    struct seen seen = record_see(ev);
    struct vhq_fence *fence = event_fence(ev, false);
    if (fence && seen.stream && !MUTANT(event_sync_undrained))
        vhq_fence_drain(fence, call_boost(seen.stream));
    vhq_fence_put(fence);
    CUresult r = REAL(cuEventSynchronize)(hEvent);
    if (r == CUDA_SUCCESS)
        event_completed(ev, &seen);
    return event_result(ev, r);
}

EXPORT CUresult cuEventSynchronize(CUevent hEvent)
{
    uint64_t from_ns = traced_from();
    return traced_waited("cuEventSynchronize", from_ns, event_synchronize(hEvent));
}

static bool either_buffered(CUevent start, CUevent end)
{
    struct shim_event *first = call_native() ? NULL : event_find(start);
    struct shim_event *last = call_native() ? NULL : event_find(end);
    return (first && event_buffered(first)) || (last && event_buffered(last));
}

EXPORT CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    if (either_buffered(hStart, hEnd))
        return CUDA_ERROR_NOT_READY;
    return REAL(cuEventElapsedTime)(pMilliseconds, hStart, hEnd);
}
EXPORT CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    if (either_buffered(hStart, hEnd))
        return CUDA_ERROR_NOT_READY;
    return REAL(cuEventElapsedTime_v2)(pMilliseconds, hStart, hEnd);
}

/* ---- destroy, share ----------------------------------------------------------------------- */

static int destroy_run(void *payload)
{
    REAL(cuEventDestroy_v2)(((struct record *)payload)->event);
    return 0;
}

/* Behind its latest record and every wait for it, wherever they are. False: they have gone, and the
 * caller destroys it. */
static bool destroy_later(struct shim_event *ev, struct vhq_fence *fence)
{
    struct shim_context *ctx = event_context(ev);
    if (!ctx || !ctx->janitor) {
        drain_displaced(fence);
        return false;
    }
    struct vhq_req req = {.bytes = sizeof(struct record),
                          .flags = VHQ_UNCOUNTED | VHQ_MUST_BUFFER,
                          .displaces = fence};
    struct vhq_cmd *cmd;
    vhq_begin(ctx->janitor->q, &req, &cmd);
    *cmd = (struct vhq_cmd){.run = destroy_run, .payload = cmd->payload};
    *(struct record *)cmd->payload = (struct record){.event = ev->handle};
    vhq_end(ctx->janitor->q, 0);
    return true;
}

static CUresult event_destroy(CUevent handle)
{
    struct shim_event *ev = call_native() ? NULL : event_find(handle);
    struct vhq_fence *fence = ev ? event_fence(ev, false) : NULL;
    bool pending = fence && (!vhq_fence_submitted(fence) || (ev->waited && !drain_nothing()));
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

EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
    CUresult r = REAL(cuIpcGetEventHandle)(pHandle, event);
    if (r == CUDA_SUCCESS && !call_native())
        event_share(event);
    return r;
}
/* Somebody outside records it. */
static CUresult opened(CUresult r, const CUevent *event)
{
    if (r == CUDA_SUCCESS && !call_native()) {
        event_add(*event);
        event_share(*event);
    }
    return r;
}

EXPORT CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
    return opened(REAL(cuIpcOpenEventHandle)(phEvent, handle), phEvent);
}

/* cudaEGL.h; an EGLSyncKHR is a pointer. */
EXPORT CUresult cuEventCreateFromEGLSync(CUevent *phEvent, void *eglSync, unsigned int flags)
{
    return opened(REAL(cuEventCreateFromEGLSync)(phEvent, eglSync, flags), phEvent);
}
