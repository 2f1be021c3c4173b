/*
 * resident.h - kernels that live: between two pieces of their running the engine calls their
 * step(), on the memory as it is then, and tells the timeline how long the next piece is. All but
 * resident_step are the engine thread's.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_RESIDENT_H
#define CUTIN_TOOLS_SIMGPU_STREAM_RESIDENT_H

#include "tools/simgpu/device/device.h"
#include "tools/simgpu/stream/stream.h"

/* From one look at what is waited for to the next one, when it was waited for so long. */
uint64_t poll_interval(uint64_t waited_ns);
/* One step, at a modelled instant. How long the kernel runs until the next one, as the device
 * counts time; STEP_OVER: it is over, and w->step NULL. */
uint64_t resident_step(struct work *w, uint64_t at_ns);

/* A handed resident kernel is taken from the timeline, which is locked. */
void resident_take(struct item *item, struct op *op, uint64_t now);
/* Have some been taken? */
bool residents_taken(void);
/* The steps of what was taken. Nothing is locked. */
void residents_step(void);
/* And back into the timeline, which is locked and not yet brought up to the present. */
void residents_go_on(struct device *d);

#endif
