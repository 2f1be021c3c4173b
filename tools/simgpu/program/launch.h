/*
 * launch.h - launches of kernels, by a call or by a graph's node.
 */
#ifndef CUTIN_TOOLS_SIMGPU_PROGRAM_LAUNCH_H
#define CUTIN_TOOLS_SIMGPU_PROGRAM_LAUNCH_H

#include "tools/simgpu/device/context.h"

enum { LAUNCH_PACKED_MAX = 32764 }; /* bytes of parameters, from CUDA 12.1 on */
/*
 * Check a launch as cuLaunchKernelEx does and build its work: blob = `packed` (room for
 * LAUNCH_PACKED_MAX), func, node_type, name, occupancy and modelled cost. config->hStream is not
 * looked at. For kernel nodes of graphs too.
 */
CUresult launch_prepare(struct sim_context *ctx, const CUlaunchConfig *config, CUfunction f,
                        void **params, void **extra, void *packed, struct work *w);

#endif
