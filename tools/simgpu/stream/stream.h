/*
 * stream.h - a stream: the process's side of one queue of the shared device. The device knows the
 * kinds, costs and dependencies of what is queued. The stream keeps the works themselves, at the
 * same places of a ring, until the engine has run their effects.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_STREAM_H
#define CUTIN_TOOLS_SIMGPU_STREAM_STREAM_H

#include "tools/simgpu/device/context.h"
#include "tools/simgpu/device/device.h"
#include "tools/simgpu/face/handle.h"
#include "tools/simgpu/face/sim.h"
#include "tools/simgpu/face/simconfig.h"

#include <pthread.h>
#include <stdatomic.h>

enum stream_role {
    STREAM_CREATED,
    STREAM_LEGACY,     /* the context's default stream */
    STREAM_PER_THREAD, /* a thread's default stream in the context */
    STREAM_BRANCH,     /* internal: a branch of a graph launch */
};

/* A queued work, in one allocation with its blob. */
struct item {
    struct work work;
    struct sim_stream *stream;
    uint64_t seq;
    struct item *next; /* the next in the callback thread's queue */
    _Alignas(16) unsigned char blob[];
};

struct sim_stream {
    struct handle handle; /* live: the application may use it */
    struct sim_context *context;
    enum stream_role role;
    unsigned int flags; /* CU_STREAM_* */
    int priority;
    uint32_t queue;                 /* hardware queue of the context, from 1; 0: its own */
    unsigned long long id;          /* cuStreamGetId */
    struct capture *capture;        /* of capture.c; NULL: not capturing */
    _Atomic uint32_t device_stream; /* the device model's id, which points of this stream name */

    /* Sequence numbers. Up to `completed` the effects have run. `wanted` is the least that a thread
     * waits for; the threads sleep on `tick`. */
    _Atomic uint64_t submitted, completed, wanted;
    _Atomic uint32_t tick;
    _Atomic bool closing; /* destroyed; is released when completed == submitted */

    struct sim_stream *prev, *next; /* the context's streams, under its list lock */
    CUstreamAttrValue attributes[16];
    struct item *items[DEVICE_RING]; /* by seq, while queued; under the device lock */
};

/* The streams of a context; sim_context.queues. */
struct context_queues {
    pthread_mutex_t lock; /* of the list */
    struct sim_stream *streams;
    struct sim_stream *legacy;
    uint32_t sharing[SIM_CONNECTIONS]; /* streams per hardware queue */
};

static inline struct context_queues *queues_of(struct sim_context *ctx)
{
    return ctx->queues;
}

/* stream.c */
CUresult stream_create(struct sim_context *ctx, enum stream_role role, unsigned int flags,
                       int priority, struct sim_stream **out);
/* Destroys it. It is released once its work is done. */
void stream_destroy(struct sim_stream *s);
/* Releases a closed stream's slots if all its work is done. Call it after either becomes true. */
void stream_retire_if_done(struct sim_stream *s);
/* points.c: the work at `seq` is over, effect included. Wakes the threads that wait for it. */
void stream_complete(struct sim_stream *s, uint64_t seq);
/* Finds a live stream that the application created, in any context. */
bool stream_of_any_context(CUstream handle, struct sim_stream **out);
/* points.c: waits until all that was submitted to the stream so far is done. For the legacy stream:
 * all that was submitted to the streams that synchronise with it. */
CUresult stream_wait(struct sim_stream *s);
bool stream_idle(struct sim_stream *s);

/* The stream of ctx that a CUstream means: NULL and CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, or a
 * live handle. CUDA_ERROR_INVALID_HANDLE for any other, CUDA_ERROR_INVALID_CONTEXT for another
 * context's. Stream memory is never unmapped, so a stream destroyed meanwhile does no harm. */
CUresult stream_resolve(struct sim_context *ctx, CUstream handle, bool ptds,
                        struct sim_stream **out);
/* The stream that a call names, and the context in which it works. A created stream's context need
 * not be the current one. `ctx` may be NULL. Returns the errors of both. */
CUresult stream_arg(CUstream handle, bool ptds, struct sim_context **ctx, struct sim_stream **out);
CUstream stream_handle(const struct sim_stream *s);
bool stream_is_legacy(const struct sim_stream *s);
/* Whether it takes part in legacy order. The legacy stream does, too. */
bool stream_is_blocking(const struct sim_stream *s);
/* The point of the last work that was submitted so far. */
struct point stream_tail(const struct sim_stream *s);
/* Makes an internal non-blocking stream of ctx for a branch of a graph launch. The application does
 * not see it. context_wait_idle waits for it as well. */
CUresult stream_branch_create(struct sim_context *ctx, int priority, struct sim_stream **out);
/* Calls `fn` for each stream of the context that the application can name: legacy, per-thread and
 * created ones. It holds the lock of the context's stream list, so fn must not submit. */
void stream_each(struct sim_context *ctx, void (*fn)(struct sim_stream *s, void *arg), void *arg);
/* per_thread.c: the calling thread's stream in the context; makes it if there is none yet. The
 * errors of stream_create. */
CUresult stream_per_thread(struct sim_context *ctx, struct sim_stream **out);
/* Decides whether a thread that ends or a context that is destroyed retires the thread's stream. */
extern pthread_mutex_t own_streams_lock;
/* queues.c: cuCtxSynchronize without the check for captures. */
CUresult context_wait_idle(struct sim_context *ctx);

/* memory/block.c: to be called when the host has seen the end of a stream, event or context. Pools
 * give back what they keep beyond their thresholds. Returns `rc`, the result of that call. */
CUresult pools_trim(CUresult rc);

#endif
