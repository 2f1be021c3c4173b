/*
 * stream.h - a CUDA stream as the shim sees it: its level, its vHQ, whether it is busy; and what
 * the shim knows of the thread that uses it.
 */
#ifndef CUTIN_SHIM_OBJECTS_STREAM_H
#define CUTIN_SHIM_OBJECTS_STREAM_H

#include "scheduler/client/client.h"
#include "shim/objects/context.h"

/* NULL means the legacy or the per-thread stream, depending on the variant of the call. */
static inline CUstream stream_normal(CUstream handle, bool ptds)
{
    return handle ? handle : ptds ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}
static inline bool stream_is_default(CUstream handle)
{
    return handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

/* The stream that the thread asked for last. Void once any stream has been unlinked since. */
extern _Atomic uint32_t stream_generation;
extern _Thread_local struct stream_last {
    CUstream handle;
    struct shim_stream *stream;
    uint32_t generation;
} stream_last __attribute__((tls_model("initial-exec")));
struct shim_stream *stream_find(CUstream handle, uint32_t now);
/* The stream of a normalised handle. NULL when the driver does not know it either, or nothing is
 * scheduled. A handle of unknown origin is adopted. */
static inline struct shim_stream *stream_of(CUstream handle)
{
    /* pairs with the release in stream_unlink, through the application's own order */
    uint32_t now = atomic_load_explicit(&stream_generation, memory_order_acquire);
    bool last = likely(stream_last.handle == handle && stream_last.generation == now);
    return last ? stream_last.stream : stream_find(handle, now);
}
/* As above, but never adopts: NULL when unknown. */
struct shim_stream *stream_known(CUstream handle);

/* A stream was created (in the current context, or by a green context). */
void stream_created(CUstream handle);
/* Makes a non-blocking stream of CUDA priority 0 known, at a given level. */
struct shim_stream *stream_add_at(struct shim_context *ctx, CUstream handle, uint32_t level);
/* Each thread that uses CU_STREAM_PER_THREAD has a stream of its own per context, freed when the
 * thread ends. It is never buffered: in the dispatcher's thread the handle would mean another
 * stream. True: `s` is the calling thread's own. */
bool stream_is_own(const struct shim_stream *s);
/* Removes the stream from the table. Its handle still names it in the calling thread, but may be
 * reused from now on. The stream may have work. */
void stream_leave(struct shim_stream *s);
/* Frees an unlinked stream whose vHQ is drained, at once or when what it has in flight has run.
 * Nothing more is submitted to it. Waits while a thread asks the driver about it. `marks`: the
 * calling thread may put a marker into it. */
void stream_end(struct shim_stream *s, bool marks);
/* Destroys streams whose deferred destroy is due, and frees those with nothing in flight. */
void stream_reap(struct shim_context *ctx);

/* The levels that streams of this process may have; the highest is client_level(). */
static inline uint32_t level_lowest(void)
{
    return config_get()->stream_priority == STREAM_PRIORITY_FLAT ? client_level() : CUTIN_LEVEL_BE;
}
/* Do streams of this level have queues? Real-time ones go straight to the driver, unless the
 * process has deadlines: then a process with an earlier deadline may hold them. */
static inline bool level_has_queues(uint32_t level)
{
    return level < CUTIN_LEVEL_RT || config_get()->deadline_ms;
}

extern _Atomic uint32_t levels_seen; /* bit mask of the levels that streams have had */
static inline bool levels_mixed(void)
{
    uint32_t mask = atomic_load_explicit(&levels_seen, memory_order_relaxed);
    return (mask & (mask - 1)) != 0;
}

/* ---- schedule.c: when streams count as active for the scheduler ------------------------------ */

/*
 * `epoch` counts the calls of a stream; `complete` is the newest epoch known complete.
 *
 * A stream above best effort is busy from its first stream-ordered call until its work is known
 * complete. A call looks at `busy` before it goes to the driver; afterwards it counts itself in
 * `epoch` and looks again. A thread that saw the stream complete clears `busy` if `epoch` has not
 * changed, and looks at `epoch` again. So one of the two notices the other and sets `busy` right.
 */
void schedule_activate(struct shim_stream *s);
static inline bool busy_is_idle(uint64_t busy)
{
    return !(busy & 1);
}
static inline void schedule_begin(struct shim_stream *s)
{
    if (unlikely(busy_is_idle(atomic_load_explicit(&s->busy, memory_order_relaxed))))
        schedule_activate(s);
}
bool schedule_busy(const struct shim_stream *s);
/* The call that began at epoch `before` was made. Returns its epoch; 0: other calls overlapped. */
static inline uint64_t schedule_end(struct shim_stream *s, uint64_t before, bool kernel)
{
    uint64_t step = kernel ? EPOCH_CALL + EPOCH_KERNEL : EPOCH_CALL;
    /* seq_cst with schedule_try_idle: either we see the stream idle, or it sees our epoch. */
    uint64_t epoch = atomic_fetch_add(&s->epoch, step);
    if (s->tracked && unlikely(busy_is_idle(atomic_load(&s->busy))))
        schedule_activate(s);
    return epoch == before ? epoch + step : 0;
}
/* Everything submitted up to `epoch` is known complete. 0 says nothing. */
void schedule_complete(struct shim_stream *s, uint64_t epoch);
/* All of the stream is complete but its last call, `epoch`, which needs no device. */
void schedule_complete_but_last(struct shim_stream *s, uint64_t epoch);
/* Ends the stream's activity if `epoch` is its latest call. True: it has. */
bool schedule_try_idle(struct shim_stream *s, uint64_t epoch);
/* All calls of the application are known complete: if the driver still finds something in the
 * stream, it is a marker or a sample of the shim. */
static inline bool schedule_all_complete(const struct shim_stream *s)
{
    return atomic_load(&s->complete) == atomic_load(&s->epoch);
}
/* How often a stream above best effort has become idle. */
extern _Atomic uint64_t schedule_progress;
/* The stream goes away. True: it was busy, and the caller ends its activity (client_work_end). */
bool schedule_detach(struct shim_stream *s);

/*
 * The records in other streams that a stream waited for are known complete along with it. A request
 * that runs in two streams ends with a wait of one for the other, and the application asks or waits
 * for that one alone. Without joins the other would count as busy until the next tick.
 *
 * The call of `s` with the epoch `at` waits for what `source` had been given up to `epoch`.
 * Real-time path: no lock. Of many sources of one stream some may be forgotten.
 */
void join_note(struct shim_stream *s, uint64_t at, struct shim_stream *source, uint64_t epoch);

/* ---- the calling thread -------------------------------------------------------------------- */

/* Not 0 while the thread runs a host function of the application. */
extern _Thread_local unsigned thread_in_callback __attribute__((tls_model("initial-exec")));
/* Level of the last stream it used. When it waits for a stream below that level, it boosts it. */
extern _Thread_local uint32_t thread_level __attribute__((tls_model("initial-exec")));
/* Level that the program wants for the thread's streams; -1: none. */
extern _Thread_local int thread_level_wanted __attribute__((tls_model("initial-exec")));

/* True: a wait of this thread boosts the stream. */
static inline bool thread_boosts(const struct shim_stream *s)
{
    return thread_level > s->level;
}

/* True where a wrapper must only call the driver: the shim is off, or the caller is a host function
 * (whose calls the driver judges), the dispatcher, or a profiler that the driver tells of a call of
 * the shim. */
static inline bool thread_bypasses(void)
{
    return unlikely(!atomic_load_explicit(&shim_life.engaged, memory_order_relaxed) ||
                    thread_in_callback || vhq_t_inside != 0);
}

#endif
