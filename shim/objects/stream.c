/*
 * stream.c - the streams of this process (see stream.h).
 */
#include "shim/objects/stream.h"

#include <errno.h>
#include <utlist.h>

#include "common/clock.h"
#include "common/thread.h"
#include "shim/objects/word.h"

TABLE(streams);
POOL(stream_pool, struct shim_stream, free_next);

_Atomic uint32_t stream_generation = 1, levels_seen;
_Thread_local struct stream_last stream_last __attribute__((tls_model("initial-exec")));
_Thread_local unsigned thread_in_callback __attribute__((tls_model("initial-exec")));
_Thread_local uint32_t thread_level __attribute__((tls_model("initial-exec")));
_Thread_local int thread_level_wanted __attribute__((tls_model("initial-exec"))) = -1;

/* ---- making them known -------------------------------------------------------------------- */

static void stream_give_queue(struct shim_stream *s, int priority)
{
    struct shim_context *ctx = s->ctx;
    const int dev = ctx->gpu->index;
    s->word = word_get(ctx, &s->word_device);
    if (!s->word && !mark_ring_new(s))
        return;
    struct vhq_desc desc = {.kind = s->kind,
                            .level = s->level,
                            .priority = priority,
                            .stream = s->handle,
                            .user = s,
                            .id = s->id,
                            .hold = dev < 0 ? NULL : client_hold_word(dev, s->level),
                            .hold_since = client_hold_since(dev, s->level),
                            .done = s->word};
    if (vhq_create(ctx->set, &desc, &s->q) != 0) {
        s->q = NULL;
        log_line(LOG_ERROR, "scheduling off for a stream: no memory");
    }
}

static void stream_reset(struct shim_stream *s, struct shim_context *ctx, CUstream handle)
{
    static _Atomic uint32_t ids;
    s->id = atomic_fetch_add_explicit(&ids, 1, memory_order_relaxed) + 1;
    s->handle = handle;
    s->ctx = ctx;
    s->per_thread = handle == CU_STREAM_PER_THREAD;
    s->undeferred = s->per_thread || (handle == CU_STREAM_LEGACY && ctx->base != ctx->handle);
    s->freed = NULL;
    s->tracked = false;
    s->asked = 0;
    s->sent_at_tick = 0;
    s->sent_same_ticks = 0;
    atomic_store(&s->overlaps, 0);
    for (int i = 0; i < JOINS; i++)
        atomic_store_explicit(&s->join[i].seal, 0, memory_order_relaxed);
    atomic_store(&s->joined, false);
    atomic_store(&s->captures, 0);
    s->word = NULL;
    atomic_store(&s->state, STREAM_LIVE);
    atomic_store(&s->cig, false);
    /* Epochs never go back, because events remember them. A thread's own stream may contain work
     * that an earlier struct knew, so it counts as complete only when the driver has said so. */
    uint64_t before = atomic_fetch_add(&s->epoch, 1);
    atomic_store(&s->complete, s->per_thread ? before : before + 1);
    atomic_store(&s->busy, 0);
    s->published = (struct stream_counters){.calls = EPOCH_CALLS(atomic_load(&s->epoch)),
                                            .kernels = EPOCH_KERNELS(atomic_load(&s->epoch))};
    atomic_store(&s->marked, 0);
    s->quiet = 0;
    s->stuck = false;
}

/* The stream's handle may be reused from now on. */
static void stream_unlink(struct shim_stream *s)
{
    bool forgotten = MUTANT(gone_forgotten) || (MUTANT(passing_forgotten) && s->per_thread);
    if (s->kind == VHQ_BLOCKING && !schedule_all_complete(s) && !forgotten)
        atomic_fetch_add(&s->ctx->gone, 1);
    atomic_store(&s->state, STREAM_GONE);
    moment_tell(STREAM_UNLINKED, s->ctx, true, s);
    if (schedule_detach(s))
        client_work_end(s->ctx->gpu->index, s->level);
    capture_over(s);
    if (!stream_is_default(s->handle))
        table_remove(&streams, &s->node);
    atomic_fetch_add_explicit(&stream_generation, 1, memory_order_release);
}

