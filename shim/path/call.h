/*
 * call.h - one stream-ordered driver call on its way. It takes the first of three ways that it may:
 *   bypass  the driver as it is: the stream is not known (NULL), or it captures;
 *   inline  the calling thread calls the driver, in the stream's turn;
 *   queue   a copy waits in the stream's vHQ.
 *
 * Most calls are inline and leave no record: call_inline_begin says whether such a call may go at
 * once. Any other is written into a struct call for call_on. If the stream has no queue, call_on
 * first drains what the call must follow; if it has one, vhq_begin decides between inline and
 * queue.
 *
 * A file that includes this header also gets streams, contexts, captures and the calling thread.
 */
#ifndef CUTIN_SHIM_PATH_CALL_H
#define CUTIN_SHIM_PATH_CALL_H

#include "shim/learn/estimate.h"
#include "shim/objects/stream.h"
#include "common/trace.h"
#include "vhq/vhq.h"

struct call {
    int (*now)(void *args);    /* the driver call, with the application's own arguments */
    int (*run)(void *payload); /* the same, from the copy; NULL: cannot be copied */
    void (*drop)(void *payload);
    void (*pack)(void *payload, const void *args); /* NULL: the copy is req.bytes of args */
    void *args;         /* its first member is the CUstream of the call */
    struct vhq_req req; /* bytes, flags, estimate, fences */
    uint64_t epoch;     /* out: what schedule_end said */
    bool kernel;        /* it is a kernel or a graph, and counts as a kernel */
    bool waits;         /* the driver returns when the work is complete, if there are bytes */
    bool came_first;    /* it began before any capture, so one that begins now forbids nothing */
    uint64_t bytes;     /* to copy; 0: nothing is copied */
    /* For traces: a record to complete, or else the name of the call; NULL: none. */
    struct trace_record *record;
    const char *name;
};

/* Rounds a size up to the alignment of what lies in a copied command. */
static inline uint32_t align16(size_t bytes)
{
    return (uint32_t)((bytes + 15) & ~(size_t)15);
}

/* A call without fences that needs no struct call. */
struct call_inline {
    uint32_t flags; /* as for vhq_begin_fast. VHQ_MUST_INLINE: not into a stream with a queue */
    bool kernel;    /* as of struct call */
    uint64_t est_ns,
        blocks; /* as for vhq_begin_fast, if the stream has a queue and the call counts */
    uint32_t room;
    uint64_t epoch;     /* out: what schedule_end said; 0 after an error */
    struct vhq *locked; /* out: its producer lock is held until call_inline_end; NULL: no lock is */
};
/* May the call go at once? True: the caller makes the driver call now, and then calls
 * call_inline_end. No call may while a trace is written or a stream captures. A stream with a queue
 * takes it if vhq_begin_fast says so; another one, if its activity counts and its context has
 * nothing buffered. */
static inline __attribute__((always_inline)) bool call_inline_begin(struct call_inline *c,
                                                                    struct shim_stream *s)
{
    if (!s || trace_on() || capture_any())
        return false;
    struct vhq *q = s->q; /* the stream may be destroyed while its call is in the driver */
    const struct shim_context *ctx = s->ctx;
    if (!q) {
        if (!s->tracked || (ctx->set && !vhq_set_empty(ctx->set)))
            return false;
        schedule_begin(s);
    } else {
        if ((c->flags & VHQ_MUST_INLINE) ||
            atomic_load_explicit(&ctx->error, memory_order_relaxed) != 0)
            return false;
        if (s->tracked)
            schedule_begin(s);
        if (!vhq_begin_fast(q, c->flags, c->est_ns, c->blocks, c->room))
            return false;
    }
    c->locked = q;
    c->epoch = atomic_load_explicit(&s->epoch, memory_order_relaxed);
    thread_level = s->level;
    return true;
}
/* True if enough launches like this one have been timed: this one may go at once. If it is due to
 * be timed, or may wait in the driver, it may do so only while the process is alone. */
static inline bool call_untimed(struct call_inline *c, const struct shim_stream *s,
                                const struct estimate *e)
{
    uint32_t n = atomic_load_explicit(&e->launches, memory_order_relaxed);
    if ((int32_t)(n - atomic_load_explicit(&e->next, memory_order_relaxed)) >= 0 || s->undeferred ||
        calls_are_inline())
        c->flags |= VHQ_ALONE;
    return n >= ESTIMATE_FIRST;
}
static inline __attribute__((always_inline)) CUresult call_inline_end(struct call_inline *c,
                                                                      struct shim_stream *s,
                                                                      CUresult r)
{
    bool went = likely(r == CUDA_SUCCESS);
    c->epoch = went ? schedule_end(s, c->epoch, c->kernel) : 0;
    if (c->locked)
        vhq_end_fast(c->locked, (int)r);
    return went ? r : context_answer(s->ctx, r);
}

/* Makes the call on its stream; `s` may be NULL (pass-through). */
CUresult call_on(struct call *c, struct shim_stream *s);

/* Finds the stream of a call, and normalises the handle in place. NULL: pass-through. */
static inline struct shim_stream *call_stream(CUstream *stream, bool ptds)
{
    *stream = stream_normal(*stream, ptds);
    struct shim_stream *s = thread_bypasses() ? NULL : stream_of(*stream);
    if (s && s->q) /* a stream without one tells the scheduler when it becomes busy */
        client_note_call();
    return s;
}
/* Makes a synchronous copy or memset on a default stream: in its turn, in the calling thread. */
CUresult call_sync(struct call *c, struct shim_stream *s);

/* Notes that a stream is about to wait for something that comes later, from this program or another
 * one. The word is not 0 from then on (vhq_config.external_waits). */
extern _Atomic uint32_t external_wait_seen;
void external_wait_note(void);
static inline bool external_wait_ever(void)
{
    return atomic_load_explicit(&external_wait_seen, memory_order_relaxed) != 0;
}

/* ---- counters.c: what `cutin list` and `cutin top` show of this process --------------------- */

/* Adds what happened in `ctx` since the last time to the counters of its device. */
void counters_publish(struct shim_context *ctx);
/* How many calls of a stream are not known complete, if no marker counts them; else 0. A stream
 * with a queue that has loose commands counts 1, because their number is not known. */
uint64_t counters_pending(struct shim_stream *s);
/* Counts a graph that is long enough for gates and has none. */
void counters_ungated_graph(const struct shim_context *ctx);
/* Gives vhq_config.times for a context that is being made. NULL: there is no page. */
const struct vhq_times *counters_times(struct shim_context *ctx);

#endif
