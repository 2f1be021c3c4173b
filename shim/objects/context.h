/*
 * context.h - a CUDA context as the shim sees it: its vHQs, its streams, its error.
 *
 * Made at the first stream-ordered call in the context, in the thread that makes it. Structs are
 * type-stable (pool.h), so a stale pointer never leads out of valid memory; `generation` tells two
 * contexts with one handle apart.
 */
#ifndef CUTIN_SHIM_OBJECTS_CONTEXT_H
#define CUTIN_SHIM_OBJECTS_CONTEXT_H

#include "shim/objects/capture.h"
#include "shim/objects/object.h"

/* The current context of the calling thread, made known if it is new; NULL when there is none or it
 * cannot be scheduled (no memory: said once). */
struct shim_context *context_current(void);
/* The same, without making it known. */
struct shim_context *context_known(void);
/* As context_current, by what the thread was told before: no call of the driver, and no lock. For
 * processes without queues, where a wrong answer could do nothing but count activity elsewhere. */
struct shim_context *context_mine(void);
/* The calling thread is about to change its current context. */
void context_switched(void);
/* It has done so, and is in `handle`. The scheduler learns who uses the device long before the
 * first kernel: those below close off what they have in flight meanwhile. Driver calls, and a lock,
 * the first time. */
void context_entered(CUcontext handle);
struct shim_context *context_find(CUcontext handle);
/* That of a stream, made known if it is new; `owner`: what cuStreamGetCtx said. */
struct shim_context *context_of_stream(CUstream stream, CUcontext owner);
/* That of a handle, made known if it is new. */
struct shim_context *context_named(CUcontext handle);
/* One that is known of this device; NULL: none. */
struct shim_context *context_of_device(CUdevice device);
/* Is it `ctx`, or of the same primary context? */
bool context_same_base(CUcontext handle, const struct shim_context *ctx);
/* The driver's current context, NULL if none. */
CUcontext context_handle(void);
/* Number of contexts known: zero means that nothing can be buffered; and of those that have queues,
 * which a real-time process has none of. */
extern _Atomic uint32_t context_count, context_queued;
/* Calls `visit` for each context known, each kept alive meanwhile. */
void context_each(void (*visit)(struct shim_context *ctx, void *user), void *user);
/* The same for `ctx` and, where it is a primary one, its green contexts: what calls for it mean. */
void context_each_kin(struct shim_context *ctx, void (*visit)(struct shim_context *ctx, void *user),
                      void *user);

/* A thread that waits in ctx->set keeps it from being freed. */
void context_enter(struct shim_context *ctx);
/* The same of one that another thread may close just now; NULL: it has. */
struct shim_context *context_find_enter(CUcontext handle);
void context_leave(struct shim_context *ctx);

/* context_error.c: a deferred command failed. True: the context is of no use any more. */
bool context_fail(struct shim_context *ctx, int err);
/* Every later call in it fails, by what the shim knows. */
bool context_spoilt(const struct shim_context *ctx);
/* What a call in `ctx` answers instead of being made. An error that does not last is forgotten by
 * that. */
CUresult context_error_take(struct shim_context *ctx);
static inline CUresult context_error(struct shim_context *ctx)
{
    bool none = atomic_load_explicit(&ctx->error, memory_order_relaxed) == 0;
    return likely(none) ? CUDA_SUCCESS : context_error_take(ctx);
}
/* What a call in `ctx` answers when the driver answered `r`: the error of the context if there is
 * one. An `r` that spoils the context becomes its error, so that no later call is deferred. */
CUresult context_answer(struct shim_context *ctx, CUresult r);

/*
 * What a module does when a context begins: before there is one (WANTED: `ctx` is NULL, and it may
 * be asked again and again), with nothing in it yet (EMPTY), and when it has its vHQs (QUEUED).
 * CONTEXT_BEGIN at the module's file makes it known. Returns 0 or -errno: then there is none.
 */
struct context_begin {
    enum context_stage { CONTEXT_WANTED, CONTEXT_EMPTY, CONTEXT_QUEUED } stage;
    int (*begin)(struct shim_context *ctx);
};
#define CONTEXT_BEGIN(stage, function)                                                             \
    static const struct context_begin function##_begin = {stage, function};                        \
    static const struct context_begin *const function##_begin_entry                                \
        __attribute__((section("context_begin"), used)) = &function##_begin;

/*
 * What a module does when a context ends, before (ENDING) or after (ENDED) its vHQs have gone.
 * CONTEXT_END at the module's file makes it known; context_close calls each once, in no order among
 * those of one moment. `alive`: the driver still has the context.
 */
struct context_end {
    enum context_moment { CONTEXT_ENDING, CONTEXT_ENDED } moment;
    void (*end)(struct shim_context *ctx, bool alive);
};
#define CONTEXT_END(moment, function)                                                              \
    static const struct context_end function##_end = {moment, function};                           \
    static const struct context_end *const function##_entry                                        \
        __attribute__((section("context_end"), used)) = &function##_end;

/* A call may end the context, and only the driver knows: until it has answered, the thread that
 * ticks asks nothing about it, and nobody looks at its completion words. Waits for that thread to
 * leave it. After context_finish. */
void context_park(struct shim_context *ctx);
void context_unpark(struct shim_context *ctx);
/* By the thread that ticks. False: parked. */
bool context_look_begin(struct shim_context *ctx);
void context_look_end(struct shim_context *ctx);

/* A context is about to go: submit what is buffered, and wait until it is complete. For
 * context_each as well. */
void context_finish(struct shim_context *ctx, void *unused);
/* Forget a context that was finished: its dispatcher, streams, words. `alive`: the driver still has
 * it. */
void context_close(struct shim_context *ctx, bool alive);

/* Make `ctx` current for some driver calls of the shim's own, whatever the thread captures. */
struct context_scope {
    bool pushed;
    struct capture_scope capture;
};
struct context_scope context_push(const struct shim_context *ctx);
/* The same unless it is current. */
struct context_scope context_push_other(const struct shim_context *ctx);
void context_pop(struct context_scope scope);

#endif
