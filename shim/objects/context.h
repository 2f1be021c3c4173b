/*
 * context.h - a CUDA context as the shim sees it: its vHQs, its streams, its error.
 *
 * The struct is made at the first stream-ordered call in the context, by the thread that makes the
 * call. Structs are type-stable (table.h), so a stale pointer never leads out of valid memory.
 * `generation` tells two contexts apart that had the same handle.
 */
#ifndef CUTIN_SHIM_OBJECTS_CONTEXT_H
#define CUTIN_SHIM_OBJECTS_CONTEXT_H

#include "shim/objects/capture.h"
#include "shim/objects/object.h"

/* The current context of the calling thread, made known if it is new. NULL when there is none, or
 * when it cannot be scheduled for lack of memory or a thread (a message says so). */
struct shim_context *context_current(void);
/* The same, but a new context is not made known: NULL. */
struct shim_context *context_current_known(void);
/* Like context_current, but remembers the last answer: no driver call and no lock. For processes
 * without queues, where a wrong answer could only count activity in another context. */
struct shim_context *context_cached(void);
/* The calling thread is about to change its current context. */
void context_cache_clear(void);
/* The thread has changed it to `handle`. So the scheduler learns that the process uses the device
 * long before the first kernel, and processes below put markers behind their loose commands
 * meanwhile. Makes driver calls and takes a lock the first time. */
void context_device_tell(CUcontext handle);
struct shim_context *context_find(CUcontext handle);
/* The context of a stream or handle, made known if it is new. */
struct shim_context *context_of_stream(CUstream stream);
struct shim_context *context_adopt(CUcontext handle);
/* Does the context live to which this struct belonged in that generation? */
static inline bool context_lives(const struct shim_context *ctx, uint64_t generation)
{
    return context_find(ctx->handle) == ctx && ctx->generation == generation;
}
/* A known primary context of this device; NULL: none. */
struct shim_context *context_of_device(CUdevice device);
/* Does the handle name `ctx`, or a context with the same primary context? */
bool context_same_base(CUcontext handle, const struct shim_context *ctx);
/* The driver's current context, NULL if none. */
CUcontext context_current_handle(void);
/* Number of known contexts (0: nothing can be buffered); of those with queues (real time: 0). */
extern _Atomic uint32_t context_count, context_queued;
/* Calls `visit` for each known context, and keeps that context alive meanwhile. */
void context_each(void (*visit)(struct shim_context *ctx, void *user), void *user);
/* The same for `ctx` and, if it is primary, its green contexts: calls for it mean these, too. */
void context_each_kin(struct shim_context *ctx, void (*visit)(struct shim_context *ctx, void *user),
                      void *user);

/* Keeps the context from being freed while the calling thread waits in ctx->set. */
void context_get(struct shim_context *ctx);
/* The same for a context that another thread may be closing; NULL: it is closed. */
struct shim_context *context_find_get(CUcontext handle);
void context_put(struct shim_context *ctx);

/* context_error.c. vhq_ops.failed; `user`: the context. True: it is of no use any more. */
bool context_error_note(void *user, struct vhq *q, int err);
/* By what the shim knows, every later call in the context fails. */
bool context_unusable(const struct shim_context *ctx);
/* The error that a call in `ctx` returns instead of being made. Forgets one that does not last. */
CUresult context_error_take(struct shim_context *ctx);
static inline CUresult context_error(struct shim_context *ctx)
{
    bool none = atomic_load_explicit(&ctx->error, memory_order_relaxed) == 0;
    return likely(none) ? CUDA_SUCCESS : context_error_take(ctx);
}
/* What a call in `ctx` returns when the driver answered `r`: the context's error if there is one.
 * An `r` that makes the context unusable becomes its error: then no later call is deferred. */
CUresult context_answer(struct shim_context *ctx, CUresult r);

/*
 * What a module does at a moment in the life of a context or a stream. CONTEXT_BEGIN, CONTEXT_END
 * and STREAM_NOTE in the module's file register it. What belongs to one moment is called in no
 * particular order. `begin` returns 0 or -errno: then no context is made. `alive`: the driver still
 * has the context.
 */
enum moment {
    CONTEXT_WANTED, /* there is none yet (`ctx` is NULL); may come again and again */
    CONTEXT_EMPTY,
    CONTEXT_QUEUED, /* it has its vHQs */
    CONTEXT_ENDING, /* its vHQs are about to go */
    CONTEXT_ENDED,  /* they are gone */
    STREAM_BEGINS,  /* it has its queue, and no other thread knows it yet */
    STREAM_LEAVES,  /* stream_leave */
    STREAM_UNLINKED,
    STREAM_ENDS, /* it has nothing in flight any more; the context's lock is held */
};
struct moment_note {
    enum moment moment;
    int (*begin)(struct shim_context *ctx);
    void (*end)(struct shim_context *ctx, bool alive);
    void (*stream)(struct shim_stream *s);
};
#define MOMENT_NOTE(of, moment, member, function)                                                  \
    static const struct moment_note function##_note = {moment, .member = function};                \
    static const struct moment_note *const function##_entry                                        \
        __attribute__((section(#of "_note"), used)) = &function##_note;
#define CONTEXT_BEGIN(moment, function) MOMENT_NOTE(context, moment, begin, function)
#define CONTEXT_END(moment, function)   MOMENT_NOTE(context, moment, end, function)
#define STREAM_NOTE(moment, function)   MOMENT_NOTE(stream, moment, stream, function)
/* Calls what is registered. Returns 0, or the first error of a `begin`. */
int moment_tell(enum moment moment, struct shim_context *ctx, bool alive, struct shim_stream *s);

/* Around a driver call that may end the context. Until the driver has answered, the thread that
 * ticks does not ask about the context, and no thread looks at its completion words. context_park
 * waits until the ticking thread has left it. Call it after context_finish. */
void context_park(struct shim_context *ctx);
void context_unpark(struct shim_context *ctx);
/* For the thread that ticks. False: parked. */
bool context_poll_begin(struct shim_context *ctx);
void context_poll_end(struct shim_context *ctx);

/* Submits what a context that is about to end has buffered, and waits until it is complete. */
void context_finish(struct shim_context *ctx, void *unused);
/* Forgets a context that was finished. `alive`: the driver still has it. */
void context_close(struct shim_context *ctx, bool alive);

/* Makes `ctx` current for driver calls of the shim's own, even if the thread captures. */
struct context_scope {
    bool pushed;
    struct capture_scope capture;
};
struct context_scope context_push(const struct shim_context *ctx);
/* The same, unless it is current already. */
struct context_scope context_push_other(const struct shim_context *ctx);
void context_pop(struct context_scope scope);

#endif
