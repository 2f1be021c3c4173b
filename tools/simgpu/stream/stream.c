/*
 * stream.c - streams: made, found by their handles, destroyed. The stream API itself is in
 * stream_api.c, the way of a work into a stream in submit.c.
 */
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/engine.h"
#include "tools/simgpu/stream/per_thread.h"
#include "tools/simgpu/face/simconfig.h"

#include <string.h>

enum { STREAM_POOL = 65536 };

static struct handle_pool pool = HANDLE_POOL(struct sim_stream, STREAM_POOL);
static _Atomic unsigned long long next_id = 1;

/* ---- hardware queues ------------------------------------------------------------------------- */

/* Streams share the queues of their context: a new one takes the one with the fewest. Those of a
 * graph launch are the driver's own affair. 0: a queue to itself. */
static uint32_t queue_take(struct context_queues *q, enum stream_role role)
{
    uint32_t best = 0;
    if (role == STREAM_BRANCH)
        return 0;
    pthread_mutex_lock(&q->lock);
    for (uint32_t i = 1; i < (uint32_t)config_get()->connections; i++)
        best = q->sharing[i] < q->sharing[best] ? i : best;
    q->sharing[best]++;
    pthread_mutex_unlock(&q->lock);
    return best + 1;
}

static void queue_give(struct context_queues *q, uint32_t queue)
{
    if (!queue)
        return;
    pthread_mutex_lock(&q->lock);
    q->sharing[queue - 1]--;
    pthread_mutex_unlock(&q->lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void list_add(struct sim_stream *s)
{
    struct context_queues *q = queues_of(s->context);
    pthread_mutex_lock(&q->lock);
    s->prev = NULL;
    s->next = q->streams;
    if (s->next)
        s->next->prev = s;
    q->streams = s;
    pthread_mutex_unlock(&q->lock);
}

static void list_remove(struct sim_stream *s)
{
    struct context_queues *q = queues_of(s->context);
    pthread_mutex_lock(&q->lock);
    if (s->prev)
        s->prev->next = s->next;
    else
        q->streams = s->next;
    if (s->next)
        s->next->prev = s->prev;
    pthread_mutex_unlock(&q->lock);
}

static void stream_reset(struct sim_stream *s)
{
    atomic_store(&s->submitted, 0);
    atomic_store(&s->completed, 0);
    atomic_store(&s->wanted, UINT64_MAX);
    atomic_store(&s->closing, false);
    s->capture = NULL;
    memset(s->attributes, 0, sizeof(s->attributes));
    s->id = atomic_fetch_add(&next_id, 1);
}

CUresult stream_create(struct sim_context *ctx, enum stream_role role, unsigned int flags,
                       int priority, struct sim_stream **out)
{
    struct sim_stream *s = handle_take(&pool);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream_reset(s);
    s->context = ctx;
    s->role = role;
    s->flags = flags;
    s->priority = priority;
    s->queue = queue_take(queues_of(ctx), role);
    if (!engine_lane_open(s)) {
        queue_give(queues_of(ctx), s->queue);
        handle_give(&pool, s);
        return engine_stopped() ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_OUT_OF_MEMORY;
    }
    list_add(s);
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
        return; /* the engine and the destroyer both came; one takes it down */
    list_remove(s);
    queue_give(queues_of(s->context), s->queue);
    engine_lane_close(s);
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

void stream_branch_release(struct sim_stream *s)
{
    stream_destroy(s);
}

/* ---- handles --------------------------------------------------------------------------------- */

CUresult stream_resolve(struct sim_context *ctx, CUstream handle, bool ptds,
                        struct sim_stream **out)
{
    if (handle == CU_STREAM_PER_THREAD || (!handle && ptds))
        return stream_per_thread(ctx, out);
    if (!handle || handle == CU_STREAM_LEGACY) {
        *out = queues_of(ctx)->legacy;
        return CUDA_SUCCESS;
    }
    struct sim_stream *s = handle_find(&pool, handle);
    if (!s || s->role != STREAM_CREATED)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = s;
    return context_base(s->context) == context_base(ctx) ? CUDA_SUCCESS
                                                         : CUDA_ERROR_INVALID_CONTEXT;
}

bool stream_of_any_context(CUstream handle, struct sim_stream **out)
{
    struct sim_stream *s = handle_find(&pool, handle);
    if (!s || s->role != STREAM_CREATED)
        return false;
    *out = s;
    return true;
}

/* A created stream can be named while another context of the process is current, as NCCL does. */
CUresult stream_enter(CUstream handle, bool ptds, struct sim_context **ctx, struct sim_stream **out)
{
    CUresult rc = context_enter(ctx);
    if (rc == CUDA_SUCCESS)
        rc = stream_resolve(*ctx, handle, ptds, out);
    if (rc != CUDA_ERROR_INVALID_CONTEXT || !stream_of_any_context(handle, out))
        return rc;
    *ctx = (*out)->context;
    return atomic_load(&(*ctx)->error);
}

struct sim_context *stream_context(const struct sim_stream *s)
{
    return s->context;
}

CUstream stream_handle(const struct sim_stream *s)
{
    if (s->role == STREAM_LEGACY)
        return NULL;
    return s->role == STREAM_PER_THREAD ? CU_STREAM_PER_THREAD : (CUstream)(void *)(uintptr_t)s;
}

int stream_priority(const struct sim_stream *s)
{
    return s->priority;
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
    pthread_mutex_lock(&q->lock);
    for (struct sim_stream *s = q->streams; s; s = s->next)
        if (s->role != STREAM_BRANCH && atomic_load(&s->handle.live))
            fn(s, arg);
    pthread_mutex_unlock(&q->lock);
}
