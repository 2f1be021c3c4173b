/*
 * query.c - the application asks or waits for a stream or a context.
 *
 * A synchronisation drains, waits in the shim, and then asks the driver for the true result. A
 * deferred error takes the place of any success.
 *
 * A signal handler may query, whatever its thread was doing. So a query waits for a lock only for a
 * bounded time. Without the lock, no more is known to be complete than the driver says.
 */
#include "common/clock.h"
#include "shim/lookup/each.h"
#include "shim/path/call.h"
#include "shim/path/drain.h"
#include "shim/pace/pace.h"
#include "shim/path/traced.h"

enum { PATIENCE_MS = 100, LOOK_US = 50 };

/* ---- query -------------------------------------------------------------------------------- */

/* True while the thread has a context's lock for a query, or is about to take it. */
static _Thread_local atomic_bool locked __attribute__((tls_model("initial-exec")));

/* The thread that has the lock may wait for one that this thread had when the handler came. */
static __attribute__((noinline)) bool query_lock_late(struct shim_context *ctx)
{
    for (uint64_t by = clock_ns() + PATIENCE_MS * NS_PER_MS; clock_ns() < by;) {
        clock_nap(LOOK_US * NS_PER_US);
        if (pthread_mutex_trylock(&ctx->lock) == 0)
            return true;
    }
    atomic_store_explicit(&locked, false, memory_order_relaxed);
    return false;
}

static inline bool query_lock(struct shim_context *ctx)
{
    if (unlikely(atomic_load_explicit(&locked, memory_order_relaxed)))
        return false;
    atomic_store_explicit(&locked, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    return likely(pthread_mutex_trylock(&ctx->lock) == 0) || query_lock_late(ctx);
}

static inline void query_unlock(struct shim_context *ctx)
{
    pthread_mutex_unlock(&ctx->lock);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&locked, false, memory_order_relaxed);
}

/* The legacy stream is done when the blocking ones are. */
static bool legacy_busy(struct shim_context *ctx)
{
    bool busy = false;
    if (!query_lock(ctx))
        return true;
    STOP(legacy_busy);
    for (struct shim_stream *s = ctx->streams; s && !busy; s = s->next)
        busy = s->q && s->kind != VHQ_NONBLOCKING && vhq_pending(s->q);
    query_unlock(ctx);
    return busy;
}

static bool followed(const struct shim_stream *s, const struct shim_stream *other)
{
    return s == other || (s->kind == VHQ_LEGACY && other->kind == VHQ_BLOCKING &&
                          atomic_load(&other->state) != STREAM_LEFT);
}

/* True if all calls of the streams that `s` follows are known complete. Lock held. */
static bool calls_complete(struct shim_stream *s, uint64_t *calls)
{
    bool all = true;
    *calls = 0;
    for (struct shim_stream *o = s->ctx->streams; o && all; o = o->next)
        if (followed(s, o)) {
            *calls += atomic_load(&o->epoch);
            all = schedule_all_complete(o);
        }
    return all;
}

/* True if a thread is in a call: what it submits may run already, and is counted when the call
 * ends. A stream without a queue is busy until then. */
static bool call_under_way(struct shim_stream *s)
{
    bool any = false;
    for (struct shim_stream *o = s->ctx->streams; o && !any; o = o->next)
        any = followed(s, o) && (o->q ? vhq_calling(o->q) : schedule_busy(o));
    return any && !MUTANT(calls_unseen);
}

/* True if the application was told that all its work is complete: a late marker must not unsay it.
 * All was complete at one moment if no call is under way, and none has ended since the count. */
static bool only_ours_left(struct shim_stream *s)
{
    struct shim_context *ctx = s->ctx;
    uint64_t before, after;
    if (atomic_load(&ctx->foreign) != atomic_load(&ctx->foreign_complete) ||
        (s->kind == VHQ_LEGACY && atomic_load(&ctx->gone) != atomic_load(&ctx->gone_complete)) ||
        MUTANT(marker_unsays) || !query_lock(ctx))
        return false;
    bool all = s->q && calls_complete(s, &before) && !call_under_way(s) &&
               calls_complete(s, &after) && before == after;
    query_unlock(ctx);
    return all;
}

