/*
 * attribute.h - device attributes of the simulated GPU, by CUdevice_attribute.
 */
#ifndef SIMGPU_ATTRIBUTE_H
#define SIMGPU_ATTRIBUTE_H

#include "tools/simgpu/sim.h"

enum { COMPUTE_MAJOR = 8, COMPUTE_MINOR = 0 };

/* 0 and the value, or -1 when CUDA has no such attribute. */
int attribute_get(int attribute, int ordinal, int *value);

#endif
