/*
 * storage.h - the kernels of examples/gpu_storage, which live for as long as their storage takes.
 */
#ifndef CUTIN_TOOLS_SIMGPU_PROGRAM_STORAGE_H
#define CUTIN_TOOLS_SIMGPU_PROGRAM_STORAGE_H

#include "tools/simgpu/face/sim.h"

enum { STORAGE_PACKED = 12 };

uint64_t storage_search_step(struct work *w, uint64_t at_ns);
uint64_t storage_flush_step(struct work *w, uint64_t at_ns);

#endif
