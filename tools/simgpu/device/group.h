/*
 * group.h - a context's channel group, as the resource manager handles it: on the run list or off
 * it, its time slice, and off the device at any instant. All locked, at `now`, up to which the
 * timeline was brought before; advance afterwards.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_GROUP_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_GROUP_H

#include "tools/simgpu/device/shared.h"

/* Off: what runs of it stops where it is, and the GPU is free `cost_ns` later. */
void device_group_schedule(struct device *d, uint32_t context, bool on, uint64_t now,
                           uint64_t cost_ns);
/* 0: the device's own again. */
void device_group_timeslice(struct device *d, uint32_t context, uint64_t slice_ns);
/* If it has the GPU, its slice is over. */
void device_group_preempt(struct device *d, uint32_t context, uint64_t now, uint64_t cost_ns);

#endif
