/*
 * call.h - one stream-ordered driver call on its way. It takes the first of three that it may:
 *   bypass  the driver as it is: the stream is not known (NULL), or it captures;
 *   inline  the calling thread calls the driver, in the stream's turn;
 *   queue   a copy waits in the stream's vHQ.
 *
 * Most calls are inline, and nothing of them has to be written down: call_begin says whether such a
 * one may go at once. The others are written down in a struct call, and call_on takes them down all
 * of the road: without a queue what they must follow is drained, with one vhq_begin says which.
 *
 * Who includes this has streams, contexts, captures and the calling thread with it.
 */
#ifndef CUTIN_SHIM_PATH_CALL_H
#define CUTIN_SHIM_PATH_CALL_H

#include "shim/learn/estimate.h"
#include "shim/objects/schedule.h"
#include "shim/objects/stream.h"
#include "shim/objects/thread.h"
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
    bool kernel;        /* a kernel, or a graph of them: counted */
    bool waits;         /* the driver returns when the work is complete, if there are bytes */
    bool came_first;    /* a capture that begins while it waits forbids it nothing */
    uint64_t bytes;     /* that are copied */
    /* For traces: a record to be completed, or a name. */
    struct trace_record *record;
    const char *name;
};

/* Of what lies in a copy. */
static inline uint32_t align16(size_t bytes)
{
    return (uint32_t)((bytes + 15) & ~(size_t)15);
}

/* A call without fences of which nothing is written down. */
struct call_inline {
    uint32_t flags;          /* as of vhq_lock. VHQ_MUST_INLINE: not into a stream with a queue */
    bool kernel;             /* as of struct call */
    uint64_t est_ns, blocks; /* of one that counts, in a stream with a queue */
    uint32_t room;
    uint64_t epoch;     /* out: what schedule_end said; 0 after an error */
    struct vhq *locked; /* out: its producer lock is held until call_end; NULL: no lock is */
};
/* May it go at once? True: the caller makes the driver call now, and then call_end. It may: where
 * nobody asks for a record of it and no stream captures; into a stream with a queue, if vhq_lock
 * says so; into another one, if that counts as real time and nothing of the context is buffered. */
static inline __attribute__((always_inline)) bool call_begin(struct call_inline *c,
                                                             struct shim_stream *s)
{
    if (!s || trace_on() || capture_any())
        return false;
    struct vhq *q = s->q; /* the stream may be destroyed while its call is in the driver */
    const struct shim_context *ctx = s->ctx;
    if (!q) {
        if (!s->tracked || (ctx->set && !vhq_set_idle(ctx->set)))
            return false;
        schedule_begin(s);
    } else {
        if ((c->flags & VHQ_MUST_INLINE) ||
            atomic_load_explicit(&ctx->error, memory_order_relaxed) != 0)
            return false;
        if (s->tracked)
            schedule_begin(s);
        if (!vhq_lock(q, c->flags, c->est_ns, c->blocks, c->room))
            return false;
    }
    c->locked = q;
    c->epoch = atomic_load_explicit(&s->epoch, memory_order_relaxed);
    thread_level = s->level;
    return true;
}
/* True: of launches like this one enough have been timed, and it may go at once; if it is to be
 * timed, or may wait in the driver, only while the process is alone. */
static inline bool call_untimed(struct call_inline *c, const struct shim_stream *s,
                                const struct estimate *e)
{
    if (estimate_due(e) || s->undeferred || calls_are_inline())
        c->flags |= VHQ_ALONE;
    return estimate_first_done(e);
}
static inline __attribute__((always_inline)) CUresult call_end(struct call_inline *c,
                                                               struct shim_stream *s, CUresult r)
{
    bool went = likely(r == CUDA_SUCCESS);
    c->epoch = went ? schedule_end(s, c->epoch, c->kernel) : 0;
    if (c->locked)
        vhq_unlock(c->locked, (int)r);
    return went ? r : context_answer(s->ctx, r);
}

/* Make the call on its stream; `s` may be NULL (pass-through). */
CUresult call_on(struct call *c, struct shim_stream *s);

/* The stream of a call, normalised in place; NULL: pass-through. */
static inline struct shim_stream *call_stream(CUstream *stream, bool ptds)
{
    *stream = stream_normal(*stream, ptds);
    struct shim_stream *s = thread_bypasses() ? NULL : stream_of(*stream);
    if (s && s->q) /* of the others the scheduler hears when they begin to be busy */
        client_note_call();
    return s;
}
/* A synchronous copy or memset on a default stream: in its turn, by the calling thread. */
CUresult call_sync(struct call *c, struct shim_stream *s);

/* A stream is about to wait for what may come later, from the program or from another one: the word
 * is not 0 from then on (vhq_config.stands). */
extern _Atomic uint32_t call_stands;
void call_note_stands(void);
static inline bool call_stands_any(void)
{
    return atomic_load_explicit(&call_stands, memory_order_relaxed) != 0;
}

#endif
