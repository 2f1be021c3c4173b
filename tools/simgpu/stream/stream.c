/*
 * stream.c - streams and the way of a work into them: which stream a handle means, legacy order, the
 * queue limit, and waiting for points. The stream API itself is in stream_api.c.
 */
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/engine.h"
#include "tools/simgpu/program/module.h"
#include "tools/simgpu/face/simconfig.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STREAM_POOL = 65536, WAIT_STEP_NS = 100000000 };

static struct handle_pool pool = HANDLE_POOL(struct sim_stream, STREAM_POOL);
static _Atomic unsigned long long next_id = 1;

static struct context_queues *queues_of(struct sim_context *ctx)
{
    return ctx->queues;
}

/* ---- points ------------------------------------------------------------------------------------ */

bool point_elsewhere(struct point p)
{
    return p.stream && !engine_lane(p.stream) && !config_get()->null_mode &&
           engine_device()->shared &&
           !device_completed(engine_device(), (struct op_point){p.stream, (uint32_t)p.seq});
}

bool point_done(struct point p)
{
    struct sim_stream *s = p.stream ? engine_lane(p.stream) : NULL;
    return s ? atomic_load(&s->completed) >= p.seq : !point_elsewhere(p);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, long timeout_ns)
{
    struct timespec t = {0, timeout_ns};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
}

