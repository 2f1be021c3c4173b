/* call.c - see call.h. */
#include "shim/path/call.h"

#include <string.h>

#include "shim/path/drain.h"
#include "shim/path/traced.h"

/* A named call in a stream without a queue may get timing events; launches have no name here. */
static __attribute__((noinline)) int call_timed(struct call *c, struct shim_stream *s)
{
    struct traced_label who = {.stream = s->id, .op = trace_op, .level = (uint16_t)s->level};
    struct timing *t;
    CUresult r;

    if (s->q || !c->name)
        return c->now(c->args);
    who.name = trace_name(c->name);
    t = traced_begin(s->ctx, s->handle, &who);
    r = (CUresult)c->now(c->args);
    traced_end(t, s->handle, r);
    return (int)r;
}

static int call_now(struct call *c, struct shim_stream *s)
{
    int r;
    CAPTURE_LATER(!c->came_first, r, trace_on() ? call_timed(c, s) : c->now(c->args));
    return r;
}

_Atomic uint32_t external_wait_seen;

void external_wait_note(void)
{
    if (!external_wait_ever())
        atomic_store_explicit(&external_wait_seen, 1, memory_order_relaxed);
}

/* This stream is never held, but other streams of the process are. What CUDA orders before its
 * calls may still be buffered: it is drained, and holds keep it back no longer. */
static void call_drain(const struct call *c, struct shim_stream *s)
{
    struct vhq_set *set = s->ctx->set;
    bool all = c->req.flags & VHQ_AFTER_ALL;
    if (c->req.after)
        vhq_fence_drain(c->req.after, true);
    if (c->req.displaces)
        drain_displaced(c->req.displaces);
    if (all)
        drain_siblings(s->ctx);
    if (!set || vhq_set_empty(set))
        return;
    if (all)
        drain_context(s->ctx, true);
    else
        drain_legacy_order(s);
}

/* Buffers the call in the stream's queue, or makes it in its turn. */
static int call_queue(struct call *c, struct shim_stream *s, uint64_t before)
{
    CUresult error = context_error(s->ctx);
    if (unlikely(error)) {
        if (c->req.signals) /* no thread may wait for a record that is never made */
            vhq_fence_cancel(c->req.signals);
        return (int)error;
    }
    if (!c->run || c->req.bytes > VHQ_MAX_PAYLOAD || s->undeferred || calls_are_inline())
        c->req.flags |= VHQ_MUST_INLINE;
    c->req.boost = c->req.boost || thread_boosts(s);
    c->req.frame = __builtin_frame_address(0);
    if (unlikely(c->req.flags & VHQ_AFTER_ALL) && !MUTANT(green_wait_overtakes))
        drain_siblings(s->ctx);
    struct vhq_cmd *cmd;
    struct vhq *q = s->q; /* the stream may be destroyed while its call is in the driver */
    int result = 0;
    if (vhq_begin(q, &c->req, &cmd) == VHQ_BUFFER) {
        cmd->run = c->run;
        cmd->drop = c->drop;
        if (c->pack)
            c->pack(cmd->payload, c->args);
        else
            memcpy(cmd->payload, c->args, c->req.bytes);
    } else {
        result = call_now(c, s);
    }
    /* Count the call before another one may begin: a query looks at the epoch and the queue. */
    if (likely(result == CUDA_SUCCESS))
        c->epoch = schedule_end(s, before, c->kernel);
    vhq_end(q, c->req.frame, result);
    return result;
}

/* The driver does not wait if there is nothing to copy. */
static bool call_waits(const struct call *c)
{
    return c->waits && (c->bytes || MUTANT(nothing_completes));
}

static CUresult call_go(struct call *c, struct shim_stream *s)
{
    if (capture_active(s))
        return (CUresult)c->now(c->args);
    thread_level = s->level;
    uint64_t before = atomic_load_explicit(&s->epoch, memory_order_relaxed);
    if (s->tracked)
        schedule_begin(s);
    if (unlikely(c->req.flags & VHQ_AFTER_ALL))
        external_wait_note();
    int r;
    if (s->q) {
        r = call_queue(c, s, before);
    } else {
        call_drain(c, s);
        r = call_now(c, s);
        if (!s->tracked)
            return (CUresult)r;
        if (likely(r == CUDA_SUCCESS))
            c->epoch = schedule_end(s, before, c->kernel);
    }
    if (unlikely(r != CUDA_SUCCESS))
        return context_answer(s->ctx, (CUresult)r);
    if (call_waits(c))
        schedule_complete(s, c->epoch);
    return CUDA_SUCCESS;
}

/* The record is written when the call has returned. */
static __attribute__((noinline)) CUresult call_traced(struct call *c, struct shim_stream *s)
{
    struct trace_record local = {.kind = TRACE_COPY}, *r = c->record ? c->record : &local;
    CUresult result;

    if (!c->record && !c->name)
        return call_go(c, s);
    if (!c->record) {
        r->name = trace_name(c->name);
        r->copy.bytes = c->bytes;
    }
    r->ns = trace_clock();
    r->level = (uint16_t)s->level;
    r->stream = s->id;
    if (!r->copy.op) /* at the same offset in both kinds of record */
        r->copy.op = trace_op_next();
    trace_op = r->copy.op;
    result = call_go(c, s);
    trace_op = 0;
    if (result != CUDA_SUCCESS)
        return result;
    r->copy.took_ns = trace_elapsed_ns(r->ns);
    trace_put(r);
    if (call_waits(c))
        traced_wait(c->name, trace_clock());
    return result;
}
static_assert(offsetof(struct trace_record, copy.op) == offsetof(struct trace_record, kernel.op) &&
                  offsetof(struct trace_record, copy.took_ns) ==
                      offsetof(struct trace_record, kernel.took_ns),
              "both kinds begin alike");

CUresult call_on(struct call *c, struct shim_stream *s)
{
    STOP(call_on);
    if (!s)
        return (CUresult)c->now(c->args);
    return trace_on() ? call_traced(c, s) : call_go(c, s);
}

CUresult call_sync(struct call *c, struct shim_stream *s)
{
    if (MUTANT(sync_copy_undrained))
        return (CUresult)c->now(c->args);
    c->run = NULL;
    c->came_first = !capture_any();
    return call_on(c, s);
}