/* The caller makes the handle known. */
static struct shim_stream *stream_new(struct shim_context *ctx, CUstream handle, unsigned flags,
                                      int priority, uint32_t level)
{
    struct shim_stream *s = pool_get(&stream_pool);
    if (!s)
        return NULL;
    stream_reset(s, ctx, handle);
    s->kind = handle == CU_STREAM_LEGACY       ? VHQ_LEGACY
              : flags & CU_STREAM_NON_BLOCKING ? VHQ_NONBLOCKING
                                               : VHQ_BLOCKING;
    s->level = level;
    s->tracked = s->level > CUTIN_LEVEL_BE && ctx->gpu->index >= 0;
    if (ctx->set && level_has_queues(s->level))
        stream_give_queue(s, priority);
    s->direct = !s->q;
    atomic_fetch_or(&levels_seen, 1u << s->level);
    moment_tell(STREAM_BEGINS, s->ctx, true, s);
    client_note_stream(s->level, true);
    pthread_mutex_lock(&ctx->lock);
    if (ctx->waits) /* counts as work until the driver says that it is complete */
        atomic_fetch_add(&s->epoch, EPOCH_CALL);
    DL_APPEND(ctx->streams, s);
    pthread_mutex_unlock(&ctx->lock);
    return s;
}

/* At the level that its handle, its priority and its thread's wish give. */
static struct shim_stream *stream_new_plain(struct shim_context *ctx, CUstream handle,
                                            unsigned flags, int priority)
{
    uint32_t most = client_level(), level = most, wanted = (uint32_t)thread_level_wanted;
    int steps = ctx->priority_least - ctx->priority_greatest,
        above = ctx->priority_least - priority;
    if (thread_level_wanted >= 0 && handle != CU_STREAM_LEGACY) {
        level = wanted < most ? wanted : most;
    } else if (config_get()->stream_priority == STREAM_PRIORITY_INHERIT && steps != 0) {
        /* CUDA: numerically lower is higher, 0 is the least; out-of-range values are clamped. */
        above = above < 0 ? 0 : above > steps ? steps : above;
        level = (most * (uint32_t)above * 2 + (uint32_t)steps) / ((uint32_t)steps * 2);
    }
    return stream_new(ctx, handle, flags, priority, level);
}

struct shim_stream *stream_add_at(struct shim_context *ctx, CUstream handle, uint32_t level)
{
    struct shim_stream *s = stream_new(ctx, handle, CU_STREAM_NON_BLOCKING, 0, level);
    struct shim_stream *stale = s ? stream_known(handle) : NULL;
    if (stale) /* its end was not seen: the handle now means this stream */
        stream_unlink(stale);
    if (s)
        table_insert(&streams, &s->node, handle);
    return s;
}

static int legacy_begin(struct shim_context *ctx)
{
    ctx->legacy = stream_new_plain(ctx, CU_STREAM_LEGACY, 0, 0);
    return ctx->legacy ? 0 : -ENOMEM;
}
CONTEXT_BEGIN(CONTEXT_QUEUED, legacy_begin)

/* A stream that was not created through the shim: asks the driver what it is. If several threads do
 * so at a time the first one's struct counts, since it may have buffered something already. */
static struct shim_stream *stream_adopt(CUstream handle)
{
    struct shim_context *ctx = context_of_stream(handle);
    unsigned flags = 0;
    int priority = 0;
    if (!ctx || REAL(cuStreamGetFlags)(handle, &flags) != CUDA_SUCCESS)
        return NULL;
    REAL(cuStreamGetPriority)(handle, &priority);
    struct shim_stream *s = stream_new_plain(ctx, handle, flags, priority);
    if (!s)
        return NULL;
    struct table_node *first = table_insert_once(&streams, &s->node, handle);
    if (likely(first == &s->node))
        return s;
    stream_leave(s);
    stream_end(s, false);
    return (struct shim_stream *)(void *)first;
}

