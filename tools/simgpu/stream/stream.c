/*
 * stream.c - streams: how they are made, found by their handles, and destroyed. stream_api.c has
 * the stream API, submit.c how work gets into one.
 */
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/engine.h"
#include "tools/simgpu/face/simconfig.h"

#include <utlist.h>

enum { STREAM_POOL = 65536 };

static struct handle_pool pool = HANDLE_POOL(struct sim_stream, STREAM_POOL);
static _Atomic unsigned long long next_id = 1;

/* ---- the context's streams ------------------------------------------------------------------- */

/* Streams share the hardware queues of their context. A new one takes the queue with the fewest.
 * The streams of a graph launch are internal, and each has a queue of its own. */
static void queues_enter(struct sim_stream *s)
{
    struct context_queues *q = queues_of(s->context);
    uint32_t best = 0;
    SCOPED_LOCK(&q->lock);
    DL_PREPEND(q->streams, s);
    s->queue = 0;
    if (s->role == STREAM_BRANCH)
        return;
    for (uint32_t i = 1; i < (uint32_t)config_get()->connections; i++)
        best = q->sharing[i] < q->sharing[best] ? i : best;
    q->sharing[best]++;
    s->queue = best + 1;
}

static void queues_leave(struct sim_stream *s)
{
    struct context_queues *q = queues_of(s->context);
    SCOPED_LOCK(&q->lock);
    DL_DELETE(q->streams, s);
    if (s->queue)
        q->sharing[s->queue - 1]--;
}

/* ---- life ------------------------------------------------------------------------------------ */

CUresult stream_create(struct sim_context *ctx, enum stream_role role, unsigned int flags,
                       int priority, struct sim_stream **out)
{
    struct sim_stream *s = handle_take(&pool);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_store(&s->submitted, 0);
    atomic_store(&s->completed, 0);
    atomic_store(&s->wanted, UINT64_MAX);
    atomic_store(&s->closing, false);
    s->capture = NULL;
    memset(s->attributes, 0, sizeof(s->attributes));
    s->id = atomic_fetch_add(&next_id, 1);
    s->context = ctx;
    s->role = role;
    s->flags = flags;
    s->priority = priority;
    queues_enter(s);
    if (!engine_stream_open(s)) {
        queues_leave(s);
        handle_give(&pool, s);
        return engine_stopped() ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_OUT_OF_MEMORY;
    }
    handle_publish(s);
    *out = s;
    return CUDA_SUCCESS;
}

void stream_retire_if_done(struct sim_stream *s)
{
    bool closing = true;
    if (!atomic_load(&s->closing) || atomic_load(&s->completed) < atomic_load(&s->submitted))
        return;
    if (!atomic_compare_exchange_strong(&s->closing, &closing, false))
        return; /* the engine and the destroying thread both came here; only one releases it */
    queues_leave(s);
    engine_stream_close(s);
    handle_give(&pool, s);
}

void stream_destroy(struct sim_stream *s)
{
    if (!handle_retire(s))
        return;
    atomic_store(&s->closing, true);
    stream_retire_if_done(s);
}

CUresult stream_branch_create(struct sim_context *ctx, int priority, struct sim_stream **out)
{
    return stream_create(ctx, STREAM_BRANCH, CU_STREAM_NON_BLOCKING, priority, out);
}

/* ---- handles --------------------------------------------------------------------------------- */

bool stream_of_any_context(CUstream handle, struct sim_stream **out)
{
    *out = handle_find(&pool, handle);
    return *out && (*out)->role == STREAM_CREATED;
}

CUresult stream_resolve(struct sim_context *ctx, CUstream handle, bool ptds,
                        struct sim_stream **out)
{
    if (handle == CU_STREAM_PER_THREAD || (!handle && ptds))
        return stream_per_thread(ctx, out);
    if (!handle || handle == CU_STREAM_LEGACY) {
        *out = queues_of(ctx)->legacy;
        return CUDA_SUCCESS;
    }
    if (!stream_of_any_context(handle, out))
        return CUDA_ERROR_INVALID_HANDLE;
    return context_base((*out)->context) == context_base(ctx) ? CUDA_SUCCESS
                                                              : CUDA_ERROR_INVALID_CONTEXT;
}

/* A call may name a created stream while another context is current, as NCCL does. */
CUresult stream_arg(CUstream handle, bool ptds, struct sim_context **ctx, struct sim_stream **out)
{
    struct sim_context *here;
    CUresult rc = context_current_ok(&here);
    if (rc == CUDA_SUCCESS)
        rc = stream_resolve(here, handle, ptds, out);
    if (rc == CUDA_ERROR_INVALID_CONTEXT && stream_of_any_context(handle, out)) {
        here = (*out)->context;
        rc = atomic_load(&here->error);
    }
    if (ctx)
        *ctx = here;
    return rc;
}

CUstream stream_handle(const struct sim_stream *s)
{
    if (s->role == STREAM_LEGACY)
        return NULL;
    return s->role == STREAM_PER_THREAD ? CU_STREAM_PER_THREAD : (CUstream)(void *)(uintptr_t)s;
}

bool stream_is_legacy(const struct sim_stream *s)
{
    return s->role == STREAM_LEGACY;
}

bool stream_is_blocking(const struct sim_stream *s)
{
    return !(s->flags & CU_STREAM_NON_BLOCKING);
}

void stream_each(struct sim_context *ctx, void (*fn)(struct sim_stream *s, void *arg), void *arg)
{
    struct context_queues *q = queues_of(ctx);
    SCOPED_LOCK(&q->lock);
    for (struct sim_stream *s = q->streams; s; s = s->next)
        if (s->role != STREAM_BRANCH && atomic_load(&s->handle.live))
            fn(s, arg);
}
