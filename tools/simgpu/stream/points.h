/*
 * points.h - points in streams, which new work follows or a thread waits for, and sets of them.
 * Thread safe, as long as one thread uses each set.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_POINTS_H
#define CUTIN_TOOLS_SIMGPU_STREAM_POINTS_H

#include "tools/simgpu/stream/stream.h"

/* Whether the work and its effect have completed. Points of destroyed streams are complete. */
bool point_done(struct point p);
/* The same for a caller that asks only now and then. If the device has got there and the engine
 * thread is late on a busy machine, it waits for that thread. */
bool point_done_by_device(struct point p);
/* Whether it is another process's and not complete, by the low 32 bits of its sequence number. */
bool point_foreign_pending(struct point p);
/* Waits for the point. CUDA_SUCCESS, or the sticky error of ctx (which may be NULL). */
CUresult point_wait(struct sim_context *ctx, struct point p);

struct points {
    size_t count;
    struct point at[DEVICE_STREAMS];
};

/* Adds a point unless it is reached. */
void points_add(struct points *set, struct point p);
/* Adds the tails of the context's streams except `except`; `blocking_only`: in legacy order. */
void points_of_context(struct sim_context *ctx, bool blocking_only, const struct sim_stream *except,
                       struct points *set);
/* Adds the points that new work in s has to follow by legacy order. */
void points_of_legacy_order(struct sim_stream *s, struct points *set);
/* Waits for all. Returns the context's sticky error, or the first error of a wait. */
CUresult points_wait(struct sim_context *ctx, const struct points *set);

#endif
