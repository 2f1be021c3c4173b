/*
 * points.c - points in streams, and sets of them: whether they are reached, and waits for them.
 */
#include "tools/simgpu/stream/points.h"
#include "tools/simgpu/stream/engine.h"
#include "tools/simgpu/stream/late.h"
#include "tools/simgpu/face/simconfig.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_STEP_NS = 100000000 };

bool point_foreign_pending(struct point p)
{
    return p.stream && !engine_stream(p.stream) && !config_get()->null_mode &&
           engine_device()->shared &&
           !device_point_done(engine_device(), (struct op_point){p.stream, (uint32_t)p.seq});
}

static bool point_passed(struct point p)
{
    struct sim_stream *s = p.stream ? engine_stream(p.stream) : NULL;
    return s ? atomic_load(&s->completed) >= p.seq : !point_foreign_pending(p);
}

/* A caller that learns that something is complete also sees what was written until then. */
static bool flush_if(bool done)
{
    if (done)
        late_flush(UINT64_MAX);
    return done;
}

bool point_done(struct point p)
{
    return flush_if(point_passed(p));
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, long timeout_ns)
{
    struct timespec t = {0, timeout_ns};
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
    errno = saved;
}

void stream_complete(struct sim_stream *s, uint64_t seq)
{
    /* First: a thread that sees this may destroy the stream, and the slot may then be another's. */
    device_complete(engine_device(), atomic_load(&s->device_stream), seq);
    atomic_store(&s->completed, seq);
    /* Pairs with point_wait, which sets what it wants before it looks at `completed`. */
    if (seq >= atomic_load(&s->wanted)) {
        atomic_store(&s->wanted, UINT64_MAX);
        atomic_fetch_add(&s->tick, 1);
        syscall(SYS_futex, &s->tick, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
    stream_retire_if_done(s);
}

/* Asks to be woken when the stream gets to `seq`. Other threads may want less or more. */
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

CUresult point_wait(struct sim_context *ctx, struct point p)
{
    struct sim_stream *s = p.stream ? engine_stream(p.stream) : NULL;
    if (point_done(p))
        return context_result(ctx);
    if (on_callback_thread())
        return CUDA_ERROR_NOT_PERMITTED;
    if (!s) { /* another process's works do not wake this process, so it polls */
        struct timespec step = {0, (long)config_get()->poll_us * 1000};
        while (point_foreign_pending(p) && !engine_stopped())
            nanosleep(&step, NULL);
    }
    while (s) {
        uint32_t seen = atomic_load(&s->tick);
        stream_want(s, p.seq);
        if (point_done(p) || engine_stopped())
            break;
        futex_wait(&s->tick, seen, WAIT_STEP_NS);
    }
    return point_done(p) ? context_result(ctx) : CUDA_ERROR_DEINITIALIZED;
}

/* Looks at the device itself: the head of the stream is past all that has ended. */
static bool device_passed(struct point p)
{
    uint64_t now = device_lock_now();
    const struct device_stream *s = device_stream(engine_device(), p.stream);
    bool passed = s->id == p.stream && s->head > p.seq;
    device_unlock_at(now);
    return passed;
}

bool point_done_by_device(struct point p)
{
    if (point_done(p))
        return true;
    if (config_get()->null_mode || engine_stopped() || !engine_stream(p.stream) ||
        !device_passed(p))
        return false;
    engine_kick();
    point_wait(NULL, p);
    return point_done(p);
}

struct point stream_tail(const struct sim_stream *s)
{
    return (struct point){atomic_load(&s->device_stream), atomic_load(&s->submitted)};
}

/* ---- sets of points -------------------------------------------------------------------------- */

void points_add(struct points *set, struct point p)
{
    if (!point_passed(p) && set->count < DEVICE_STREAMS)
        set->at[set->count++] = p;
}

void points_of_context(struct sim_context *ctx, bool blocking_only, const struct sim_stream *except,
                       struct points *set)
{
    struct context_queues *q = queues_of(ctx);
    SCOPED_LOCK(&q->lock);
    for (struct sim_stream *s = q->streams; s; s = s->next)
        if (s != except && (!blocking_only || stream_is_blocking(s)))
            points_add(set, stream_tail(s));
}

void points_of_legacy_order(struct sim_stream *s, struct points *set)
{
    if (s->role == STREAM_LEGACY)
        points_of_context(s->context, true, s, set);
    else if (stream_is_blocking(s))
        points_add(set, stream_tail(queues_of(s->context)->legacy));
}

CUresult points_wait(struct sim_context *ctx, const struct points *set)
{
    CUresult rc = context_result(ctx);
    for (size_t i = 0; i < set->count; i++) {
        CUresult waited = point_wait(ctx, set->at[i]);
        rc = rc == CUDA_SUCCESS ? waited : rc;
    }
    late_flush(UINT64_MAX);
    return rc;
}

static void points_of_stream(struct sim_stream *s, struct points *set)
{
    set->count = 0;
    points_add(set, stream_tail(s));
    if (s->role == STREAM_LEGACY)
        points_of_context(s->context, true, s, set);
}

CUresult stream_wait(struct sim_stream *s)
{
    struct points set;
    points_of_stream(s, &set);
    return points_wait(s->context, &set);
}

bool stream_idle(struct sim_stream *s)
{
    struct points set;
    points_of_stream(s, &set);
    return flush_if(set.count == 0);
}
