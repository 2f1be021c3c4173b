/*
 * engine.h - the process's engine: a thread that brings the shared timeline up to the present, runs
 * the effects of completed works in the order of completion, polls memop waits, and hands host
 * functions to a second thread.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_ENGINE_H
#define CUTIN_TOOLS_SIMGPU_STREAM_ENGINE_H

#include "tools/simgpu/device/device.h"
#include "tools/simgpu/stream/stream.h"

/* CLOCK_MONOTONIC, the clock of the model. */
uint64_t sim_now_ns(void);
/* Returns `ns` after `start_ns`: what a call costs its thread in a real driver. */
void host_cost(uint64_t start_ns, uint64_t ns);
/* Start it, once per process, and join the shared devices. In null mode there is nothing to
 * start. */
CUresult engine_start(void);
/* A detached thread of the driver's own, which takes no signals. 0, or an error number. */
int engine_thread_start(void *(*main)(void *), void *arg);
/* Something that the engine polls has come true: it looks now. */
void engine_look(void);
/* True once the process is exiting: nothing completes any more. */
bool engine_stopped(void);
/* This process's hold on the devices; after engine_start. */
struct device *engine_device(void);

/* Locks the devices and brings them up to the present, which is returned; and, after a change made
 * then, unlocks them. */
uint64_t device_begin(void);
void device_end(uint64_t now);

/* Make up a device stream for s and let its points be found; false when there is none left. */
bool engine_lane_open(struct sim_stream *s);
void engine_lane_close(struct sim_stream *s);
/* The stream that a point names; NULL when it is gone. */
struct sim_stream *engine_lane(uint32_t device_stream);

/* Run the effect of the stream's `seq`-th work, which is over (unless `ran`), log it, give back
 * what it holds. */
void work_finish(struct work *w, struct sim_stream *s, uint64_t seq, bool ran);
/* Run a handed host function in the callback thread, then resolve it. */
void callback_push(struct item *item);

#endif
