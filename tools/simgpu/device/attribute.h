/*
 * attribute.h - device attributes of the simulated GPU, by CUdevice_attribute.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_ATTRIBUTE_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_ATTRIBUTE_H

#include "tools/simgpu/face/sim.h"

#define DEVICE_NAME "cutin simulated GPU"

/* 0 and the value, or -1 when CUDA has no such attribute. */
int attribute_get(int attribute, int ordinal, int *value);
/* The same; 0 where there is none. */
int attribute_of(int ordinal, int attribute);
/* The same SIMGPU_ID and ordinal give the same UUID in every process. */
void attribute_uuid(int ordinal, uint8_t uuid[16]);

#endif