void stream_created(CUstream handle)
{
    struct shim_stream *stale = stream_known(handle);
    if (stale)
        stream_unlink(stale);
    struct shim_stream *s = stream_adopt(handle);
    if (s)
        stream_reap(s->ctx);
}

/* ---- each thread's own -------------------------------------------------------------------- */

/* A thread rarely uses more than one context. More than SLOTS of them take turns. */
enum { SLOTS = 8 };
struct slot {
    struct shim_stream *stream;
    uint32_t id;      /* of the stream: the struct may have been freed with its context */
    uint64_t context; /* generation */
};
static _Thread_local struct slot slots[SLOTS] __attribute__((tls_model("initial-exec")));

/* A stream whose context was closed has been freed. The context is gone with its lock, so only the
 * id can tell. It may be read, since freed structs are only ever reused as streams. */
static bool slot_empty(const struct slot *slot)
{
    const struct shim_stream *s = slot->stream;
    return !s || s->id != slot->id || atomic_load(&s->state) != STREAM_LIVE;
}

static void slot_end(struct slot *slot)
{
    struct shim_stream *s = slot->stream;
    /* Another thread may be about to destroy the context with the stream. */
    struct shim_context *ctx = slot_empty(slot) ? NULL : context_find_get(s->ctx->handle);
    slot->stream = NULL;
    if (!ctx)
        return;
    if (ctx->generation == slot->context) {
        stream_leave(s);
        stream_end(s, false); /* the driver's stream may be gone already */
    }
    context_put(ctx);
}

static void thread_ended(void *unused)
{
    if (thread_bypasses())
        return;
    for (int i = 0; i < SLOTS; i++)
        slot_end(&slots[i]);
}

static struct shim_stream *thread_stream_find(const struct shim_context *ctx)
{
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].stream && slots[i].context == ctx->generation)
            return slots[i].stream;
    return NULL;
}

static __attribute__((noinline)) struct shim_stream *thread_stream_get(struct shim_context *ctx)
{
    static _Thread_local unsigned turn __attribute__((tls_model("initial-exec")));
    static _Atomic unsigned key;
    struct shim_stream *s = thread_stream_find(ctx);
    if (likely(s))
        return s;
    if (!thread_at_end(&key, thread_ended) ||
        !(s = stream_new_plain(ctx, CU_STREAM_PER_THREAD, 0, 0)))
        return NULL;
    struct slot *slot = slots;
    for (; slot < slots + SLOTS && !slot_empty(slot); slot++)
        ;
    if (slot == slots + SLOTS)
        slot_end(slot = &slots[turn++ % SLOTS]);
    *slot = (struct slot){s, s->id, ctx->generation};
    return s;
}

bool stream_is_own(const struct shim_stream *s)
{
    return thread_stream_find(s->ctx) == s;
}

/* ---- finding them ------------------------------------------------------------------------- */

struct shim_stream *stream_known(CUstream handle)
{
    struct shim_context *ctx;
    if (!stream_is_default(handle))
        return (struct shim_stream *)(void *)table_find(&streams, handle);
    if (!(ctx = context_current_known()))
        return NULL;
    return handle == CU_STREAM_LEGACY ? ctx->legacy : thread_stream_find(ctx);
}

struct shim_stream *stream_find(CUstream handle, uint32_t now)
{
    if (stream_is_default(handle)) {
        bool queued = atomic_load_explicit(&context_queued, memory_order_relaxed) != 0;
        struct shim_context *ctx = queued ? context_current() : context_cached();
        if (!ctx)
            return NULL;
        return handle == CU_STREAM_LEGACY ? ctx->legacy : thread_stream_get(ctx);
    }
    struct shim_stream *s = (struct shim_stream *)(void *)table_find(&streams, handle);
    if (!s)
        s = stream_adopt(handle);
    if (s)
        stream_last = (struct stream_last){handle, s, now};
    return s;
}

