/*
 * event_order.c - events are recorded, and streams wait for them.
 */
#include "shim/objects/event.h"

#include "shim/lookup/each.h"
#include "shim/path/call.h"
#include "shim/path/external_wait.h"
#include "shim/path/drain.h"

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

static CUresult record_queued(struct call *c, struct shim_stream *s, struct shim_event *ev)
{
    struct vhq_fence *fence = vhq_fence_new();
    bool waited;
    /* One reference is the event's, and another thread that records it may drop that one at
     * once. */
    c->req.signals = vhq_fence_get(fence);
    c->req.displaces = event_fence_swap(ev, fence, &waited);
    if (!fence || ev->interprocess)
        c->req.flags |= VHQ_MUST_INLINE;
    CUresult r = call_on(c, s);
    vhq_fence_put(c->req.displaces);
    vhq_fence_put(fence);
    return r;
}

static CUresult record_unqueued(struct call *c, struct shim_stream *s, struct shim_event *ev)
{
    struct vhq_fence *old = NULL;
    bool waited = false;
    if (unlikely(atomic_load_explicit(&ev->fence, memory_order_relaxed)))
        old = event_fence_swap(ev, NULL, &waited);
    if (old && (waited || !vhq_fence_submitted(old)))
        c->req.displaces = old;
    CUresult r = call_on(c, s);
    vhq_fence_put(old);
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
    struct call c = {.now = record_run,
                     .run = record_run,
                     .args = &a,
                     .req = {.bytes = sizeof(a), .flags = VHQ_UNCOUNTED | VHQ_MAY_PAD}};
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
    CUresult r = s->q ? record_queued(&c, s, ev) : record_unqueued(&c, s, ev);
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

/* ---- wait --------------------------------------------------------------------------------- */

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
    struct call c = {.now = wait_run,
                     .run = wait_run,
                     .args = &a,
                     .req = {.bytes = sizeof(a), .flags = VHQ_UNCOUNTED | VHQ_MAY_PAD}};
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
