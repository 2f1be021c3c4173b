/*
 * pool.h - memory pools: stream-ordered allocation. An address is known when the call returns; the
 * memory behind it is valid in stream order, and a freed block is reused at once by its own stream,
 * by others when its free has been carried out, or behind it where the device has no other memory.
 * All of it thread safe.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_POOL_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_POOL_H

#include "tools/simgpu/device/context.h"

struct sim_pool;

/* cuMemFree of a pool's block: waits for nothing, as cuda.h says. CUDA_ERROR_INVALID_VALUE: not a
 * live one. */
CUresult pool_free_now(CUdeviceptr ptr);
/* May that device touch its memory? */
bool pool_reaches(const struct sim_pool *p, int ordinal);
/* Was it made for export? */
bool pool_shared(const struct sim_pool *p);
/* The file that an imported pool's memory is in has this number. */
bool pool_imports(CUmemoryPool pool, uint64_t file_number);

#endif
