/*
 * gpu_storage.cu - the kernels of gpu_storage for a real GPU. The simulated one knows them by name
 * and runs the same steps (tools/simgpu/program/storage.c).
 */
#include "storage.h"

enum { WARPS = 4 }; /* of a block: gpu_storage.c launches as many */

static __device__ struct storage_warp *warp_begin(struct storage_warp *of_block)
{
    struct storage_warp *w = &of_block[threadIdx.x / STORAGE_LANES];
    if (threadIdx.x % STORAGE_LANES == 0) {
        w->number = blockIdx.x * WARPS + threadIdx.x / STORAGE_LANES;
        w->phase = WARP_NEXT;
    }
    __syncwarp();
    return w;
}

extern "C" __global__ void storage_search(struct storage *s, uint32_t level)
{
    __shared__ struct storage_warp warps[WARPS];
    struct storage_warp *w = warp_begin(warps);
    while (!search_step(s, w, level))
        __syncwarp();
}

extern "C" __global__ void storage_flush(struct storage *s, uint32_t level)
{
    __shared__ struct storage_warp warps[WARPS];
    struct storage_warp *w = warp_begin(warps);
    while (!flush_step(s, w))
        __syncwarp();
}
