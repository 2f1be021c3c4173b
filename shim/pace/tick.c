/*
 * tick.c - connects the client, whose thread asks the driver for completions that no call reports.
 *
 * Most programs say when they find their work complete, by a synchronisation, a query or a host
 * function. One that learns it from memory that the device writes says nothing, nor does one whose
 * work another process waits for. For these the driver is asked at each tick. After two ends in a
 * row that only a tick found it is asked every 150 us, then less and less often, until a second has
 * brought no such end.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "scheduler/client/client.h"
#include "shim/objects/late.h"
#include "shim/pace/gates.h"
#include "shim/pace/pace.h"
#include "shim/path/call.h"
#include "shim/path/external_wait.h"
#include "common/clock.h"
#include "common/thread.h"

/* Dense looks are so far apart at first, and later a sixteenth of how long the last call has run,
 * so that a hold outlasts its work by no more than that. They never take more than a sixteenth of a
 * processor. They end when the program has told of its work by itself for so long. */
#define DENSE_NS       UINT64_C(150000)
#define DENSE_QUIET_NS (1000 * NS_PER_MS)
enum { DENSE_PART = 16, DENSE_COST = 16 };
/* Between looks at held work to which the program adds nothing. */
#define BUFFERED_NS (50 * NS_PER_MS)

/* Only the client's thread uses these. */
static uint64_t dense_until_ns;
static bool fed;       /* a look has found a busy stream that was called since the look before */
static uint32_t stuck; /* stuck streams that this tick has counted so far */

/* ---- what streams leave behind --------------------------------------------------------------- */

/* Work in the driver, of streams above best effort that no handle names any more. It holds others
 * as long as it runs. */
struct departed {
    CUevent end; /* NULL: of a thread's own stream, which the legacy stream follows */
    uint32_t level;
    uint32_t ticks; /* for how many it has not ended */
    struct departed *next;
};

/* Keeps the stream's holds until its work is complete. Allocates; where it cannot, the hold
 * ends. */