/* Read before the driver is asked, and used when it said that all is complete. */
static uint64_t queue_sent(const struct shim_stream *s)
{
    return s->q && vhq_loose(s->q) ? vhq_sent(s->q) : 0;
}

/* The driver has said that all is complete, after these values were read. */
static inline __attribute__((always_inline)) void
stream_complete(struct shim_stream *s, uint64_t sent, uint32_t gone, uint64_t epoch)
{
    if (s->kind == VHQ_LEGACY)
        atomic_store(&s->ctx->gone_complete, gone);
    schedule_complete(s, epoch);
    if (!sent || atomic_load(&s->epoch) != epoch || !query_lock(s->ctx))
        return;
    STOP(queue_settle);
    if (s->q && atomic_load(&s->epoch) == epoch)
        vhq_note_complete(s->q, sent);
    query_unlock(s->ctx);
}

BOTH(cuStreamQuery, (CUstream, handle))
{
    handle = stream_normal(handle, ptds);
    struct shim_stream *s = thread_bypasses() ? NULL : stream_of(handle);
    if (!s || capture_active(s))
        return REAL(cuStreamQuery)(handle);
    /* Read before looking at what is buffered: what another thread buffers in between is not
     * complete. */
    uint64_t epoch = atomic_load(&s->epoch);
    bool ask = !s->q || MUTANT(stream_query_early);
    if (!ask && (s->kind == VHQ_LEGACY ? legacy_busy(s->ctx) : vhq_pending(s->q)))
        return context_answer(s->ctx, CUDA_ERROR_NOT_READY);
    STOP(stream_query);
    uint64_t sent = queue_sent(s);
    uint32_t gone = atomic_load(&s->ctx->gone);
    CUresult r = REAL(cuStreamQuery)(handle);
    if (MUTANT(stream_epoch_late))
        epoch = atomic_load(&s->epoch);
    if (r == CUDA_SUCCESS)
        stream_complete(s, sent, gone, epoch);
    else if (r == CUDA_ERROR_NOT_READY && only_ours_left(s))
        r = CUDA_SUCCESS;
    return context_answer(s->ctx, r);
}

/* ---- synchronise -------------------------------------------------------------------------- */

BOTH(cuStreamSynchronize, (CUstream, handle))
{
    const char *name = "cuStreamSynchronize";
    uint64_t from_ns = traced_from();
    handle = stream_normal(handle, ptds);
    struct shim_stream *s = thread_bypasses() ? NULL : stream_of(handle);
    bool captures = capture_any();
    if (!s || (captures && capture_active(s)))
        return traced_waited(name, from_ns, REAL(cuStreamSynchronize)(handle));
    uint64_t epoch = atomic_load(&s->epoch);
    if (!MUTANT(stream_sync_undrained))
        drain_sync_stream(s, thread_boosts(s));
    uint64_t sent = 0;
    if (s->q) {
        /* A queue is taken away under this lock. While this thread waited, another one may have
         * destroyed the stream or its context. The stream may then serve as another one by now, and
         * its epoch goes on. */
        pthread_mutex_lock(&s->ctx->lock);
        sent = queue_sent(s);
        pthread_mutex_unlock(&s->ctx->lock);
    }
    uint32_t gone = atomic_load(&s->ctx->gone);
    CUresult r;
    CAPTURE_LATER(captures, r, REAL(cuStreamSynchronize)(handle));
    if (r == CUDA_SUCCESS)
        stream_complete(s, sent, gone, epoch);
    return traced_waited(name, from_ns, context_answer(s->ctx, r));
}

/* What a stream had been given when the synchronisation began is known complete afterwards. If
 * there are more streams than fit here, the stream keeps it, for one synchronisation at a time. */
enum { SYNCED_STREAMS = 128 };
struct synced {
    struct shim_stream *stream[SYNCED_STREAMS], *more;
    uint64_t epoch[SYNCED_STREAMS];
    unsigned count;
};

