/*
 * attribute.h - device attributes of the simulated GPU, by CUdevice_attribute.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_ATTRIBUTE_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_ATTRIBUTE_H

#include "tools/simgpu/face/sim.h"

#define DEVICE_NAME "cutin simulated GPU"

/* Returns 0 and the value, or -1 if CUDA has no such attribute. */
int attribute_get(int attribute, int ordinal, int *value);
/* The value itself; 0 if CUDA has no such attribute. */
int attribute_or_zero(int ordinal, int attribute);
/* One SIMGPU_ID and ordinal give one UUID, in every process. */
void attribute_uuid(int ordinal, uint8_t uuid[16]);

#endif
