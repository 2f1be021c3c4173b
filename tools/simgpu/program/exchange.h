/*
 * exchange.h - the kernel of examples/async_net that rings and waits by itself.
 */
#ifndef SIMGPU_EXCHANGE_H
#define SIMGPU_EXCHANGE_H

#include "tools/simgpu/face/sim.h"

enum { EXCHANGE_PACKED = 68 };

uint64_t exchange_step(struct work *w, uint64_t at_ns);

#endif
