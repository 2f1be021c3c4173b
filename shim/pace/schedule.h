/*
 * schedule.h - this process in front of the scheduler: its levels, and when its streams are active.
 */
#ifndef CUTIN_SHIM_PACE_SCHEDULE_H
#define CUTIN_SHIM_PACE_SCHEDULE_H

#include "shim/lookup/shim.h"

struct shim_stream;
struct shim_context;

/* Connects the process; done by the first context. Returns 0, or -errno: then nothing is scheduled
 * and every stream goes straight to the driver. Idempotent, thread safe. */
int schedule_open(void);
/* Level of a stream of CUDA priority `priority` in `ctx`. */
uint32_t schedule_level(const struct shim_context *ctx, int priority);
/* Lowest and highest level any stream of this process may have. */
uint32_t schedule_lowest(void);
uint32_t schedule_highest(void);

/* Do streams of this level wait in queues? Real-time ones go straight to the driver, unless the
 * process gives deadlines: then an earlier deadline of another one may hold them. */
bool schedule_queues(uint32_t level);

/*
 * `epoch` counts the calls of a stream; `complete` is the newest epoch whose work is known
 * complete.
 *
 * A stream above best effort is busy from its first stream-ordered call until its work is known
 * complete. A call looks at `busy` before it goes to the driver, and afterwards counts itself in
 * `epoch` and looks again. Whoever saw the stream complete clears `busy` if `epoch` is what it was
 * before, and looks at `epoch` again: so one of the two notices the other, and heals it.
 */
void schedule_begin(struct shim_stream *s);
bool schedule_busy(const struct shim_stream *s);
/* The call that began with the epoch `before` was made. Returns the epoch that stands for it, 0 if
 * other calls overlapped with it. */
uint64_t schedule_end(struct shim_stream *s, uint64_t before, bool kernel);
/* Everything that was submitted up to `epoch` is known complete; 0 says nothing. */
void schedule_complete(struct shim_stream *s, uint64_t epoch);
/* The stream has nothing to do but its last call, `epoch`, which needs no device. */
void schedule_last(struct shim_stream *s, uint64_t epoch);
/* If that is all, the stream is not busy any more: true. */
bool schedule_idle(struct shim_stream *s, uint64_t epoch);
/* All calls of the application are known complete: what the driver still finds in the stream is the
 * shim's own, a marker or a sample. */
bool schedule_all_complete(struct shim_stream *s);
/* How often a stream above best effort was seen complete. */
uint64_t schedule_progress(void);
/* The stream goes away. The caller ends its activity (client_idle) if it was busy: true. */
bool schedule_part(struct shim_stream *s);
/* The same, and nothing of it is at work. */
void schedule_forget(struct shim_stream *s);

#endif
