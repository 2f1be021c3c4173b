/*
 * context.h - a CUDA context of the simulated driver: what every call of a thread happens in.
 *
 * A context belongs to one device of this process and is never freed before the process ends:
 * a handle of a destroyed context stays recognisable (CUDA_ERROR_CONTEXT_IS_DESTROYED, or
 * CUDA_ERROR_INVALID_CONTEXT) instead of becoming a wild pointer.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_CONTEXT_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_CONTEXT_H

#include "tools/simgpu/face/sim.h"

#include <pthread.h>
#include <stdatomic.h>

struct sim_stream;

struct sim_context {
    int ordinal;
    bool primary;
    struct sim_context *base;   /* a green context's primary one; NULL: this is none (green.c) */
    unsigned int sms;           /* a green context's */
    _Atomic bool alive;         /* false once destroyed; a primary context lives again on retain */
    _Atomic CUresult error;     /* sticky: the first asynchronous error; CUDA_SUCCESS = none */
    _Atomic unsigned int flags; /* CU_CTX_* */
    unsigned int version;       /* what cuCtxGetApiVersion says */
    unsigned long long id;      /* cuCtxGetId: unique in this process */
    int usage;                  /* cuCtxAttach/Detach, or primary retains; under the context lock */
    bool ending;                /* a primary context being taken down; under the context lock */
    size_t limits[16];          /* by CUlimit */
    CUfunc_cache cache_config;
    CUsharedconfig shared_config;
    struct sim_context *next; /* all contexts ever made */
    /* A graph launch is several submissions that nobody else's may come between: work_submit_stream
     * holds it shared, a graph launch alone. work_submit_after takes no part. */
    pthread_rwlock_t submit_lock;

    uint32_t device_context; /* the device model's name for this context; set by its queues */
    void *queues;            /* its null stream, its list of streams, ... (stream/queues.c) */
};

/*
 * What a context has besides itself: a room makes its part known by CONTEXT_PART in the file that
 * has it. Parts begin, and end, in the order of their kinds: what is stored may use the streams
 * when it ends, works use modules, and modules have memory. Only the streams' beginning fails.
 * Primary contexts begin under the lock.
 */
enum context_kind {
    CONTEXT_STORAGE,
    CONTEXT_STREAMS,
    CONTEXT_MODULES,
    CONTEXT_MEMORY,
    CONTEXT_KINDS
};
struct context_part {
    enum context_kind kind;
    CUresult (*begin)(struct sim_context *ctx); /* NULL: nothing to do */
    void (*end)(struct sim_context *ctx);
};
#define CONTEXT_PART(kind, begin, end)                                                             \
    static const struct context_part end##_part = {kind, begin, end};                              \
    static const struct context_part *const end##_entry                                            \
        __attribute__((section("context_part"), used)) = &end##_part;

/* ---- current.c: the calling thread's --------------------------------------------------------- */

/* The calling thread's current context: CUDA_ERROR_NOT_INITIALIZED before cuInit and in a forked
 * child, CUDA_ERROR_INVALID_CONTEXT with none, CUDA_ERROR_CONTEXT_IS_DESTROYED with a dead one. */
CUresult context_current(struct sim_context **ctx);
/* The same, and the context's sticky error where it has one: what nearly every API call begins
 * with. NULL: whichever it is. */
CUresult context_enter(struct sim_context **ctx);
/* A context argument of calls: NULL means the current one. CUDA_ERROR_INVALID_CONTEXT,
 * CUDA_ERROR_CONTEXT_IS_DESTROYED, and what context_current says. */
CUresult context_argument(CUcontext handle, struct sim_context **out);
/* The same for what a primary context says that is not active, too. */
CUresult context_asked(CUcontext handle, struct sim_context **out);
/* On top of the thread's stack; CUDA_ERROR_OUT_OF_MEMORY. And off, where it is the current one. */
CUresult context_push(struct sim_context *ctx);
void context_drop(const struct sim_context *ctx);
/* The thread that runs host functions: CUDA calls answer CUDA_ERROR_NOT_PERMITTED there.
 * The calling thread is it from now on; is it? */
void callback_thread_begin(void);
bool callback_thread(void);

/* ---- life: thread safe, but where a lock is named -------------------------------------------- */

extern pthread_mutex_t context_lock; /* of the list of all, of usage, ending, limits and hints */

/* Raise an asynchronous error: the first one stays, and every later call in the context returns
 * it. */
void context_fail(struct sim_context *ctx, CUresult error);
/* A context handle -> the context; NULL for anything that is not a live context. NULL handle:
 * NULL. */
struct sim_context *context_find(CUcontext handle);
#define context_handle(ctx) ((CUcontext)(void *)(ctx))
/* The context whose handle it is, or was: it may be destroyed. NULL: none. */
struct sim_context *context_any(CUcontext handle);
bool context_flags_valid(unsigned int flags);
/* CU_CTX_SYNC_MEMOPS is set: copies and memsets that are not asynchronous wait until they are made.
 */
bool context_syncs(const struct sim_context *ctx);
/* Not live, and in no list. NULL: no memory. */
struct sim_context *context_new(int ordinal, bool primary, unsigned int version);
/* Into the list of all. Under context_lock. */
void context_list(struct sim_context *ctx);
/* Makes it live, with all that a context has. The streams' errors. */
CUresult context_begin(struct sim_context *ctx, unsigned int flags);
/* Waits for the context's work and takes everything in it away. Whoever turned `alive` off calls
 * it. */
void context_end(struct sim_context *ctx);

/* CUDA_ERROR_NOT_INITIALIZED before cuInit and in a forked child: for calls that need no
 * context. */
CUresult driver_ready(void);
/* The calling thread waits for room in a stream. With SIMGPU_FULL_LOCKS driver_ready waits until
 * that is over, and so does whoever else waits for room. */
void driver_full_begin(void);
void driver_full_end(void);
/* Is there such a device? CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_INVALID_DEVICE. */
CUresult device_check(CUdevice dev);
/* The device's primary context, as it is: not made active. The errors of device_check. */
CUresult context_primary(CUdevice dev, CUcontext *out);

/* Memory, modules and events of green contexts are the primary one's: contexts with one base
 * share. */
static inline const struct sim_context *context_base(const struct sim_context *ctx)
{
    return ctx->base ? ctx->base : ctx;
}
/* The end of one that is no primary one: CUDA_ERROR_CONTEXT_IS_DESTROYED where it was before. */
CUresult context_destroy(struct sim_context *ctx);
/* A green context beside the primary one, which is retained for it. */
CUresult context_green_make(struct sim_context *base, struct sim_context **out);
/* Calls `fn` for the live green contexts of `base`, under the lock of the list. */
void context_green_each(const struct sim_context *base,
                        void (*fn)(struct sim_context *green, void *arg), void *arg);
/* Ends them all. A green context outlives the last release of the primary one, which it retains,
 * but no reset. */
void context_greens_end(const struct sim_context *base);
#if CUDA_VERSION >= 12050
/* green.c: CUDA_ERROR_INVALID_CONTEXT for what is no live green context. */
CUresult green_find(CUgreenCtx handle, struct sim_context **out);
/* What of the device a context may use: CUDA_ERROR_INVALID_VALUE, _INVALID_RESOURCE_TYPE. */
CUresult context_resource(const struct sim_context *ctx, CUdevResource *out,
                          CUdevResourceType type);
#endif

#endif
