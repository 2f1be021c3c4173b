/*
 * submit.c - the way of a work into a stream: into its ring as the device's op, behind what it has
 * to follow, or into the graph of a capture. Past 1024 works the submitting thread waits.
 */
#include "tools/simgpu/stream/submit.h"
#include "tools/simgpu/device/timeline.h"
#include "tools/simgpu/stream/engine.h"
#include "tools/simgpu/stream/points.h"
#include "tools/simgpu/stream/resident.h"
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/stream/capture.h"

#include <sched.h>
#include <time.h>

/* How many SMs the blocks of a kernel take, by what one SM holds. */
static uint16_t kernel_sms(const struct work *w)
{
    const struct sim_compute *most = simconfig_compute();
    uint32_t per_sm = most->sm_blocks, sms = config_context_sms();
    uint32_t by_threads = w->threads ? most->sm_threads / w->threads : per_sm;
    uint32_t by_smem = w->smem ? most->block_smem / w->smem : per_sm;
    per_sm = by_threads < per_sm ? by_threads : per_sm;
    per_sm = by_smem < per_sm ? by_smem : per_sm;
    per_sm = per_sm ? per_sm : 1;
    uint64_t wanted = ((uint64_t)w->blocks + per_sm - 1) / per_sm;
    if (w->zero_sms)
        return 0;
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
    if (w->kind == WORK_COPY)
        op.engine = w->engine;
    if (w->step)
        op.flags = OP_RESIDENT;
    return op;
}

static CUresult work_refuse(const struct work *w, CUresult rc)
{
    struct work gone = *w;
    if (w->drop)
        w->drop(&gone);
    return rc;
}

/* Whether its hardware queue has no room. Device locked. */
static bool queue_full(const struct sim_stream *s)
{
    struct device *d = engine_device();
    uint64_t held = 0, most = (uint64_t)config_get()->depth;
    const struct device_stream *own = device_stream(d, atomic_load(&s->device_stream));
    if (!most || !s->queue)
        return false;
    for (uint32_t i = 0; i < d->shared->streams_used; i++) {
        const struct device_stream *other = &d->shared->streams[i];
        if (other->id && other->context == own->context && other->queue == own->queue)
            held += other->tail - other->reaped;
    }
    return held >= most;
}

/* Puts one op into the ring; 0: it is full. The engine then owns the item. Device locked. */
static uint64_t ring_put(struct sim_stream *s, const struct op *op, struct item *item)
{
    uint64_t seq = 0;
    if (!queue_full(s))
        seq = device_submit(engine_device(), atomic_load(&s->device_stream), op);
    if (!seq)
        return 0;
    s->items[seq % DEVICE_RING] = item;
    if (item)
        item->seq = seq;
    atomic_store(&s->submitted, seq);
    return seq;
}

/* The same, but waits for room, as the real driver blocks the thread past 1024 launches. 0: the
 * engine stops, or another thread has destroyed the stream and all its work is done. Called with
 * the device locked, and returns with it locked. */
static uint64_t ring_put_patiently(struct sim_stream *s, const struct op *op, struct item *item)
{
    uint64_t seq;
    while ((seq = ring_put(s, op, item)) == 0 && !engine_stopped() &&
           atomic_load(&s->device_stream)) {
        device_advance(engine_device(), sim_now_ns());
        bool shared = queue_full(s); /* it is not known whose work makes room first */
        device_unlock(engine_device());
        struct point tail = stream_tail(s);
        CUresult rc = CUDA_SUCCESS;
        driver_full_begin();
        if (shared)
            nanosleep(&(struct timespec){.tv_nsec = config_get()->poll_us * 1000L}, NULL);
        else
            rc = point_wait(NULL, (struct point){tail.stream, tail.seq + 1 - DEVICE_RING});
        driver_full_end();
        device_lock(engine_device());
        if (rc != CUDA_SUCCESS)
            return 0;
    }
    return seq;
}

/* If there are more dependencies than one op holds, empty ops in front of it hold them. */
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

