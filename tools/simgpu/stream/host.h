/*
 * host.h - host functions in streams.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_HOST_H
#define CUTIN_TOOLS_SIMGPU_STREAM_HOST_H

#include "tools/simgpu/face/sim.h"

/* The work of a host function; CUDA_ERROR_INVALID_VALUE without one. Thread safe. */
CUresult host_prepare(CUhostFn fn, void *data, struct work *w);

#endif
