/*
 * group.h - a context's channel group, as the resource manager handles it: put it on the run list
 * or take it off, set its time slice, take it off the device at any instant. All are called with
 * the lock, at `now`, after the timeline was advanced to `now`. Advance afterwards.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_GROUP_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_GROUP_H

#include "tools/simgpu/device/shared.h"

/* Off: what runs of the group stops where it is, and the GPU is free `cost_ns` later. */
void device_group_schedule(struct device *d, uint32_t context, bool on, uint64_t now,
                           uint64_t cost_ns);
/* 0: the device's slice again. */
void device_group_timeslice(struct device *d, uint32_t context, uint64_t slice_ns);
/* If the group has the GPU, its slice ends. */
void device_group_preempt(struct device *d, uint32_t context, uint64_t now, uint64_t cost_ns);

#endif
