/*
 * library.c - a library that uses CUDA, for dlclose.c: it is opened, works, and is closed with work
 * queued. Its own destructor still calls CUDA.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>

static CUstream stream;
static CUdeviceptr words;

__attribute__((visibility("default"))) int library_work(int destructor);

static int ends_with_cuda;

int library_work(int destructor)
{
    CUdevice device;
    CUcontext context;
    uint32_t first = 0;
    ends_with_cuda = destructor;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
        cuCtxSetCurrent(context) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
        cuMemAlloc(&words, 4096))
        return -1;
    for (uint32_t i = 0; i < 50; i++)
        if (cuMemsetD32Async(words, i, 1024, stream))
            return -2;
    if (cuMemcpyDtoHAsync(&first, words, 4, stream))
        return -3;
    return (int)first;
}

__attribute__((destructor)) static void library_end(void)
{
    if (ends_with_cuda)
        printf("destructor: %d %d\n", (int)cuStreamSynchronize(stream), (int)cuMemFree(words));
}
