/*
 * context.h - a CUDA context of the simulated driver: what every call of a thread happens in.
 *
 * A context belongs to one device of this process and is never freed before the process ends:
 * a handle of a destroyed context stays recognisable (CUDA_ERROR_CONTEXT_IS_DESTROYED, or
 * CUDA_ERROR_INVALID_CONTEXT) instead of becoming a wild pointer.
 */
#ifndef SIMGPU_CONTEXT_H
#define SIMGPU_CONTEXT_H

#include "tools/simgpu/face/sim.h"

#include <pthread.h>
#include <stdatomic.h>

struct sim_stream;

struct sim_context {
    uint32_t magic;
    int ordinal;
    bool primary;
    struct sim_context *base;   /* a green context's primary one; NULL: this is none (green.c) */
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

    /* The lower half's own: set by context_open_queues, emptied by context_close_queues. */
    uint32_t device_context; /* the device model's name for this context */
    void *queues;            /* its null stream, its list of streams, ... */
    void *modules;           /* its modules and libraries */
};

/* Is there such a device? CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_INVALID_DEVICE. */
CUresult device_check(CUdevice dev);
/* The device's primary context, as it is: not made active. */
CUresult context_primary(CUdevice dev, CUcontext *out);

/* Memory, modules and events of green contexts are the primary one's: contexts with one base share. */
static inline const struct sim_context *context_base(const struct sim_context *ctx)
{
    return ctx->base ? ctx->base : ctx;
}
/* A green context beside the primary one, which is retained for it; and its end. */
CUresult context_green_make(struct sim_context *base, struct sim_context **out);
CUresult context_green_end(struct sim_context *ctx);
/* Calls `fn` for the live green contexts of `base`, under the lock of the list. */
void context_green_each(const struct sim_context *base,
                        void (*fn)(struct sim_context *green, void *arg), void *arg);
#if CUDA_VERSION >= 12050
/* green.c: CUDA_ERROR_INVALID_CONTEXT for what is no live green context. */
CUresult green_find(CUgreenCtx handle, struct sim_context **out);
#endif

#endif