void stream_complete(struct sim_stream *s, uint64_t seq)
{
    /* First: who sees it complete may destroy the stream, and its slot may be another's. */
    device_complete(engine_device(), atomic_load(&s->device_stream), seq);
    atomic_store(&s->completed, seq);
    /* Pairs with point_wait, which says what it wants before it looks at `completed`. */
    if (seq >= atomic_load(&s->wanted)) {
        atomic_store(&s->wanted, UINT64_MAX);
        atomic_fetch_add(&s->tick, 1);
        syscall(SYS_futex, &s->tick, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
    stream_retire_if_done(s);
}

/* Be woken when the stream gets there; others may want less or more. */
static void stream_want(struct sim_stream *s, uint64_t seq)
{
    uint64_t wanted = atomic_load(&s->wanted);
    while (seq < wanted && !atomic_compare_exchange_weak(&s->wanted, &wanted, seq))
        ;
}

static CUresult context_result(struct sim_context *ctx)
{
    return ctx ? atomic_load(&ctx->error) : CUDA_SUCCESS;
}

/* Nobody wakes this process for another one's works. */
static void wait_elsewhere(struct point p)
{
    struct timespec step = {0, (long)config_get()->poll_us * 1000};
    while (point_elsewhere(p) && !engine_stopped())
        nanosleep(&step, NULL);
}

CUresult point_wait(struct sim_context *ctx, struct point p)
{
    struct sim_stream *s = p.stream ? engine_lane(p.stream) : NULL;
    if (point_done(p))
        return context_result(ctx);
    if (callback_thread())
        return CUDA_ERROR_NOT_PERMITTED;
    if (!s)
        wait_elsewhere(p);
    while (s) {
        uint32_t seen = atomic_load(&s->tick);
        stream_want(s, p.seq);
        if (point_done(p) || engine_stopped())
            break;
        futex_wait(&s->tick, seen, WAIT_STEP_NS);
    }
    return point_done(p) ? context_result(ctx) : CUDA_ERROR_DEINITIALIZED;
}

struct point stream_tail(const struct sim_stream *s)
{
    return (struct point){atomic_load(&s->device_stream), atomic_load(&s->submitted)};
}

/* ---- hardware queues --------------------------------------------------------------------------- */

/* Streams share the queues of their context: a new one takes the one with the fewest. Those of a graph
 * launch are the driver's own affair. 0: a queue to itself. */
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

/* ---- life -------------------------------------------------------------------------------------- */

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
    memset(s->attributes, 0, sizeof s->attributes);
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

/* ---- per-thread default streams ---------------------------------------------------------------- */

/* A thread has few contexts: a short list. The id tells whether the slot is still the same stream. */
struct own_stream {
    struct sim_context *context;
    struct sim_stream *stream;
    unsigned long long id;
    struct own_stream *next;
};

static _Thread_local struct own_stream *own_streams;
static pthread_key_t own_key;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;
/* Between a thread that ends and a context that is destroyed: who retires its stream. */
static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;

static bool own_valid(const struct own_stream *own)
{
    return atomic_load(&own->stream->handle.live) && own->stream->id == own->id;
}

static void own_streams_end(void *list)
{
    own_streams = NULL;
    for (struct own_stream *own = list, *next; own; own = next) {
        next = own->next;
        pthread_mutex_lock(&own_lock);
        if (own_valid(own) && !engine_stopped())
            stream_destroy(own->stream);
        pthread_mutex_unlock(&own_lock);
        free(own);
    }
}

static void own_key_make(void)
{
    pthread_key_create(&own_key, own_streams_end);
}

static struct own_stream *own_find(struct sim_context *ctx)
{
    struct own_stream *own = own_streams;
    while (own && own->context != ctx)
        own = own->next;
    return own;
}

static struct own_stream *own_add(struct sim_context *ctx)
{
    struct own_stream *own = calloc(1, sizeof *own);
    if (!own)
        return NULL;
    own->context = ctx;
    own->next = own_streams;
    own_streams = own;
    pthread_once(&own_once, own_key_make);
    pthread_setspecific(own_key, own);
    return own;
}

static CUresult stream_per_thread(struct sim_context *ctx, struct sim_stream **out)
{
    struct own_stream *own = own_find(ctx);
    if (!own)
        own = own_add(ctx);
    if (!own)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!own->stream || !own_valid(own)) {
        CUresult rc = stream_create(ctx, STREAM_PER_THREAD, CU_STREAM_DEFAULT, 0, &own->stream);
        if (rc != CUDA_SUCCESS) {
            own->stream = NULL;
            return rc;
        }
        own->id = own->stream->id;
    }
    *out = own->stream;
    return CUDA_SUCCESS;
}

/* ---- handles ----------------------------------------------------------------------------------- */

CUresult stream_resolve(struct sim_context *ctx, CUstream handle, bool ptds,
                        struct sim_stream **out)
{
    if (handle == CU_STREAM_PER_THREAD || (handle == NULL && ptds))
        return stream_per_thread(ctx, out);
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
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

/* A created stream can be named while another context of the process is current, as NCCL does; a kernel
 * launch alone wants its own (launch.c). */
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

/* ---- sets of points ---------------------------------------------------------------------------- */

struct points {
    size_t count;
    struct point at[DEVICE_STREAMS];
};

static void points_add(struct points *set, struct point p)
{
    if (!point_done(p) && set->count < DEVICE_STREAMS)
        set->at[set->count++] = p;
}

/* The tails of the context's streams; of those in legacy order only, but for `except`. */
static void points_of_context(struct sim_context *ctx, bool blocking_only,
                              const struct sim_stream *except, struct points *set)
{
    struct context_queues *q = queues_of(ctx);
    pthread_mutex_lock(&q->lock);
    for (struct sim_stream *s = q->streams; s; s = s->next)
        if (s != except && (!blocking_only || stream_is_blocking(s)))
            points_add(set, stream_tail(s));
    pthread_mutex_unlock(&q->lock);
}

/* What legacy order puts before new work in s. */
static void points_of_legacy_order(struct sim_stream *s, struct points *set)
{
    if (s->role == STREAM_LEGACY)
        points_of_context(s->context, true, s, set);
    else if (stream_is_blocking(s))
        points_add(set, stream_tail(queues_of(s->context)->legacy));
}

static CUresult points_wait(struct sim_context *ctx, const struct points *set)
{
    CUresult rc = context_result(ctx);
    for (size_t i = 0; i < set->count; i++) {
        CUresult waited = point_wait(ctx, set->at[i]);
        rc = rc == CUDA_SUCCESS ? waited : rc;
    }
    return rc;
}

CUresult stream_wait(struct sim_stream *s)
{
    struct points set;
    set.count = 0;
    points_add(&set, stream_tail(s));
    if (s->role == STREAM_LEGACY)
        points_of_context(s->context, true, s, &set);
    return points_wait(s->context, &set);
}

bool stream_idle(struct sim_stream *s)
{
    struct points set;
    set.count = 0;
    points_add(&set, stream_tail(s));
    if (s->role == STREAM_LEGACY)
        points_of_context(s->context, true, s, &set);
    return set.count == 0;
}

static void points_of_green(struct sim_context *green, void *set)
{
    points_of_context(green, false, NULL, set);
}

/* The primary context's green ones too. */
CUresult context_wait_idle(struct sim_context *ctx)
{
    struct points set;
    set.count = 0;
    points_of_context(ctx, false, NULL, &set);
    context_green_each(ctx, points_of_green, &set);
    return points_wait(ctx, &set);
}

/* ---- the way in -------------------------------------------------------------------------------- */

/* SMs for the blocks of a kernel, by what one SM holds: 2048 threads, 32 blocks, 163 KiB shared. */
static uint16_t kernel_sms(const struct work *w)
{
    uint32_t per_sm = 32, sms = (uint32_t)config_get()->sms;
    uint32_t by_threads = w->threads ? 2048 / w->threads : per_sm;
    uint32_t by_smem = w->smem ? 166912 / w->smem : per_sm;
    per_sm = by_threads < per_sm ? by_threads : per_sm;
    per_sm = by_smem < per_sm ? by_smem : per_sm;
    per_sm = per_sm ? per_sm : 1;
    uint64_t wanted = ((uint64_t)w->blocks + per_sm - 1) / per_sm;
    wanted = wanted ? wanted : 1;
    return (uint16_t)(wanted < sms ? wanted : sms);
}

static const uint8_t op_kinds[] = {
    [WORK_KERNEL] = OP_KERNEL, [WORK_COPY] = OP_COPY, [WORK_MARK] = OP_MARK,
    [WORK_WAIT] = OP_WAIT,     [WORK_HOST] = OP_HOST, [WORK_GRAPH] = OP_HOST,
};

static struct op op_of(const struct work *w, uint64_t now)
{
    struct op op = {.submit_ns = now, .kind = op_kinds[w->kind]};
    if (w->kind != WORK_HOST)
        op.cost_ns = (uint64_t)((double)w->cost_ns / config_get()->speed);
    if (w->kind == WORK_KERNEL)
        op.sms = kernel_sms(w);
    if (w->kind == WORK_HOST && w->even_on_error)
        op.flags = OP_ALWAYS;
    return op;
}

static struct item *item_make(struct sim_stream *s, const struct work *w, uint64_t now)
{
    struct item *item = malloc(sizeof *item + w->blob_bytes);
    if (!item)
        return NULL;
    item->work = *w;
    item->work.submit_ns = now;
    item->work.context = context_handle(s->context);
    item->work.stream = stream_handle(s);
    item->work.blob = w->blob_bytes ? item->blob : NULL;
    item->stream = s;
    if (w->blob_bytes)
        memcpy(item->blob, w->blob, w->blob_bytes);
    return item;
}

static CUresult work_refuse(const struct work *w, CUresult rc)
{
    struct work gone = *w;
    if (w->drop)
        w->drop(&gone);
    return rc;
}

/* One op into the ring: 0 when it is full. The item becomes the engine's. Device locked. */
static uint64_t ring_put(struct sim_stream *s, const struct op *op, struct item *item)
{
    uint64_t seq = device_submit(engine_device(), atomic_load(&s->device_stream), op);
    if (!seq)
        return 0;
    s->items[seq % DEVICE_RING] = item;
    if (item)
        item->seq = seq;
    atomic_store(&s->submitted, seq);
    return seq;
}

/* Another thread has destroyed it, and all its work is done. */
static bool stream_gone(const struct sim_stream *s)
{
    return atomic_load(&s->device_stream) == 0;
}

/* The same, waiting for room: the real driver blocks the thread past 1024 launches too. 0: the stream is gone,
 * or the engine stops. Takes and leaves the device locked. */
static uint64_t ring_put_patiently(struct sim_stream *s, const struct op *op, struct item *item)
{
    uint64_t seq;
    while ((seq = ring_put(s, op, item)) == 0 && !engine_stopped() && !stream_gone(s)) {
        device_advance(engine_device(), sim_now_ns());
        device_unlock(engine_device());
        struct point tail = stream_tail(s);
        CUresult rc = point_wait(NULL, (struct point){tail.stream, tail.seq + 1 - DEVICE_RING});
        device_lock(engine_device());
        if (rc != CUDA_SUCCESS)
            return 0;
    }
    return seq;
}

/* Dependencies beyond what one op holds go into empty ops in front of it. */
static bool dependencies_put(struct sim_stream *s, struct op *last, const struct points *after)
{
    struct op join = {.kind = OP_MARK, .submit_ns = last->submit_ns};
    size_t ahead =
        after->count ? (after->count - 1) / DEVICE_DEPENDENCIES * DEVICE_DEPENDENCIES : 0;
    for (size_t i = 0; i < after->count; i++) {
        struct op *op = i < ahead ? &join : last;
        size_t place = i % DEVICE_DEPENDENCIES;
        op->after[place] = (struct op_point){after->at[i].stream, (uint32_t)after->at[i].seq};
        if (op == &join && place == DEVICE_DEPENDENCIES - 1 && !ring_put_patiently(s, op, NULL))
            return false;
    }
    return true;
}

static CUresult stream_queue(struct sim_stream *s, const struct work *w, const struct points *after,
                             struct point *out)
{
    uint64_t now = sim_now_ns();
    struct item *item = item_make(s, w, now);
    if (!item)
        return work_refuse(w, CUDA_ERROR_OUT_OF_MEMORY);
    struct op op = op_of(w, now);
    item->work.cost_ns = op.cost_ns;
    device_lock(engine_device());
    uint64_t seq = 0;
    if (dependencies_put(s, &op, after))
        seq = ring_put_patiently(s, &op, item);
    device_advance(engine_device(), now);
    device_unlock(engine_device());
    if (!seq) {
        free(item);
        return work_refuse(w, callback_thread()  ? CUDA_ERROR_NOT_PERMITTED
                              : engine_stopped() ? CUDA_ERROR_DEINITIALIZED
                                                 : CUDA_ERROR_INVALID_HANDLE);
    }
    if (out)
        *out = (struct point){atomic_load(&s->device_stream), seq};
    return CUDA_SUCCESS;
}

/* Null mode: the calling thread does it all, now. */
static CUresult stream_run(struct sim_stream *s, const struct work *given, struct point *out)
{
    struct work w = *given;
    w.context = context_handle(s->context);
    w.stream = stream_handle(s);
    w.submit_ns = w.start_ns = w.end_ns = sim_now_ns();
    while (w.poll && !w.poll(&w))
        sched_yield();
    struct point at = {atomic_load(&s->device_stream), atomic_fetch_add(&s->submitted, 1) + 1};
    work_finish(&w, s, at.seq, false);
    atomic_fetch_add(&s->completed, 1);
    if (out)
        *out = at;
    return CUDA_SUCCESS;
}

static CUresult stream_take(struct sim_stream *s, const struct work *w, const struct points *after,
                            struct point *out)
{
    if (callback_thread())
        return work_refuse(w, CUDA_ERROR_NOT_PERMITTED);
    if (engine_stopped())
        return work_refuse(w, CUDA_ERROR_DEINITIALIZED);
    if (config_get()->null_mode)
        return stream_run(s, w, out);
    return stream_queue(s, w, after, out);
}

CUresult work_submit_after(struct sim_stream *s, const struct work *w, const struct point *after,
                           size_t n, struct point *out)
{
    struct points set;
    set.count = 0;
    for (size_t i = 0; i < n; i++)
        points_add(&set, after[i]);
    return stream_take(s, w, &set, out);
}

CUresult work_submit_locked(struct sim_stream *s, const struct work *w, const struct point *after,
                            size_t n, struct point *out)
{
    CUresult rc = stream_is_legacy(s) ? capture_forbids_legacy(s->context) : CUDA_SUCCESS;
    if (rc != CUDA_SUCCESS)
        return work_refuse(w, rc);
    struct points set;
    set.count = 0;
    for (size_t i = 0; i < n; i++)
        points_add(&set, after[i]);
    points_of_legacy_order(s, &set);
    return stream_take(s, w, &set, out);
}

CUresult work_submit_stream(struct sim_stream *s, const struct work *w, struct point *out)
{
    if (capture_active(s)) {
        if (out)
            *out = (struct point){0, 0};
        CUresult added = capture_add(s, w);
        return added == CUDA_SUCCESS ? added : work_refuse(w, added);
    }
    /* Nothing comes in between the works of a graph launch. */
    pthread_rwlock_rdlock(&s->context->submit_lock);
    CUresult rc = work_submit_locked(s, w, NULL, 0, out);
    pthread_rwlock_unlock(&s->context->submit_lock);
    return rc;
}

static CUresult submit_in_current(CUstream handle, bool ptds, const struct work *w, bool sync)
{
    struct sim_context *ctx;
    struct sim_stream *s = NULL;
    struct point at;
    CUresult rc = stream_enter(handle, ptds, &ctx, &s);
    if (rc == CUDA_SUCCESS && sync)
        rc = capture_forbids_unsafe();
    if (rc == CUDA_SUCCESS && sync)
        rc = capture_forbids_stream(s);
    if (rc != CUDA_SUCCESS)
        return work_refuse(w, rc);
    rc = work_submit_stream(s, w, &at);
    return rc == CUDA_SUCCESS && sync ? point_wait(ctx, at) : rc;
}

CUresult work_submit(CUstream stream, bool ptds, const struct work *w)
{
    return submit_in_current(stream, ptds, w, false);
}

CUresult work_submit_sync(CUstream stream, bool ptds, const struct work *w)
{
    return submit_in_current(stream, ptds, w, true);
}

/* ---- contexts ---------------------------------------------------------------------------------- */

static CUresult device_context_make(struct sim_context *ctx)
{
    ctx->device_context = ctx->base ? ctx->base->device_context : 0;
    if (config_get()->null_mode || ctx->base)
        return CUDA_SUCCESS;
    device_lock(engine_device());
    ctx->device_context = device_context_open(engine_device(), (uint32_t)ctx->ordinal);
    device_unlock(engine_device());
    return ctx->device_context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The structure outlives the context, as the context's own does. */
static struct context_queues *queues_make(struct sim_context *ctx)
{
    if (!ctx->queues) {
        struct context_queues *q = calloc(1, sizeof *q);
        if (q)
            pthread_mutex_init(&q->lock, NULL);
        ctx->queues = q;
    }
    return ctx->queues;
}

CUresult context_open_queues(struct sim_context *ctx)
{
    CUresult rc = engine_start();
    if (rc == CUDA_SUCCESS && !queues_make(ctx))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS)
        rc = device_context_make(ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    return stream_create(ctx, STREAM_LEGACY, CU_STREAM_DEFAULT, 0, &queues_of(ctx)->legacy);
}

/* NULL when the list is empty but for streams that are on their way out. */
static struct sim_stream *stream_still_live(struct context_queues *q)
{
    pthread_mutex_lock(&q->lock);
    struct sim_stream *s = q->streams;
    while (s && !atomic_load(&s->handle.live))
        s = s->next;
    pthread_mutex_unlock(&q->lock);
    return s;
}

void context_close_queues(struct sim_context *ctx)
{
    struct sim_stream *s;
    context_wait_idle(ctx);
    pthread_mutex_lock(&own_lock);
    while ((s = stream_still_live(queues_of(ctx))) != NULL) {
        if (capture_active(s))
            capture_stream_gone(s);
        stream_destroy(s);
    }
    pthread_mutex_unlock(&own_lock);
    modules_close(ctx);
    if (config_get()->null_mode || engine_stopped() || ctx->base)
        return;
    device_lock(engine_device());
    device_context_close(engine_device(), ctx->device_context);
    device_advance(engine_device(), sim_now_ns());
    device_unlock(engine_device());
}