/* ---- and letting them go ------------------------------------------------------------------ */

void stream_leave(struct shim_stream *s)
{
    moment_tell(STREAM_LEAVES, s->ctx, true, s);
    stream_unlink(s);
}

/* The context's lock is held, but given up while waiting. */
static void stream_await_answer(const struct shim_stream *s)
{
    while (s->asked) {
        pthread_mutex_unlock(&s->ctx->lock);
        clock_nap(20000);
        pthread_mutex_lock(&s->ctx->lock);
    }
}

static void stream_free(struct shim_stream *s)
{
    struct shim_context *ctx = s->ctx;
    pthread_mutex_lock(&ctx->lock);
    stream_await_answer(s);
    struct vhq *q = s->q;
    s->q = NULL;
    pthread_mutex_unlock(&ctx->lock);
    if (q)
        vhq_destroy(q);
    pthread_mutex_lock(&ctx->lock);
    moment_tell(STREAM_ENDS, s->ctx, true, s);
    DL_DELETE(ctx->streams, s);
    pthread_mutex_unlock(&ctx->lock);
    if (s->word)
        word_put(ctx, s->word, atomic_load(&s->marked));
    mark_ring_free(s);
    client_note_stream(s->level, false);
    atomic_store(&s->state, STREAM_FREE);
    pool_put(&stream_pool, s);
}

void stream_end(struct shim_stream *s, bool marks)
{
    struct shim_context *ctx = s->ctx;
    pthread_mutex_lock(&ctx->lock);
    stream_await_answer(s);
    pthread_mutex_unlock(&ctx->lock);
    if (s->q && vhq_leave(s->q, marks)) {
        atomic_store(&s->state, STREAM_LEFT);
        atomic_store(&ctx->reap, true);
    } else {
        stream_free(s);
    }
}

/* The vHQs are about to go with their set. */
static void streams_part(struct shim_context *ctx, bool alive)
{
    pthread_mutex_lock(&ctx->lock);
    for (struct shim_stream *s = ctx->streams; s; s = s->next)
        s->q = NULL;
    pthread_mutex_unlock(&ctx->lock);
}
CONTEXT_END(CONTEXT_ENDING, streams_part)

/* The vHQs went with the set. The driver's streams, events and words go with the context. */
static void streams_end(struct shim_context *ctx, bool alive)
{
    while (ctx->streams) {
        struct shim_stream *s = ctx->streams;
        s->word = NULL;
        mark_ring_forget(s);
        stream_unlink(s);
        stream_free(s);
    }
}
CONTEXT_END(CONTEXT_ENDED, streams_end)

/* Takes a stream in that state that is due. */
static struct shim_stream *next_due(struct shim_context *ctx, enum stream_state state)
{
    struct shim_stream *s;
    pthread_mutex_lock(&ctx->lock);
    for (s = ctx->streams; s; s = s->next) {
        int seen = (int)state;
        if (atomic_load(&s->state) != seen)
            continue;
        bool due = state == STREAM_DESTROYED ? vhq_empty(s->q) : !vhq_in_flight(s->q);
        if (due && atomic_compare_exchange_strong(&s->state, &seen, STREAM_FREE))
            break;
        if (!due && state == STREAM_LEFT)
            atomic_store(&ctx->reap, true);
    }
    pthread_mutex_unlock(&ctx->lock);
    return s;
}

void stream_reap(struct shim_context *ctx)
{
    struct shim_stream *s;
    if (!atomic_exchange(&ctx->reap, false))
        return;
    while ((s = next_due(ctx, STREAM_DESTROYED))) {
        CUstream handle = s->handle;
        struct context_scope scope = context_push(ctx);
        stream_end(s, true); /* first: then no thread marks it any more */
        REAL(cuStreamDestroy_v2)(handle);
        context_pop(scope);
    }
    while ((s = next_due(ctx, STREAM_LEFT)))
        stream_free(s);
}
