/*
 * object.h - the structs of a context and a stream. Their functions are in context.h and stream.h.
 */
#ifndef CUTIN_SHIM_OBJECTS_OBJECT_H
#define CUTIN_SHIM_OBJECTS_OBJECT_H

#include <pthread.h>

#include "shim/lookup/shim.h"
#include "shim/objects/gpu_device.h"
#include "shim/handles/table.h"
#include "vhq/vhq.h"

struct shim_stream;

/* A spinlock, held for a few instructions. */
static inline void spin_lock(_Atomic uint32_t *locked)
{
    while (atomic_exchange_explicit(locked, 1, memory_order_acquire))
        ;
}
static inline void spin_unlock(_Atomic uint32_t *locked)
{
    atomic_store_explicit(locked, 0, memory_order_release);
}

struct shim_context {
    struct table_node node; /* by CUcontext */
    CUcontext handle;
    /* The primary context of a green one, else `handle`. Threads of the shim make this one current,
     * because a green context may be current in one thread at a time. */
    CUcontext base;
    uint64_t generation;
    const struct gpu_device *gpu;
    uint32_t processors; /* multiprocessors that it may use; 0: not known */
    int priority_least, priority_greatest;
    struct vhq_set *set; /* NULL: the process has no queues, so none of its streams is ever held */
    struct shim_stream *legacy;
    struct shim_stream *shadow[CUTIN_LEVELS]; /* other_devices.h; NULL until needed */
    _Atomic int error; /* what every later call returns; negative: only the next one does */
    _Atomic bool reap; /* some stream waits for stream_reap */
    /* Calls through thunks, which may have put work into any stream; blocking streams that ended
     * with work, which the legacy stream follows; how many of either are known complete. */
    _Atomic uint32_t foreign, foreign_complete, gone, gone_complete;
    _Atomic uint32_t attached; /* times that cuCtxAttach has attached it */
    _Atomic uint32_t users;    /* threads that wait in `set` */
    _Atomic uint32_t parked;   /* calls under way that may end the context */
    _Atomic uint32_t looking;  /* 1 while the thread that ticks asks the driver about it */
    pthread_mutex_t lock;      /* for the lists and the words */
    struct shim_stream *streams;
    bool waits; /* the context was given a wait for an event, which is for new streams, too */
    struct departed *departed;
    struct late *late; /* what is destroyed later (late.c) */
    struct word_page *words;
    struct gates *_Atomic gates;
    _Atomic CUdeviceptr open_word; /* stays 0: gates made before there was a scheduler look at it */
    _Atomic uint32_t gates_usable; /* not 0: gates may be used (vhq_config.gates) */
    _Atomic uint64_t graph_gates;  /* gates in graphs that were launched */
    bool memops;                   /* the driver has accepted a marker here */
    _Atomic uint64_t memops_seen;  /* bits of the memops accepted from the application */
    struct vhq_stats published;    /* what counters.c has counted so far */
    bool gated;                    /* counters.c: at its last look all in flight stood at gates */
    bool share_open;               /* tick.c: its vHQs have been opened */
    struct vhq_times times;        /* histograms in the page */
    void *free_next;
};

/* An epoch counts calls in its low half, and in its high half the kernels and graphs among them. */
#define EPOCH_CALL       1ull
#define EPOCH_KERNEL     (1ull << 32)
#define EPOCH_CALLS(e)   ((uint32_t)(e))
#define EPOCH_KERNELS(e) ((uint32_t)((e) >> 32))

struct stream_counters {
    uint32_t kernels, calls; /* these wrap */
    uint64_t pending;
};

/* One stream has waited for a record in another: see stream.h. */
struct join {
    _Atomic uint64_t at;
    _Atomic(struct shim_stream *) source;
    _Atomic uint64_t epoch, seal;
};
enum { JOINS = 8 };

enum stream_state {
    STREAM_LIVE,
    STREAM_GONE,      /* destroyed by the application; its buffered work is not submitted yet */
    STREAM_DESTROYED, /* all of it is submitted: the next stream_reap destroys it in the driver */
    STREAM_LEFT,      /* destroyed in the driver, which still runs what it was given */
    STREAM_FREE,
};

struct shim_stream {
    struct table_node node; /* by CUstream; default streams are found through their context */
    CUstream handle;
    struct shim_context *ctx;
    struct vhq *q;   /* NULL: calls go straight to the driver */
    bool direct;     /* it never had a vHQ */
    bool ringless;   /* pad.c counts it among the streams without a ring */
    struct pad *pad; /* NULL: what it leaves of the device is not asked for */
    uint32_t level;
    enum vhq_kind kind;
    bool per_thread; /* CU_STREAM_PER_THREAD of one thread: only that thread may submit */
    /* A default stream that only a thread of the application can name: a per-thread one, or that of
     * a green context, which has to be current for it. */
    bool undeferred;
    struct block *freed;       /* frees that are buffered here; newest first (block.c) */
    _Atomic uint32_t captures; /* number of the capture that has not ended in it; 0: none */
    _Atomic bool tracked;      /* its activity counts (above best effort, on a scheduled device) */
    _Atomic int state;         /* enum stream_state */
    /* The next so many launches are expected to overlap with their predecessors, so nothing of the
     * shim's own may come between two of them. */
    _Atomic uint32_t overlaps;
    _Atomic bool cig; /* captures for a graphics API, which cuStreamIsCapturing may not tell */

    _Alignas(64) _Atomic uint64_t epoch, complete; /* stream-ordered calls (stream.h) */
    _Atomic uint64_t busy;  /* odd: it is busy; each change adds one (schedule.c) */
    _Atomic bool joined;    /* some of `join` are not carried out yet */
    uint32_t asked;         /* threads that ask the driver about it; under the context's lock */
    _Atomic uint64_t found; /* epoch that a look found complete, which no call has told of */
    /* For the client's thread: calls made and known complete at the last look, for how many looks
     * that has not changed, and whether this was too long for it to hold others any more. */
    uint64_t looked_calls;
    uint32_t quiet;
    bool stuck;
    uint64_t fed;                     /* epoch at the last look of any kind */
    uint64_t sent_at_tick;            /* vhq_sent at the last tick, if something was in flight */
    uint32_t sent_same_ticks;         /* ticks without a change of that */
    struct stream_counters published; /* by counters.c so far; under the context's lock */

    struct join join[JOINS]; /* by the id of the source */

    /* True: a synchronisation of the context uses the two fields below (query.c). */
    _Atomic bool synced;
    uint64_t synced_epoch;
    struct shim_stream *synced_next;

    /* Completion: a word that the GPU writes, or pooled events where memops are missing. */
    _Atomic uint32_t *word;
    CUdeviceptr word_device;
    _Atomic uint32_t marked; /* newest value that the GPU was told to write */
    struct mark_ring *ring;

    /* Captures that begin now, and threads whose call must come before (capture.h). */
    _Atomic uint32_t shut, inside;

    uint32_t id; /* counts the streams of the process from 1; tells two users of a struct apart */
    struct shim_stream *prev, *next; /* in the context's list */
    void *free_next;
};

#endif
