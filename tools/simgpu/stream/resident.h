/*
 * resident.h - resident kernels. Between two pieces of such a kernel the engine calls its step() on
 * the memory as it is then, and tells the timeline how long the next piece is. Only the engine
 * thread calls these functions, except resident_step.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_RESIDENT_H
#define CUTIN_TOOLS_SIMGPU_STREAM_RESIDENT_H

#include "tools/simgpu/device/device.h"
#include "tools/simgpu/stream/stream.h"

/* The time between two looks at what is waited for, after a wait of `waited_ns`. */
uint64_t poll_interval(uint64_t waited_ns);
/* Carries out one step, at a modelled instant. Returns how long the kernel runs until the next one,
 * in device time. RUN_OVER: it is over, and w->step is NULL. */
uint64_t resident_step(struct work *w, uint64_t at_ns);

/* Takes a handed resident kernel from the timeline, which is locked. */
void resident_take(struct item *item, struct op *op, uint64_t now);
/* Whether any were taken. */
bool residents_taken(void);
/* Carries out the steps of those that were taken. No lock is held. */
void residents_step(void);
/* Gives them back to the timeline, which is locked and not yet brought up to the present. */
void residents_resume(struct device *d);

#endif
