/*
 * memop.h - stream memory operations.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_MEMOP_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_MEMOP_H

#include "tools/simgpu/face/sim.h"

/* The work of one memory operation, checked as cuStreamBatchMemOp does; blob points to `op`. */
CUresult memop_prepare(const CUstreamBatchMemOpParams *op, struct work *w);

#endif
