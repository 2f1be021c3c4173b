/*
 * gpu_device.h - what the shim needs to know of a device. The driver is asked once.
 */
#ifndef CUTIN_SHIM_OBJECTS_GPU_DEVICE_H
#define CUTIN_SHIM_OBJECTS_GPU_DEVICE_H

#include "shim/lookup/shim.h"

struct gpu_device {
    CUdevice handle;
    int index; /* in the scheduler's page; -1: not scheduled */
    uint8_t uuid[16];
    char name[88];
    uint32_t processors;  /* multiprocessors; 0: not known */
    uint32_t max_grid[3]; /* limits of a launch, for errors that the driver reports at once */
};

/* The current context's device; NULL: the driver does not tell, or too many. Thread safe. */
const struct gpu_device *gpu_device_current(void);
/* `otherwise`: what is returned if the driver does not tell. */
int gpu_device_attribute(CUdevice device, CUdevice_attribute which, int otherwise);
/* Number of devices that the process sees; 0 until one of them is known. */
extern _Atomic int gpu_device_count;

static inline bool gpu_device_several(void)
{
    return atomic_load_explicit(&gpu_device_count, memory_order_relaxed) > 1;
}

#endif
