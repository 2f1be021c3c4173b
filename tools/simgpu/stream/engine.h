/*
 * engine.h - the process's engine: a thread that brings the shared timeline up to the present, runs
 * the effects of completed works in the order of completion, polls memop waits, and hands host
 * functions to a second thread.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_ENGINE_H
#define CUTIN_TOOLS_SIMGPU_STREAM_ENGINE_H

#include "tools/simgpu/device/device.h"
#include "tools/simgpu/stream/stream.h"

/* CLOCK_MONOTONIC, the clock of the model, in nanoseconds. */
uint64_t sim_now_ns(void);
/* Returns `ns` after `start_ns`, the time that the call costs its thread in a real driver. */
void host_spend(uint64_t start_ns, uint64_t ns);
/* Starts the engine, once per process, and joins the shared devices. In null mode it starts
 * nothing. */
CUresult engine_start(void);
/* Starts a detached thread of the driver, which takes no signals. 0, or an error number. */
int engine_thread_start(void *(*main)(void *), void *arg);
/* Something that the engine polls has come true, so it has to look now. */
void engine_kick(void);
/* True once the process is exiting: nothing completes any more. */
bool engine_stopped(void);
/* The devices, as this process has joined them. Call it after engine_start. */
struct device *engine_device(void);

/* device_lock_now locks the devices, advances them to the present and returns that time.
 * device_unlock_at, after a change made at that time, unlocks them. */
uint64_t device_lock_now(void);
void device_unlock_at(uint64_t now);

/* Makes a device stream for s, and makes its points findable. False if there is none left. */
bool engine_stream_open(struct sim_stream *s);
void engine_stream_close(struct sim_stream *s);
/* The stream that a point names; NULL if it is gone. */
struct sim_stream *engine_stream(uint32_t device_stream);

/* Ends the stream's work number `seq`: runs its effect (unless `ran`), logs it, and releases what
 * it holds. */
void work_finish(struct work *w, struct sim_stream *s, uint64_t seq, bool ran);
/* Has the callback thread run a handed host function, and then resolve it. */
void callback_push(struct item *item);

#endif
