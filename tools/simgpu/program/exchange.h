/*
 * exchange.h - the kernel of examples/async_net that rings and waits by itself.
 */
#ifndef CUTIN_TOOLS_SIMGPU_PROGRAM_EXCHANGE_H
#define CUTIN_TOOLS_SIMGPU_PROGRAM_EXCHANGE_H

#include "tools/simgpu/face/sim.h"

enum { EXCHANGE_PACKED = 68 };

uint64_t exchange_step(struct work *w, uint64_t at_ns);

#endif
