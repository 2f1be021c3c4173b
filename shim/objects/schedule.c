/*
 * schedule.c - when streams are active (see stream.h).
 */
#include "shim/objects/stream.h"

#include "common/clock.h"
#include "common/mutant.h"
#include "common/trace.h"

_Atomic uint64_t schedule_progress;

/* shim_stream.busy is odd while the stream is busy, and counts the changes. FORGOTTEN is final,
 * even if another thread is looking at the stream: activity that it left behind would hold the
 * lower levels for ever. */
#define FORGOTTEN UINT64_MAX

static bool is_busy(uint64_t busy)
{
    return (busy & 1) && busy != FORGOTTEN;
}

bool schedule_busy(const struct shim_stream *s)
{
    return is_busy(atomic_load_explicit(&s->busy, memory_order_relaxed));
}

/* Two threads may write their records in either order: the turn tells which two belong together. */
static __attribute__((noinline)) void cut_put(enum trace_kind kind, const struct shim_stream *s,
                                              uint64_t busy)
{
    struct trace_record r = {.kind = (uint16_t)kind, .level = (uint16_t)s->level, .stream = s->id};
    r.cut.device = s->ctx->gpu->index;
    r.cut.turn = busy / 2 + 1;
    trace_put(&r);
}

static void say_cut(enum trace_kind kind, const struct shim_stream *s, uint64_t busy)
{
    if (trace_on())
        cut_put(kind, s, busy);
}

bool schedule_try_idle(struct shim_stream *s, uint64_t epoch)
{
    uint64_t busy = atomic_load(&s->busy), idle = busy + 1;
    if (!s->tracked || atomic_load(&s->epoch) != epoch)
        return false;
    if (!is_busy(busy) || !atomic_compare_exchange_strong(&s->busy, &busy, idle))
        return false;
    if (atomic_load(&s->epoch) != epoch && atomic_compare_exchange_strong(&s->busy, &idle, busy))
        return false; /* a call came in between, so the stream is busy as before */
    atomic_fetch_add_explicit(&schedule_progress, 1, memory_order_relaxed);
    client_work_end(s->ctx->gpu->index, s->level);
    say_cut(TRACE_CUT_OUT, s, busy);
    return true;
}

/* The activity is counted before the stream is marked busy: a thread that finds it busy and
 * complete takes the count away, so the count must be there by then. */
void schedule_activate(struct shim_stream *s)
{
    uint64_t busy = atomic_load(&s->busy);
    client_work_begin(s->ctx->gpu->index, s->level);
    for (uint64_t until = MUTANT(cut_in_slow) ? clock_ns() + 5000 : 0; until && clock_ns() < until;)
        ;
    while (busy_is_idle(busy))
        if (atomic_compare_exchange_weak(&s->busy, &busy, busy + 1)) {
            say_cut(TRACE_CUT_IN, s, busy + 1);
            return;
        }
    client_work_end(s->ctx->gpu->index, s->level);
}

/* Threads may note, carry and overwrite joins at a time. A join is whole if its seal is computed
 * from its other fields. A thread that carries it breaks the seal. */
static uint64_t join_seal(uint64_t at, const struct shim_stream *source, uint64_t epoch)
{
    return at ^ (uint64_t)(uintptr_t)source ^
           epoch << 1; /* so that two equal epochs do not cancel */
}

void join_note(struct shim_stream *s, uint64_t at, struct shim_stream *source, uint64_t epoch)
{
    struct join *j = &s->join[source->id % JOINS];
    atomic_store_explicit(&j->seal, 0, memory_order_relaxed);
    atomic_store_explicit(&j->at, at, memory_order_release);
    atomic_store_explicit(&j->source, source, memory_order_release);
    atomic_store_explicit(&j->epoch, epoch, memory_order_release);
    atomic_store_explicit(&j->seal, join_seal(at, source, epoch), memory_order_release);
    atomic_store(&s->joined, true);
}

/* `s` has come to `known`. */
static __attribute__((noinline)) void join_carry(struct shim_stream *s, uint64_t known)
{
    bool left = false;
    if (!atomic_exchange(&s->joined, false))
        return;
    for (struct join *j = s->join; j < s->join + JOINS; j++) {
        uint64_t seal = atomic_load_explicit(&j->seal, memory_order_acquire);
        uint64_t epoch = atomic_load_explicit(&j->epoch, memory_order_acquire);
        struct shim_stream *source = atomic_load_explicit(&j->source, memory_order_acquire);
        uint64_t at = atomic_load_explicit(&j->at, memory_order_acquire);
        if (!seal || seal != join_seal(at, source, epoch))
            continue;
        if ((int64_t)(known - at) < 0)
            left = true;
        else if (atomic_compare_exchange_strong(&j->seal, &seal, 0))
            schedule_complete(source, epoch);
    }
    if (left)
        atomic_store(&s->joined, true);
}

void schedule_complete(struct shim_stream *s, uint64_t epoch)
{
    uint64_t known = atomic_load_explicit(&s->complete, memory_order_relaxed);
    bool newer = false;
    while ((int64_t)(epoch - known) > 0 &&
           !(newer = atomic_compare_exchange_weak(&s->complete, &known, epoch)))
        ;
    if (epoch && !MUTANT(hold_ends_by_look))
        schedule_try_idle(s, epoch);
    if (!newer && unlikely(atomic_load_explicit(&s->found, memory_order_relaxed) == epoch))
        atomic_store_explicit(&s->found, 0, memory_order_relaxed);
    /* The recursion ends, because each step makes the `complete` of some stream newer. */
    if (newer && unlikely(atomic_load_explicit(&s->joined, memory_order_relaxed)))
        join_carry(s, epoch);
}

void schedule_complete_but_last(struct shim_stream *s, uint64_t epoch)
{
    schedule_complete(s, epoch - EPOCH_CALL);
    if (!MUTANT(hold_ends_by_look))
        schedule_try_idle(s, epoch);
}

bool schedule_detach(struct shim_stream *s)
{
    uint64_t busy = s->tracked ? atomic_exchange(&s->busy, FORGOTTEN) : FORGOTTEN;
    if (is_busy(busy))
        say_cut(TRACE_CUT_OUT, s, busy);
    return is_busy(busy);
}
