/*
 * call.h - one stream-ordered driver call on its way. It takes the first of three that it may:
 *   bypass  the driver as it is: the stream is not known (NULL), or it captures;
 *   inline  the calling thread calls the driver, in the stream's turn;
 *   queue   a copy waits in the stream's vHQ.
 *
 * call_on goes down all of it: call_go asks for captures; without a queue every call is inline, by
 * call_unqueued; with one vhq_begin says which, and VHQ_MUST_INLINE what no copy can be kept of.
 * Calls of which nothing has to be written down are inline sooner, by call_direct and
 * call_plain_begin, whose rules are narrower than vhq_begin's.
 */
#ifndef CUTIN_SHIM_PATH_CALL_H
#define CUTIN_SHIM_PATH_CALL_H

#include "shim/objects/capture.h"
#include "shim/lookup/shim.h"
#include "shim/objects/stream.h"
#include "shim/objects/thread.h"
#include "common/trace.h"
#include "vhq/vhq.h"

/* In a request's flags, beside vhq's. WAITS: the driver returns when the work is complete. */
#define CALL_WAITS  (1u << 16)
#define CALL_KERNEL (1u << 17) /* a kernel, or a graph of them: counted */

struct call {
    int (*now)(void *args);    /* the driver call, with the application's own arguments */
    int (*run)(void *payload); /* the same, from the copy; NULL: cannot be copied */
    void (*drop)(void *payload);
    void (*pack)(void *payload, const void *args); /* NULL: the copy is req.bytes of args */
    void *args;         /* its first member is the CUstream of the call */
    struct vhq_req req; /* bytes, flags, estimate, fences */
    uint64_t epoch;     /* out: what schedule_end said */
    bool came_first;    /* a capture that begins while it waits forbids it nothing */
    /* For traces: a record to be completed, or a name and the bytes that are copied. */
    struct trace_record *record;
    const char *name;
    uint64_t bytes;
};

/* Most calls of real-time work need no struct call: the stream has no queue, nothing of the process
 * is buffered, and nobody asks for a record of the call. Such a call goes to the driver at once,
 * between begin and end. `epoch` is what begin said, and then what schedule_end said, 0 after an
 * error. */
static inline bool call_direct(const struct shim_stream *s)
{
    return s && !s->q && s->tracked && !trace_on() && !capture_any() &&
           (!s->ctx->set || vhq_set_idle(s->ctx->set));
}
uint64_t call_direct_begin(struct shim_stream *s);
CUresult call_direct_end(struct shim_stream *s, uint64_t *epoch, uint32_t flags, CUresult r);

/* As above for a stream with a queue and a command without fences: true, and call_plain_end is due
 * after the driver call. `flags`: CALL_KERNEL, and VHQ_UNCOUNTED; without that a command goes so
 * while its process is alone. */
bool call_plain_begin(struct shim_stream *s, uint32_t flags, uint64_t *epoch);
CUresult call_plain_end(struct shim_stream *s, uint32_t flags, uint64_t est_ns, uint64_t *epoch,
                        CUresult r);

/* Make the call on its stream; `s` may be NULL (pass-through). */
CUresult call_on(struct call *c, struct shim_stream *s);

/* The stream of a call, normalised in place; NULL: pass-through. */
struct shim_stream *call_stream(CUstream *stream, bool ptds);
/* A synchronous copy or memset on a default stream: in its turn, by the calling thread. `waits`:
 * the driver returns when the work is complete. */
CUresult call_sync(struct call *c, struct shim_stream *s, uint64_t est_ns, bool waits);

/* A stream is about to wait for what may come later, from the program or from another one: the word
 * is not 0 from then on (vhq_config.stands). */
extern _Atomic uint32_t call_stands;
void call_note_stands(void);
static inline bool call_stands_any(void)
{
    return atomic_load_explicit(&call_stands, memory_order_relaxed) != 0;
}

#endif
