/*
 * stream.h - a CUDA stream as the shim sees it: its level, its vHQ, whether it is busy.
 */
#ifndef CUTIN_SHIM_OBJECTS_STREAM_H
#define CUTIN_SHIM_OBJECTS_STREAM_H

#include "shim/objects/context.h"
#include "shim/lookup/shim.h"
#include "shim/objects/table.h"
#include "vhq/vhq.h"

struct block;
struct mark_ring;
struct pad;

/* What counters.c has counted so far. */
/* An epoch counts calls in its low half, and the kernels and graphs among them in the high one. */
#define EPOCH_CALL       1ull
#define EPOCH_KERNEL     (1ull << 32)
#define EPOCH_CALLS(e)   ((uint32_t)(e))
#define EPOCH_KERNELS(e) ((uint32_t)((e) >> 32))

struct stream_counters {
    uint32_t kernels, calls; /* these wrap */
    uint64_t pending;
};

/* A stream waits for a record in another one: see join.h. */
struct join {
    _Atomic uint64_t at;
    _Atomic(struct shim_stream *) source;
    _Atomic uint64_t epoch, seal;
};
enum { JOINS = 8 };

enum stream_state {
    STREAM_LIVE,
    STREAM_GONE,      /* destroyed by the application; its buffered work is still to be submitted */
    STREAM_DESTROYED, /* that was submitted: the next stream_reap destroys it in the driver */
    STREAM_LEFT,      /* the driver has no such stream any more, and runs what it was given */
    STREAM_FREE,
};

struct shim_stream {
    struct table_node node; /* by CUstream; special handles are found through their context */
    CUstream handle;
    struct shim_context *ctx;
    struct vhq *q;   /* NULL: goes straight to the driver */
    bool direct;     /* it never had one */
    bool unseen;     /* pad.c counts it */
    struct pad *pad; /* NULL: nobody asks what it leaves of the device */
    uint32_t level;
    enum vhq_kind kind;
    bool per_thread; /* CU_STREAM_PER_THREAD of one thread: only that thread may submit */
    /* A default stream that only a thread of the application can name: that one, and a green
     * context's, which has to be current for it. */
    bool undeferred;
    struct block *freed;   /* frees that are buffered here; newest first (block.c) */
    _Atomic bool captures; /* a capture began in it and has not ended (capture.c) */
    _Atomic bool tracked;  /* its activity counts (above best effort, on a scheduled device) */
    _Atomic int state;     /* enum stream_state */
    /* For so many launches more one that overlaps with its predecessor is expected, and nothing of
     * ours must come between the two. */
    _Atomic uint32_t overlaps;
    _Atomic bool cig; /* records for a graphics API, of which cuStreamIsCapturing may not tell */

    _Alignas(64) _Atomic uint64_t epoch, complete; /* stream-ordered calls (schedule.h) */
    _Atomic uint64_t busy;  /* odd: it is; each change adds one (schedule.c) */
    _Atomic bool joined;    /* some of `join` is to be carried */
    bool asked;             /* the driver is being asked for it: under the lock of the context */
    _Atomic uint64_t found; /* epoch that a look found complete, of which nobody else has told */
    /* The client's thread's: calls made and known complete at the last look, for how many looks it
     * was so, and whether that was too many to hold others any longer. */
    uint64_t looked;
    uint32_t quiet;
    bool stuck;
    uint64_t fed;      /* epoch at the last look of any kind; the client's thread's */
    uint64_t settling; /* vhq_sent at the last tick, while it is loose; the client's thread's */
    struct stream_counters published; /* under the lock of the context */

    struct join join[JOINS]; /* by the source's id */

    /* Completion: a word that the GPU writes, or pooled events where memops are missing. */
    _Atomic uint32_t *word;
    CUdeviceptr word_device;
    _Atomic uint32_t marked; /* newest value that the GPU was asked to write */
    struct mark_ring *ring;

    uint32_t id;                     /* in traces; counts the streams of the process from 1 */
    uint64_t serial;                 /* per-thread streams: tells two users of one struct apart */
    struct shim_stream *prev, *next; /* list of the context */
    void *free_next;
};

/* NULL names the legacy or the per-thread stream, by the variant of the call. */
static inline CUstream stream_normal(CUstream handle, bool ptds)
{
    return handle ? handle : ptds ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}
static inline bool stream_special(CUstream handle)
{
    return handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

/* The stream of a normalised handle; NULL when the driver does not know it either, or nothing is
 * scheduled. A handle of unknown origin is adopted. */
struct shim_stream *stream_of(CUstream handle);
/* As above, and never adopts: NULL when unknown. */
struct shim_stream *stream_known(CUstream handle);

/* A stream was created (in the current context, or by a green context). */
void stream_created(CUstream handle);
/* Makes the stream of one handle known. */
struct shim_stream *stream_add(struct shim_context *ctx, CUstream handle, unsigned flags,
                               int priority);
/* The same, of a level that was chosen. */
struct shim_stream *stream_add_at(struct shim_context *ctx, CUstream handle, unsigned flags,
                                  int priority, uint32_t level);
/* Remove it from the table: its handle may be reused from now on. */
void stream_unlink(struct shim_stream *s);
/* Nothing more is submitted to a stream that was unlinked; its vHQ is drained. It is freed, or
 * stays until what it has in flight has run. Waits while the driver is asked for it. `marks`: the
 * calling thread may put a marker into it. */
void stream_end(struct shim_stream *s, bool marks);
/* The vHQs of a context's streams are about to go with their set. */
void stream_part(struct shim_context *ctx);
/* Destroy streams whose deferred destroy is due, and free those that have nothing in flight any
 * more. */
void stream_reap(struct shim_context *ctx);

#endif
