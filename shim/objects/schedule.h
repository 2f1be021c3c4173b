/*
 * schedule.h - when streams count as active for the scheduler.
 */
#ifndef CUTIN_SHIM_OBJECTS_SCHEDULE_H
#define CUTIN_SHIM_OBJECTS_SCHEDULE_H

#include "scheduler/client/client.h"
#include "shim/objects/object.h"

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

#endif
