/*
 * stream.h - a stream: the process's side of one queue of the shared device. The device knows
 * kinds, costs and dependencies of what is queued; the stream keeps the works themselves, at the
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

/* A queued work: one allocation with its blob. */
struct item {
    struct work work;
    struct sim_stream *stream;
    uint64_t seq;
    struct item *next; /* in the callback thread's queue */
    _Alignas(16) unsigned char blob[];
};

struct sim_stream {
    struct handle handle; /* live: the application may name it */
    struct sim_context *context;
    enum stream_role role;
    unsigned int flags; /* CU_STREAM_* */
    int priority;
    uint32_t queue;                 /* hardware queue of the context, from 1; 0: its own */
    unsigned long long id;          /* cuStreamGetId */
    struct capture *capture;        /* capture.c's; NULL = not capturing */
    _Atomic uint32_t device_stream; /* the device model's id; the points of this stream */

    /* Sequence numbers. completed: its effect has run. wanted: the least that a thread waits for;
     * the threads sleep on `tick`. */
    _Atomic uint64_t submitted, completed, wanted;
    _Atomic uint32_t tick;
    _Atomic bool closing; /* destroyed; goes away when completed == submitted */

    struct sim_stream *prev, *next; /* the context's streams, under its list lock */
    CUstreamAttrValue attributes[16];
    struct item *items[DEVICE_RING]; /* by seq; under the device lock */
};

/* A context's streams; sim_context.queues. */
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
/* It goes away once its work is done. */
void stream_destroy(struct sim_stream *s);
/* Let a closed stream's slots go if all of it is done. Called by whoever makes either true. */
void stream_retire_if_done(struct sim_stream *s);
/* points.c: the work at `seq` is over, effect included: wake whoever waits. */
void stream_complete(struct sim_stream *s, uint64_t seq);
/* A live stream that the application created, whatever its context. */
bool stream_of_any_context(CUstream handle, struct sim_stream **out);
/* points.c: wait until all that was submitted to the stream so far (for the legacy stream: to all
 * streams that synchronise with it) is done. */
CUresult stream_wait(struct sim_stream *s);
bool stream_idle(struct sim_stream *s);

/* CUstream -> stream of ctx: NULL and CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, or a live handle.
 * CUDA_ERROR_INVALID_HANDLE for anything else, CUDA_ERROR_INVALID_CONTEXT for another context's.
 * Stream memory is never unmapped, so a stream destroyed meanwhile is harmless. */
CUresult stream_resolve(struct sim_context *ctx, CUstream handle, bool ptds,
                        struct sim_stream **out);
/* The stream that a call names and the context it works in: a created stream's own, which need not
 * be the current one; ctx may be NULL. The errors of both. */
CUresult stream_enter(CUstream handle, bool ptds, struct sim_context **ctx,
                      struct sim_stream **out);
CUstream stream_handle(const struct sim_stream *s);
bool stream_is_legacy(const struct sim_stream *s);
/* Does it take part in legacy order (the legacy stream itself included)? */
bool stream_is_blocking(const struct sim_stream *s);
/* The last work submitted so far. */
struct point stream_tail(const struct sim_stream *s);
/* Internal non-blocking streams of ctx, invisible to the application: branches of a graph launch.
 * They count for context_wait_idle. */
CUresult stream_branch_create(struct sim_context *ctx, int priority, struct sim_stream **out);
/* Call `fn` for each stream of the context that the application can name (legacy, per-thread and
 * created ones), holding the context's stream list lock: fn must not submit. */
void stream_each(struct sim_context *ctx, void (*fn)(struct sim_stream *s, void *arg), void *arg);
/* per_thread.c: the calling thread's stream in the context, made if need be; stream_create's
 * errors. */
CUresult stream_per_thread(struct sim_context *ctx, struct sim_stream **out);
/* Between a thread that ends and a context that is destroyed: who retires its stream. */
extern pthread_mutex_t own_streams_lock;
/* queues.c: cuCtxSynchronize, without the capture check. */
CUresult context_wait_idle(struct sim_context *ctx);

/* memory/block.c: the host has seen the end of a stream, event or context, with that result, which
 * is returned. Pools give back what they keep beyond their thresholds. */
CUresult pools_settle(CUresult rc);

#endif
