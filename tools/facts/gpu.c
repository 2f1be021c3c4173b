/*
 * gpu.c - see gpu.h.
 */
#include "gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "kernels_ptx.h"

struct gpu gpu;

const char *gpu_error(CUresult result)
{
    const char *name = NULL;

    if (result != CUDA_SUCCESS && gpu.cuGetErrorName)
        gpu.cuGetErrorName(result, &name);
    return result == CUDA_SUCCESS ? "success" : name ? name : "an unknown error";
}

void gpu_check(CUresult result, const char *call)
{
    if (result != CUDA_SUCCESS)
        fact_fail("%s: %s (%d)", call, gpu_error(result), (int)result);
}

static void *resolve(const char *name)
{
    void *function = dlsym(gpu.library, name);

    if (!function)
        fact_fail("libcuda.so.1 has no %s: a driver of CUDA 12.0 or newer is needed", name);
    return function;
}

void gpu_load(void)
{
    char why[256];
    int rc = driver_load(&gpu.driver, &gpu.library, why, sizeof(why));

    if (rc == -ENOENT)
        fact_skip("%s", why);
    if (rc != 0)
        fact_fail("%s", why);
    *(void **)&gpu.cuCtxCreate_v2 = resolve("cuCtxCreate_v2");
    *(void **)&gpu.cuEventElapsedTime_v1 = resolve("cuEventElapsedTime");
}

void gpu_init(void)
{
    const char *text = NULL, *ordinal = getenv("FACT_DEVICE");
    CUresult result;

    gpu_load();
    result = gpu.cuInit(0);
    if (result != CUDA_SUCCESS && gpu.cuGetErrorString(result, &text) == CUDA_SUCCESS)
        fact_skip("cuInit: %s (%d)", text, (int)result);
    gpu_check(result, "cuInit");
    CU(cuDriverGetVersion, &gpu.version);
    if (gpu.cuDeviceGet(&gpu.device, ordinal ? atoi(ordinal) : 0) != CUDA_SUCCESS)
        fact_skip("no device %s", ordinal ? ordinal : "0");
}

int gpu_attribute(CUdevice_attribute attribute)
{
    int value = -1;

    return gpu.cuDeviceGetAttribute(&value, attribute, gpu.device) == CUDA_SUCCESS ? value : -1;
}

enum { THREADS = 256, WARM_UP_US = 20 };

void gpu_open(void)
{
    gpu_init();
    gpu.full =
        (unsigned int)(gpu_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *
                       gpu_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / THREADS);
    CU(cuDevicePrimaryCtxRetain, &gpu.context, gpu.device);
    CU(cuCtxSetCurrent, gpu.context);
    CU(cuModuleLoadData, &gpu.module, kernels_ptx);
    CU(cuModuleGetFunction, &gpu.spin, gpu.module, "spin");
    CU(cuModuleGetFunction, &gpu.mix, gpu.module, "mix");
    /* The first launch loads the kernel, which should not be measured. */
    gpu_check(gpu_spin(NULL, gpu.full, WARM_UP_US), "the first launch");
    gpu_check(gpu.cuCtxSynchronize(), "cuCtxSynchronize");
}

CUstream stream_new(void)
{
    CUstream s;

    CU(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    return s;
}

CUresult gpu_spin(CUstream s, unsigned int blocks, double us)
{
    uint64_t ns = (uint64_t)(us * 1000);

    return gpu.cuLaunchKernel(gpu.spin, blocks, 1, 1, THREADS, 1, 1, 0, s, (void *[]){&ns}, NULL);
}

/* ---- words ----------------------------------------------------------------------------------- */

enum { LINE = 128, PAGE = 4096 };

struct word word_new(void)
{
    static char *page;
    static size_t used = PAGE;
    struct word w;

    if (used == PAGE) {
        CU(cuMemHostAlloc, (void **)&page, PAGE,
           CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
        memset(page, 0, PAGE);
        used = 0;
    }
    w.host = (_Atomic uint32_t *)(void *)(page + used);
    used += LINE;
    CU(cuMemHostGetDevicePointer, &w.device, (void *)w.host, 0);
    return w;
}

bool word_wait(struct word w, uint32_t value, unsigned int ms)
{
    uint64_t end_ns = clock_ns() + ms * UINT64_C(1000000);

    while (word_get(w) != value) {
        if (clock_ns() > end_ns)
            return word_get(w) == value;
        sched_yield(); /* a simulated device needs a processor, too */
    }
    return true;
}

CUresult gate_enqueue(CUstream s, CUdeviceptr word)
{
    return gpu.cuStreamWaitValue32(s, word, 0, CU_STREAM_WAIT_VALUE_EQ);
}

CUresult mark_enqueue(CUstream s, CUdeviceptr word, uint32_t value)
{
    return gpu.cuStreamWriteValue32(s, word, value, 0);
}

void batch_fill(CUstreamBatchMemOpParams ops[2], CUdeviceptr mark, uint32_t value, CUdeviceptr gate)
{
    memset(ops, 0, 2 * sizeof(ops[0]));
    ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = mark;
    ops[0].writeValue.value = value;
    ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[1].waitValue.address = gate;
    ops[1].waitValue.value = 0;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
}

CUresult batch_enqueue(CUstream s, CUdeviceptr mark, uint32_t value, CUdeviceptr gate)
{
    CUstreamBatchMemOpParams ops[2];

    batch_fill(ops, mark, value, gate);
    return gpu.cuStreamBatchMemOp(s, 2, ops, 0);
}

void need_memops(void)
{
    struct word w = word_new();
    CUstream s = stream_new();
    CUresult result = mark_enqueue(s, w.device, 1);

    if (result != CUDA_SUCCESS)
        fact_skip("no stream memory operations: %s", gpu_error(result));
    CU(cuStreamSynchronize, s);
    CU(cuStreamDestroy, s);
}