static void synced_add(struct shim_context *ctx, void *user)
{
    struct synced *synced = user;
    pthread_mutex_lock(&ctx->lock);
    for (struct shim_stream *s = ctx->streams; s; s = s->next)
        if (schedule_all_complete(s)) {
            continue;
        } else if (synced->count < SYNCED_STREAMS) {
            synced->stream[synced->count] = s;
            synced->epoch[synced->count++] = atomic_load(&s->epoch);
        } else if (!atomic_exchange(&s->synced, true)) {
            s->synced_epoch = atomic_load(&s->epoch);
            s->synced_next = synced->more;
            synced->more = s;
        }
    pthread_mutex_unlock(&ctx->lock);
}

/* ---- a context in which a capture has begun meanwhile -------------------------------------- */

struct asked {
    CUresult result; /* the first that is not success */
    bool refused;    /* one of the streams cannot be asked for now */
};

static void ask_streams(struct shim_context *ctx, void *user)
{
    struct asked *asked = user;
    struct context_scope scope = context_push(ctx);
    pthread_mutex_lock(&ctx->lock);
    for (struct shim_stream *s = ctx->streams; s && asked->result == CUDA_SUCCESS; s = s->next) {
        s->asked++; /* it stays while the lock is not held */
        pthread_mutex_unlock(&ctx->lock);
        bool captures = false, nameable = mark_nameable(s);
        if (nameable)
            asked->result = capture_query(s, &captures);
        asked->refused |= !schedule_all_complete(s) && (nameable ? captures && s->kind == VHQ_LEGACY
                                                                 : !s->q || vhq_pending(s->q));
        pthread_mutex_lock(&ctx->lock);
        s->asked--;
    }
    pthread_mutex_unlock(&ctx->lock);
    context_pop(scope);
}

/* The driver would refuse to wait for the context, and spoil the capture. But the call came first,
 * so its streams are asked for until they are complete. True: they are, with the result `r`. */
static __attribute__((noinline)) bool synchronize_asking(struct shim_context *ctx, CUresult *r)
{
    struct asked asked;
    do {
        asked = (struct asked){CUDA_SUCCESS, false};
        context_each_kin(ctx, ask_streams, &asked);
        if (asked.result == CUDA_ERROR_NOT_READY)
            clock_nap(LOOK_US * NS_PER_US);
    } while (asked.result == CUDA_ERROR_NOT_READY && capture_any());
    *r = asked.result;
    return !asked.refused && asked.result != CUDA_ERROR_NOT_READY;
}

/* `v2`: by cuCtxSynchronize_v2, which names a context; NULL means the current one there, too. */
static CUresult synchronize_real(CUcontext handle, bool v2)
{
    return v2 ? REAL(cuCtxSynchronize_v2)(handle) : REAL(cuCtxSynchronize)();
}

static CUresult context_synchronize(CUcontext handle, bool v2)
{
    struct shim_context *ctx = thread_bypasses() ? NULL
                               : handle          ? context_find(handle)
                                                 : context_current_known();
    if (!ctx)
        return synchronize_real(handle, v2);
    struct synced synced;
    bool captures = capture_any();
    synced.count = 0;
    synced.more = NULL;
    uint32_t foreign = atomic_load(&ctx->foreign), gone = atomic_load(&ctx->gone);
    context_each_kin(ctx, synced_add, &synced);
    if (!MUTANT(context_sync_undrained))
        drain_sync_context(ctx);
    CUresult r;
    if (likely(!capture_came_later(captures)) || !synchronize_asking(ctx, &r))
        r = synchronize_real(handle, v2);
    bool complete = r == CUDA_SUCCESS;
    for (unsigned i = 0; i < synced.count && complete; i++)
        schedule_complete(synced.stream[i], synced.epoch[i]);
    for (struct shim_stream *next, *s = synced.more; s; s = next) {
        next = s->synced_next;
        if (complete)
            schedule_complete(s, s->synced_epoch);
        atomic_store(&s->synced, false);
    }
    if (complete) {
        atomic_store(&ctx->foreign_complete, foreign);
        atomic_store(&ctx->gone_complete, gone);
    }
    return context_answer(ctx, r);
}

EXPORT CUresult cuCtxSynchronize(void)
{
    uint64_t from_ns = traced_from();
    return traced_waited("cuCtxSynchronize", from_ns, context_synchronize(NULL, false));
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    uint64_t from_ns = traced_from();
    return traced_waited("cuCtxSynchronize", from_ns, context_synchronize(ctx, true));
}
