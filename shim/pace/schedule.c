/*
 * schedule.c - this process in front of the scheduler (see schedule.h).
 */
#include "shim/pace/schedule.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "scheduler/client/client.h"
#include "common/clock.h"
#include "shim/objects/context.h"
#include "shim/pace/look.h"
#include "shim/path/join.h"
#include "shim/pace/remote.h"
#include "shim/objects/stream.h"
#include "shim/path/traced.h"
#include "common/mutant.h"
#include "common/thread.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int state = 1; /* 1: not opened; else what client_open returned */

static _Atomic uint64_t progress;

static void schedule_log(int severity, const char *text)
{
    log_line(severity, "%s", text);
}

/* shim_stream.busy is odd while the stream is busy, and says how often it began or ended to be. A
 * stream that is forgotten stays so, whoever was looking at it: a count that it left behind would
 * hold the lower levels for ever. */
#define FORGOTTEN UINT64_MAX

static bool is_busy(uint64_t busy)
{
    return (busy & 1) && busy != FORGOTTEN;
}

static bool is_idle(uint64_t busy)
{
    return !(busy & 1);
}

static bool busy_change(struct shim_stream *s, uint64_t from, uint64_t to)
{
    return atomic_compare_exchange_strong(&s->busy, &from, to);
}

bool schedule_busy(const struct shim_stream *s)
{
    return is_busy(atomic_load_explicit(&s->busy, memory_order_relaxed));
}

/* Which thread puts its record first is open: the turn says which two belong together. */
static void say_cut(enum trace_kind kind, const struct shim_stream *s, uint64_t busy)
{
    if (trace_on())
        traced_cut(kind, s, busy / 2 + 1);
}

bool schedule_idle(struct shim_stream *s, uint64_t epoch)
{
    uint64_t busy = atomic_load(&s->busy);
    if (!s->tracked || atomic_load(&s->epoch) != epoch)
        return false;
    if (!is_busy(busy) || !busy_change(s, busy, busy + 1))
        return false;
    if (atomic_load(&s->epoch) != epoch && busy_change(s, busy + 1, busy))
        return false; /* a call came in between: it is as it was */
    atomic_fetch_add_explicit(&progress, 1, memory_order_relaxed);
    client_idle(s->ctx->gpu->index, s->level);
    say_cut(TRACE_CUT_OUT, s, busy);
    return true;
}

uint32_t schedule_lowest(void)
{
    return config_get()->stream_priority == STREAM_PRIORITY_FLAT ? client_level() : CUTIN_LEVEL_BE;
}

uint32_t schedule_highest(void)
{
    return client_level();
}

bool schedule_queues(uint32_t level)
{
    return level < CUTIN_LEVEL_RT || config_get()->deadline_ms;
}

/* Before the first thread of ours. */
static void schedule_cpus(const char *list)
{
    if (!list[0])
        return;
    if (thread_set_cpus(list) != 0)
        log_line(LOG_WARN,
                 "CUTIN_CPUS=%.64s is not a list of processors such as 0-3,8; using the process's",
                 list);
    else if (!thread_cpus_usable())
        log_line(LOG_WARN, "CUTIN_CPUS=%.64s: this process may use none of them; using its own",
                 list);
}

int schedule_open(void)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (now <= 0)
        return now;
    pthread_mutex_lock(&lock);
    now = atomic_load_explicit(&state, memory_order_relaxed);
    if (now > 0) {
        const struct config *cfg = config_get();
        traced_open();
        schedule_cpus(cfg->cpus);
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
                                       .look = look_dense,
                                       .remote = remote_take,
                                       .log = schedule_log};
        now = client_open(&client);
        if (now < 0)
            log_line(LOG_ERROR, "no scheduling: %s", strerror(-now));
        atomic_store_explicit(&state, now < 0 ? now : 0, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return now < 0 ? now : 0;
}

uint32_t schedule_level(const struct shim_context *ctx, int priority)
{
    uint32_t top = client_level();
    int least = ctx->priority_least, greatest = ctx->priority_greatest;
    if (config_get()->stream_priority != STREAM_PRIORITY_INHERIT || least == greatest)
        return top;
    /* CUDA: numerically lower is higher, 0 is the least; out-of-range values are clamped. */
    int steps = least - greatest;
    int above = least - priority;
    above = above < 0 ? 0 : above > steps ? steps : above;
    return (top * (uint32_t)above * 2 + (uint32_t)steps) / ((uint32_t)steps * 2);
}

/* Counted before it is busy: whoever finds it busy and complete takes the count away, which must be
 * there by then. */
static __attribute__((noinline)) void schedule_activate(struct shim_stream *s)
{
    uint64_t busy = atomic_load(&s->busy);
    client_active(s->ctx->gpu->index, s->level);
    for (uint64_t until = MUTANT(cut_in_slow) ? clock_ns() + 5000 : 0; until && clock_ns() < until;)
        ;
    while (is_idle(busy))
        if (atomic_compare_exchange_weak(&s->busy, &busy, busy + 1)) {
            say_cut(TRACE_CUT_IN, s, busy + 1);
            return;
        }
    client_idle(s->ctx->gpu->index, s->level);
}

void schedule_begin(struct shim_stream *s)
{
    if (unlikely(is_idle(atomic_load_explicit(&s->busy, memory_order_relaxed))))
        schedule_activate(s);
}

uint64_t schedule_end(struct shim_stream *s, uint64_t before, bool kernel)
{
    uint64_t step = kernel ? EPOCH_CALL + EPOCH_KERNEL : EPOCH_CALL;
    /* seq_cst with schedule_idle: either we see IDLE, or it sees our epoch. */
    uint64_t epoch = atomic_fetch_add(&s->epoch, step);
    if (s->tracked && unlikely(is_idle(atomic_load(&s->busy))))
        schedule_activate(s);
    return epoch == before ? epoch + step : 0;
}

void schedule_complete(struct shim_stream *s, uint64_t epoch)
{
    uint64_t known = atomic_load_explicit(&s->complete, memory_order_relaxed);
    bool newer = false;
    while ((int64_t)(epoch - known) > 0 &&
           !(newer = atomic_compare_exchange_weak(&s->complete, &known, epoch)))
        ;
    if (epoch && !MUTANT(hold_ends_by_look))
        schedule_idle(s, epoch);
    if (!newer && unlikely(atomic_load_explicit(&s->found, memory_order_relaxed) == epoch))
        atomic_store_explicit(&s->found, 0, memory_order_relaxed);
    /* What it waited for ends here at the latest, as each step makes some stream's `complete`
     * newer. */
    if (newer && unlikely(atomic_load_explicit(&s->joined, memory_order_relaxed)))
        join_carry(s, epoch);
}

void schedule_last(struct shim_stream *s, uint64_t epoch)
{
    schedule_complete(s, epoch - EPOCH_CALL);
    if (!MUTANT(hold_ends_by_look))
        schedule_idle(s, epoch);
}

bool schedule_all_complete(struct shim_stream *s)
{
    return atomic_load(&s->complete) == atomic_load(&s->epoch);
}

uint64_t schedule_progress(void)
{
    return atomic_load_explicit(&progress, memory_order_relaxed);
}

bool schedule_part(struct shim_stream *s)
{
    uint64_t busy = s->tracked ? atomic_exchange(&s->busy, FORGOTTEN) : FORGOTTEN;
    if (is_busy(busy))
        say_cut(TRACE_CUT_OUT, s, busy);
    return is_busy(busy);
}

void schedule_forget(struct shim_stream *s)
{
    if (schedule_part(s))
        client_idle(s->ctx->gpu->index, s->level);
}
