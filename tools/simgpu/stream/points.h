/*
 * points.h - points in streams, which new work follows or a thread waits for, and sets of them.
 * Thread safe, as far as each set is one thread's.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_POINTS_H
#define CUTIN_TOOLS_SIMGPU_STREAM_POINTS_H

#include "tools/simgpu/stream/stream.h"

/* Has the work and its effect completed? Points of destroyed streams are complete. */
bool point_done(struct point p);
/* The same for who asks now and then: the device has got there, though the engine thread is late to
 * say so on a busy machine, which it then waits for. */
bool point_done_now(struct point p);
/* Is it another process's, and not complete? Of its sequence number the low 32 bits count. */
bool point_elsewhere(struct point p);
/* Wait for it. CUDA_SUCCESS, or the sticky error of ctx (which may be NULL). */
CUresult point_wait(struct sim_context *ctx, struct point p);

struct points {
    size_t count;
    struct point at[DEVICE_STREAMS];
};

/* One more, unless it is reached. */
void points_add(struct points *set, struct point p);
/* The tails of the context's streams; of those in legacy order only, but for `except`. */
void points_of_context(struct sim_context *ctx, bool blocking_only, const struct sim_stream *except,
                       struct points *set);
/* What legacy order puts before new work in s. */
void points_of_legacy_order(struct sim_stream *s, struct points *set);
/* Waits for all; the context's sticky error, or the first that a wait met. */
CUresult points_wait(struct sim_context *ctx, const struct points *set);

#endif