static void departed_add(struct shim_stream *s)
{
    if (!s->tracked || !schedule_busy(s) || (s->q && vhq_pending(s->q)) || capture_any() ||
        MUTANT(departed_forgotten))
        return;
    struct departed *d = calloc(1, sizeof(*d));
    bool known = s->per_thread;
    if (d && !known) {
        struct context_scope scope = context_push(s->ctx);
        known = REAL(cuEventCreate)(&d->end, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
                REAL(cuEventRecord)(d->end, s->handle) == CUDA_SUCCESS;
        context_pop(scope);
    }
    if (!d || !known || !schedule_detach(s)) {
        if (d && d->end)
            REAL(cuEventDestroy_v2)(d->end);
        free(d);
        return;
    }
    d->level = s->level;
    pthread_mutex_lock(&s->ctx->lock);
    LL_PREPEND(s->ctx->departed, d);
    pthread_mutex_unlock(&s->ctx->lock);
}
STREAM_NOTE(STREAM_LEAVES, departed_add)

/* For how many ticks work that gets nowhere may still hold others (CUTIN_STUCK_MS). */
static uint32_t stuck_ticks(void)
{
    uint32_t ms = config_get()->stuck_ms;
    return ms == 0 ? UINT32_MAX : ms < CLIENT_TICK_MS ? 1 : ms / CLIENT_TICK_MS;
}

static bool departed_stuck(const struct departed *d)
{
    return d->ticks >= stuck_ticks();
}

static void departed_close_all(const struct shim_context *ctx, struct departed *all, bool alive)
{
    struct departed *d, *next;
    LL_FOREACH_SAFE(all, d, next)
    {
        if (!departed_stuck(d))
            client_work_end(ctx->gpu->index, d->level);
        if (d->end && alive)
            REAL(cuEventDestroy_v2)(d->end);
        free(d);
    }
}

/* Needs the context current. Counts those that are stuck, and so hold no process any more. No other
 * thread takes any away, so the driver is asked without the lock. */
static void departed_poll(struct shim_context *ctx, bool tick)
{
    struct departed *ended = NULL;
    pthread_mutex_lock(&ctx->lock);
    for (struct departed *d = ctx->departed, *next; d; d = next) {
        pthread_mutex_unlock(&ctx->lock);
        bool captures = false;
        CUresult r = d->end ? REAL(cuEventQuery)(d->end) : capture_query(ctx->legacy, &captures);
        bool over = r != CUDA_ERROR_NOT_READY && !captures;
        pthread_mutex_lock(&ctx->lock);
        next = d->next;
        if (over) {
            LL_DELETE(ctx->departed, d);
            LL_PREPEND(ended, d);
            continue;
        }
        if (tick && !departed_stuck(d) && ++d->ticks >= stuck_ticks())
            client_work_end(ctx->gpu->index, d->level);
        stuck += departed_stuck(d);
    }
    pthread_mutex_unlock(&ctx->lock);
    departed_close_all(ctx, ended, true);
}

static void departed_end(struct shim_context *ctx, bool alive)
{
    departed_close_all(ctx, ctx->departed, alive);
    ctx->departed = NULL;
}
CONTEXT_END(CONTEXT_ENDED, departed_end)

/* ---- streams --------------------------------------------------------------------------------- */

/* Only its own thread can ask for a per-thread stream. When that thread has made no call for so
 * many ticks, the legacy stream, which follows it, answers for it. */
enum { THREAD_QUIET = 10 };

static CUresult stream_ask(struct shim_stream *s, bool *captures)
{
    return capture_query(s->per_thread ? s->ctx->legacy : s, captures);
}

/* Asks the driver whether a busy stream is done, in the client's thread. No capture of the
 * application may notice: hence the relaxed mode (context_push) and no look at capturing
 * streams. */
static void stream_poll(struct shim_stream *s, bool tick)
{
    uint64_t epoch = atomic_load(&s->epoch);
    fed |= s->fed != epoch;
    s->fed = epoch;
    if (s->q && vhq_pending(s->q))
        return;
    if (tick) {
        uint64_t now = epoch + atomic_load(&s->complete); /* neither decreases */
        s->quiet = s->looked_calls == now ? s->quiet + 1 : 0;
        s->looked_calls = now;
        if (s->quiet < THREAD_QUIET && s->undeferred)
            return;
    }
    if (s->undeferred && !s->per_thread) { /* a green context's default stream cannot be asked */
        schedule_try_idle(s, epoch);
        return;
    }
    bool captures;
    CUresult r = stream_ask(s, &captures);
    if (captures)
        /* A capturing stream does nothing, and what it did before cannot be asked for. A lower
         * stream that is to join the capture must not wait for its end. */
        schedule_try_idle(s, epoch);
    else if (r == CUDA_SUCCESS && !s->per_thread) {
        /* If the program has not told of what an earlier look found, it neither asks nor waits for
         * its work, and only looks end its holds. */
        uint64_t before = atomic_exchange(&s->found, epoch);
        if (!schedule_try_idle(s, epoch))
            atomic_store(&s->found, 0);
        else if (before && !MUTANT(hold_ends_by_look))
            dense_until_ns = clock_ns() + DENSE_QUIET_NS;
        schedule_complete(s, epoch);
    } else if (r != CUDA_ERROR_NOT_READY)
        schedule_try_idle(s, epoch);
    else if (tick) {
        /* It may wait for work that it holds itself, and no call says so: a kernel that reads what
         * held work writes. The held work goes on until the stream is given something again. */
        if (s->quiet < stuck_ticks() || !schedule_try_idle(s, epoch))
            return;
        s->stuck = true;
        log_line(LOG_INFO,
                 "stream %u has completed nothing for %u ms and no longer holds other work", s->id,
                 config_get()->stuck_ms);
    }
}

/* Without a marker only the driver knows when work is complete. It is asked for a stream that was
 * given nothing for a tick. It is asked every tenth tick for a stream that only its own thread can
 * name, for which another one answers, and for one whose markers do not come: its context may have
 * failed. */
static bool untold_quiet(struct shim_stream *s)
{
    if (!s->q || !vhq_in_flight(s->q)) {
        s->sent_same_ticks = 0;
        return false;
    }
    uint64_t sent = vhq_sent(s->q);
    uint32_t apart = vhq_needs_query(s->q) && !s->undeferred ? 1 : THREAD_QUIET;
    s->sent_same_ticks = s->sent_at_tick == sent ? s->sent_same_ticks + 1 : 0;
    s->sent_at_tick = sent;
    return s->sent_same_ticks != 0 && s->sent_same_ticks % apart == 0;
}

/* The lock of the list is not held while the driver is asked, which may take long. Other threads
 * may create and destroy streams meanwhile, but not this one. */
static void streams_poll(struct shim_context *ctx, bool tick)
{
    pthread_mutex_lock(&ctx->lock);
    for (struct shim_stream *s = ctx->streams; s; s = s->next) {
        if (atomic_load(&s->state) != STREAM_LIVE)
            continue;
        bool busy = schedule_busy(s) && (tick || !s->undeferred), untold = tick && untold_quiet(s);
        if (!busy && !untold && !(tick && s->stuck))
            continue;
        s->asked++;
        pthread_mutex_unlock(&ctx->lock);
        if (busy)
            stream_poll(s, tick);
        if (tick && s->stuck) {
            /* It is stuck until it is given something, or is complete after all. */
            bool captures = false;
            s->stuck =
                !schedule_busy(s) && stream_ask(s, &captures) == CUDA_ERROR_NOT_READY && !captures;
            stuck += s->stuck;
        }
        if (untold) {
            /* A green context's default stream cannot be asked for, and counts as complete. */
            bool captures = false, own = s->undeferred && !s->per_thread;
            CUresult r = own ? CUDA_SUCCESS : stream_ask(s, &captures);
            if (r != CUDA_ERROR_NOT_READY && !captures)
                vhq_note_complete(s->q, s->sent_at_tick);
        }
        pthread_mutex_lock(&ctx->lock);
        s->asked--;
    }
    pthread_mutex_unlock(&ctx->lock);
}

/* While a gate is closed the driver is not asked: a thread that waits behind the gate may hold a
 * lock of the driver, and if this thread waited for that, the gate would never open. */
static void context_tick(struct shim_context *ctx, void *user)
{
    if (!context_poll_begin(ctx))
        return;
    if (ctx->set)
        vhq_set_tick(ctx->set);
    if (!gates_closed(ctx)) {
        struct context_scope scope = context_push(ctx);
        gates_update(ctx);
        streams_poll(ctx, true);
        departed_poll(ctx, true);
        late_reap(ctx, UINT32_MAX);
        estimate_collect(ctx);
        context_pop(scope);
        stream_reap(ctx);
    } else {
        gates_closed_tick(ctx);
    }
    counters_publish(ctx);
    context_poll_end(ctx);
}

static void context_dense(struct shim_context *ctx, void *user)
{
    if (!context_poll_begin(ctx))
        return;
    if (!gates_closed(ctx)) {
        struct context_scope scope = context_push(ctx);
        streams_poll(ctx, false);
        departed_poll(ctx, false);
        context_pop(scope);
    }
    context_poll_end(ctx);
}

/* While the least share is being paid, what was paid has to be known soon. */
static void context_share(struct shim_context *ctx, void *user)
{
    uint32_t open = client_share_open(ctx->gpu->index);
    if (!ctx->set || (!open && !ctx->share_open) || !context_poll_begin(ctx))
        return;
    ctx->share_open = open != 0;
    vhq_set_pay_share(ctx->set, open);
    counters_publish(ctx);
    context_poll_end(ctx);
}

static void look_tick(void *user)
{
    if (shim_bypassed())
        return;
    gates_open_stale();
    rivals_update();
    stuck = 0;
    context_each(context_tick, NULL);
    if (client_page())
        atomic_store_explicit(&client_page()->stuck, stuck, memory_order_relaxed);
    external_wait_poll();
}

/* For how long no tick would find anything. If nothing is in flight, what is buffered waits for
 * other processes, and no call reports their end. */
static void context_idle(struct shim_context *ctx, void *least_ns)
{
    uint64_t idle_ns = UINT64_MAX;
    struct vhq_stats stats = {0};
    if (ctx->set)
        vhq_set_stats(ctx->set, &stats);
    pthread_mutex_lock(&ctx->lock);
    /* No completion is reported any more of what a failed context has in flight. */
    bool flies = stats.in_flight_now && (!context_unusable(ctx) || MUTANT(failed_in_flight));
    if (ctx->departed || ctx->late || atomic_load(&ctx->reap) || flies)
        idle_ns = 0;
    for (struct shim_stream *s = ctx->streams; s && idle_ns; s = s->next) {
        if (schedule_busy(s) || s->stuck || atomic_load(&s->state) == STREAM_GONE ||
            (s->q && vhq_loose(s->q)))
            idle_ns = 0;
        else if (s->q && vhq_pending(s->q))
            idle_ns = BUFFERED_NS;
    }
    pthread_mutex_unlock(&ctx->lock);
    if (idle_ns < *(uint64_t *)least_ns)
        *(uint64_t *)least_ns = idle_ns;
}

static uint64_t look_idle(void *user)
{
    uint64_t least_ns = UINT64_MAX;
    if (shim_bypassed())
        return least_ns;
    context_each(context_idle, &least_ns);
    return least_ns && external_wait_pending() ? 0 : least_ns;
}

static uint64_t look_dense(void *user)
{
    static uint64_t since_ns, progress;
    uint64_t now = clock_ns(), next = DENSE_NS, cost;
    if (client_has_share() && !shim_bypassed())
        context_each(context_share, NULL);
    if (now >= dense_until_ns || shim_bypassed() || !client_may_hold())
        return 0;
    if (!client_is_active() ||
        atomic_load_explicit(&schedule_progress, memory_order_relaxed) != progress)
        since_ns = now;
    progress = atomic_load_explicit(&schedule_progress, memory_order_relaxed);
    if (!client_is_active())
        return next;
    fed = false;
    context_each(context_dense, NULL);
    if (fed)
        since_ns = now;
    if ((now - since_ns) / DENSE_PART > next)
        next = (now - since_ns) / DENSE_PART;
    cost = (clock_ns() - now) * DENSE_COST;
    return cost > next ? cost : next;
}

static void look_log(int severity, const char *text)
{
    log_line(severity, "%s", text);
}

static int look_state; /* what client_open returned */

static void look_begin(void)
{
    const struct config *cfg = config_get();
    const char *wrong = NULL;
    /* Before the library starts its first thread. */
    if (cfg->cpus[0] && thread_set_cpus(cfg->cpus) != 0)
        wrong = " is not a list of processors such as 0-3,8";
    else if (cfg->cpus[0] && !thread_cpus_usable())
        wrong = ": this process may use none of these processors";
    if (wrong)
        log_line(LOG_WARN, "CUTIN_CPUS=%.64s%s; using those of the process", cfg->cpus, wrong);
    bool flat = cfg->stream_priority == STREAM_PRIORITY_FLAT;
    struct client_config client = {.level = cfg->level,
                                   .lowest = flat ? cfg->level : CUTIN_LEVEL_BE,
                                   .weight = cfg->weight,
                                   .linger_us = MUTANT(hold_ends_late) ? 1000 : cfg->linger_us,
                                   .max_hold_ms = cfg->max_hold_ms,
                                   .deadline_ms = cfg->deadline_ms,
                                   .first_slot = page_first_slot((uint32_t)clock_ns()),
                                   .direct = !cfg->deadline_ms,
                                   .socket = cfg->socket[0] ? cfg->socket : NULL,
                                   .tick = look_tick,
                                   .idle = look_idle,
                                   .look = look_dense,
                                   .remote = remote_take,
                                   .log = look_log};
    look_state = client_open(&client);
    if (look_state < 0)
        log_line(LOG_ERROR, "scheduling off: %s", strerror(-look_state));
}

/* Connects the process, for its first context. Returns 0, or -errno: then nothing is scheduled and
 * every stream goes straight to the driver. */
static int look_open(struct shim_context *none)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_begin);
    return look_state;
}
CONTEXT_BEGIN(CONTEXT_WANTED, look_open)