static CUresult stream_enqueue(struct sim_stream *s, const struct work *w,
                               const struct points *after, struct point *out)
{
    uint64_t now = sim_now_ns();
    struct item *item = malloc(sizeof(*item) + w->blob_bytes);
    if (!item)
        return work_refuse(w, CUDA_ERROR_OUT_OF_MEMORY);
    item->work = *w;
    item->work.context = context_handle(s->context);
    item->work.stream = stream_handle(s);
    item->work.blob = w->blob_bytes ? item->blob : NULL;
    item->stream = s;
    if (w->blob_bytes)
        memcpy(item->blob, w->blob, w->blob_bytes);
    struct op op = op_of(w, now);
    item->work.cost_ns = op.cost_ns;
    device_lock(engine_device());
    /* Up to its clock the device has run without this command. So the command comes no earlier,
     * even if the calling thread was stopped between its look at the time and the lock. */
    uint64_t clock = engine_device()->shared->clock;
    now = now > clock ? now : clock;
    item->work.submit_ns = op.submit_ns = now;
    uint64_t seq = 0;
    if (dependencies_put(s, &op, after))
        seq = ring_put_patiently(s, &op, item);
    device_advance(engine_device(), now);
    device_unlock(engine_device());
    if (!seq) {
        free(item);
        return work_refuse(w, on_callback_thread() ? CUDA_ERROR_NOT_PERMITTED
                              : engine_stopped()   ? CUDA_ERROR_DEINITIALIZED
                                                   : CUDA_ERROR_INVALID_HANDLE);
    }
    if (out)
        *out = (struct point){atomic_load(&s->device_stream), seq};
    return CUDA_SUCCESS;
}

/* Null mode: the calling thread does the whole work now. */
static CUresult stream_run(struct sim_stream *s, const struct work *given, struct point *out)
{
    struct work w = *given;
    w.context = context_handle(s->context);
    w.stream = stream_handle(s);
    w.submit_ns = w.start_ns = w.end_ns = sim_now_ns();
    while (w.poll && !w.poll(&w))
        sched_yield();
    while (w.step && resident_step(&w, sim_now_ns()) != RUN_OVER)
        sched_yield();
    struct point at = {atomic_load(&s->device_stream), atomic_fetch_add(&s->submitted, 1) + 1};
    work_finish(&w, s, at.seq, false);
    atomic_fetch_add(&s->completed, 1);
    if (out)
        *out = at;
    return CUDA_SUCCESS;
}

static CUresult stream_accept_work(struct sim_stream *s, const struct work *w,
                                   const struct points *after, struct point *out)
{
    if (on_callback_thread())
        return work_refuse(w, CUDA_ERROR_NOT_PERMITTED);
    if (engine_stopped())
        return work_refuse(w, CUDA_ERROR_DEINITIALIZED);
    if (config_get()->null_mode)
        return stream_run(s, w, out);
    return stream_enqueue(s, w, after, out);
}

CUresult work_submit_raw(struct sim_stream *s, const struct work *w, const struct point *after,
                         size_t n, struct point *out)
{
    struct points set;
    set.count = 0;
    for (size_t i = 0; i < n; i++)
        points_add(&set, after[i]);
    return stream_accept_work(s, w, &set, out);
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
    return stream_accept_work(s, w, &set, out);
}

CUresult work_submit_behind(struct sim_stream *s, const struct work *w, struct point after,
                            struct point *out)
{
    if (capture_active(s)) {
        if (out)
            *out = (struct point){0, 0};
        CUresult added = capture_add(s, w);
        return added == CUDA_SUCCESS ? added : work_refuse(w, added);
    }
    /* No other thread's work comes between the works of a graph launch. */
    pthread_rwlock_rdlock(&s->context->submit_lock);
    CUresult rc = work_submit_locked(s, w, &after, after.stream != 0, out);
    pthread_rwlock_unlock(&s->context->submit_lock);
    return rc;
}

CUresult work_submit_stream(struct sim_stream *s, const struct work *w, struct point *out)
{
    return work_submit_behind(s, w, (struct point){0, 0}, out);
}

CUresult work_submit(CUstream handle, bool ptds, const struct work *w, bool sync)
{
    struct sim_context *ctx;
    struct sim_stream *s = NULL;
    struct point at;
    CUresult rc = stream_arg(handle, ptds, &ctx, &s);
    if (rc == CUDA_SUCCESS && sync)
        rc = capture_forbids_unsafe();
    if (rc == CUDA_SUCCESS && sync)
        rc = capture_forbids_stream(s);
    if (rc != CUDA_SUCCESS)
        return work_refuse(w, rc);
    rc = work_submit_stream(s, w, &at);
    return rc == CUDA_SUCCESS && sync ? point_wait(ctx, at) : rc;
}
