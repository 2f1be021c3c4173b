/*
 * context.h - a CUDA context of the simulated driver: every call of a thread happens in one.
 *
 * A context belongs to one device of this process, and is never freed before the process ends. So
 * the handle of a destroyed context stays recognisable (CUDA_ERROR_CONTEXT_IS_DESTROYED, or
 * CUDA_ERROR_INVALID_CONTEXT) and never becomes a wild pointer.
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
    struct sim_context *base;   /* of a green one: the primary one; NULL: not green (green.c) */
    unsigned int sms;           /* of a green context */
    _Atomic bool alive;         /* false once destroyed; retaining makes a primary one live again */
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
    /* A graph launch is several submissions, and no other thread's may come between them.
     * work_submit_stream holds it shared, a graph launch alone. work_submit_raw takes no part. */
    pthread_rwlock_t submit_lock;

    uint32_t device_context; /* its name in the device model; set by its queues */
    void *queues;            /* its null stream, its list of streams, ... (stream/queues.c) */
};

/*
 * A context also has parts of other folders. A folder registers its part by CONTEXT_PART, in the
 * file that has it. Parts begin, and end, in the order of their kinds: when storage ends it may
 * still use the streams, works use modules, and modules have memory. Only the beginning of the
 * streams can fail. Primary contexts begin under the lock.
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

/* ---- current.c: the calling thread's contexts ------------------------------------------------ */

/* The calling thread's current context: CUDA_ERROR_NOT_INITIALIZED before cuInit and in a forked
 * child, CUDA_ERROR_INVALID_CONTEXT if none is, CUDA_ERROR_CONTEXT_IS_DESTROYED if it is dead. */
CUresult context_current(struct sim_context **ctx);
/* As context_current, but returns the context's sticky error if it has one. Nearly every API call
 * begins with this. `ctx` may be NULL. */
CUresult context_current_ok(struct sim_context **ctx);
/* The context that a call was given; NULL means the current one. CUDA_ERROR_INVALID_CONTEXT,
 * CUDA_ERROR_CONTEXT_IS_DESTROYED, and the errors of context_current. */
CUresult context_arg(CUcontext handle, struct sim_context **out);
/* The same for calls that also answer for a primary context that is not active. */
CUresult context_arg_inactive(CUcontext handle, struct sim_context **out);
/* Puts it on top of the thread's stack; CUDA_ERROR_OUT_OF_MEMORY. Takes it off if it is current. */
CUresult context_push(struct sim_context *ctx);
void context_pop_if_top(const struct sim_context *ctx);
/* For the thread that runs host functions, in which CUDA calls answer CUDA_ERROR_NOT_PERMITTED.
 * `begin` makes the calling thread that thread, the other function asks whether it is. */
void callback_thread_begin(void);
bool on_callback_thread(void);

/* ---- life: thread safe, unless a lock is named ----------------------------------------------- */

extern pthread_mutex_t context_lock; /* guards the list of all, usage, ending, limits and hints */

/* Raises an asynchronous error. The first one stays, and every later call in the context returns
 * it. */
void context_fail(struct sim_context *ctx, CUresult error);
/* The live context with this handle. NULL for any other handle, and for a NULL one. */
struct sim_context *context_find(CUcontext handle);
#define context_handle(ctx) ((CUcontext)(void *)(ctx))
/* The context with this handle, even if it was destroyed. NULL: there never was one. */
struct sim_context *context_any(CUcontext handle);
bool context_flags_valid(unsigned int flags);
/* CU_CTX_SYNC_MEMOPS is set: copies and memsets that are not asynchronous wait for their
 * completion. */
bool context_syncs_memops(const struct sim_context *ctx);
/* Makes a context that is not live and in no list. NULL: no memory. */
struct sim_context *context_new(int ordinal, bool primary, unsigned int version);
/* Adds it to the list of all. Under context_lock. */
void context_list_add(struct sim_context *ctx);
/* Makes it live, with all its parts. Returns the errors of the streams' part. */
CUresult context_begin(struct sim_context *ctx, unsigned int flags);
/* Waits for the context's work and removes all that is in it. The caller is the thread that has set
 * `alive` to false. */
void context_end(struct sim_context *ctx);

/* For calls that need no context. CUDA_ERROR_NOT_INITIALIZED before cuInit and in a forked
 * child. */
CUresult driver_ready(void);
/* The calling thread waits for room in a stream. With SIMGPU_FULL_LOCKS driver_ready, and any other
 * thread that waits for room, waits until that is over. */
void driver_full_begin(void);
void driver_full_end(void);
/* Whether there is such a device. CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_INVALID_DEVICE. */
CUresult device_check(CUdevice dev);
/* The device's primary context, active or not; does not activate it. The errors of device_check. */
CUresult context_primary(CUdevice dev, CUcontext *out);

/* Green contexts use the memory, modules and events of the primary one: contexts with one base
 * share these. */
static inline const struct sim_context *context_base(const struct sim_context *ctx)
{
    return ctx->base ? ctx->base : ctx;
}
/* Ends one that is not a primary one. CUDA_ERROR_CONTEXT_IS_DESTROYED if it has ended before. */
CUresult context_destroy(struct sim_context *ctx);
/* Makes a green context of the primary one, and retains the primary one for it. */
CUresult context_green_make(struct sim_context *base, struct sim_context **out);
/* Calls `fn` for the live green contexts of `base`, under the lock of the list. */
void context_green_each(const struct sim_context *base,
                        void (*fn)(struct sim_context *green, void *arg), void *arg);
/* Ends all green contexts of `base`. A green context retains the primary one: so it outlives the
 * program's last release of that, but no reset. */
void context_greens_end(const struct sim_context *base);
#if CUDA_VERSION >= 12050
/* green.c: CUDA_ERROR_INVALID_CONTEXT if the handle is not of a live green context. */
CUresult green_find(CUgreenCtx handle, struct sim_context **out);
/* What of the device a context may use. CUDA_ERROR_INVALID_VALUE, _INVALID_RESOURCE_TYPE. */
CUresult context_resource(const struct sim_context *ctx, CUdevResource *out,
                          CUdevResourceType type);
#endif

#endif
