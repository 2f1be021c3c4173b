/*
 * pool.h - memory pools: stream-ordered allocation. The address is known when the call returns, and
 * the memory behind it is valid in stream order. The stream that freed a block may reuse it at
 * once. Others may do so when the free has been carried out, or, where the device has no other
 * memory, behind it. All functions are thread safe.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_POOL_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_POOL_H

#include "tools/simgpu/device/context.h"

struct sim_pool;

/* cuMemFree of a pool's block. Waits for nothing, as cuda.h says. CUDA_ERROR_INVALID_VALUE: not a
 * live block. */
CUresult pool_free_now(CUdeviceptr ptr);
/* Whether that device may touch the pool's memory. */
bool pool_reachable(const struct sim_pool *p, int ordinal);
/* Whether it was made for export. */
bool pool_shared(const struct sim_pool *p);
/* Whether the memory of this imported pool is in the file with this number. */
bool pool_imports(CUmemoryPool pool, uint64_t file_number);

#endif
