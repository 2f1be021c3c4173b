/*
 * devices.c - two GPUs in one process: what is freed, unloaded or unregistered while the other
 * GPU's context is current still waits for the work that uses it.
 */
#include "tests/hazards/hazard.h"

#include <sys/mman.h>

/* The second GPU. The globals that gpu_open sets are of the first one. */
static CUcontext there;
static CUmodule module_there;
static CUfunction mix_there;
static CUstream stream;
static CUdeviceptr x, y;

static void mix_launch(uint32_t a, uint32_t b)
{
    uint32_t n = N;
    void *params[] = {&x, &a, &b, &n};
    SAY(cuLaunchKernel(mix_there, N / 256, 1, 1, 256, 1, 1, 0, stream, params, NULL));
}

static void two_gpus(void)
{
    char *text = kernels_text();
    CUdevice second;
    setenv("SIMGPU_DEVICES", "2", 1);
    gpu_open();
    warm(stream_new(CU_STREAM_NON_BLOCKING));
    MUST(cuDeviceGet(&second, 1));
    MUST(cuDevicePrimaryCtxRetain(&there, second));
    MUST(cuCtxSetCurrent(there));
    MUST(cuModuleLoadData(&module_there, text));
    MUST(cuModuleGetFunction(&mix_there, module_there, "mix"));
    free(text);
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    y = buffer_new(0);
    mix_launch(1, 0);
    SAY(cuStreamSynchronize(stream));
}

/* Work that waits in the second GPU's stream uses x; the first GPU is current. */
static void held_there(void)
{
    two_gpus();
    hold(stream);
    mix_launch(5, 7);
    SAY(cuMemcpyDtoDAsync(y, x, BYTES, stream));
    buffered(stream);
    SAY(cuCtxSetCurrent(context));
}

static void done_there(void)
{
    SAY(cuCtxSetCurrent(there));
    release(stream);
    SAY(cuStreamSynchronize(stream));
    show("y", y);
}

/* x = x * a + b on the second GPU, between two such kernels on the first one. */
static CUgraphExec wide_new(CUdeviceptr here, CUgraphNode *beyond)
{
    uint32_t a = 3, b = 1, n = N;
    CUDA_KERNEL_NODE_PARAMS p = {.gridDimX = N / 256,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 256,
                                 .blockDimY = 1,
                                 .blockDimZ = 1};
    CUgraph graph;
    CUgraphNode first, last;
    CUgraphExec exec;
    MUST(cuGraphCreate(&graph, 0));
    p.func = mix;
    p.kernelParams = (void *[]){&here, &a, &b, &n};
    MUST(cuGraphAddKernelNode(&first, graph, NULL, 0, &p));
    p.func = mix_there;
    p.kernelParams = (void *[]){&x, &a, &b, &n};
    MUST(cuGraphAddKernelNode(beyond, graph, &first, 1, &p));
    p.func = mix;
    p.kernelParams = (void *[]){&here, &a, &b, &n};
    MUST(cuGraphAddKernelNode(&last, graph, beyond, 1, &p));
    MUST(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void wide_set(CUgraphExec exec, CUgraphNode node, uint32_t b)
{
    uint32_t a = 5, n = N;
    CUDA_KERNEL_NODE_PARAMS p = {.func = mix_there,
                                 .gridDimX = N / 256,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 256,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = (void *[]){&x, &a, &b, &n}};
    SAY(cuGraphExecKernelNodeSetParams(exec, node, &p));
}

HAZARD_RAW(graph_on_two_devices_keeps_its_order_on_both)
{
    CUgraphNode node;
    two_gpus();
    SAY(cuCtxSetCurrent(context));
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr here = buffer_new(2);
    CUgraphExec exec = wide_new(here, &node);
    CUevent done = event_new();
    for (uint32_t i = 0; i < 10; i++) {
        hold_ms = 3;
        hold(i % 2 ? s : stream);
        SAY(launch_mix(here, 7, i, s));
        SAY(cuGraphLaunch(exec, s));
        wide_set(exec, node, i);
        SAY(cuGraphLaunch(exec, s));
        SAY(cuEventRecord(done, s));
        SAY(cuStreamWaitEvent(stream, done, 0));
        SAY(cuMemcpyDtoDAsync(y, x, BYTES, stream));
        release(i % 2 ? s : stream);
    }
    SAY(cuGraphExecDestroy(exec));
    SAY(cuStreamSynchronize(stream));
    SAY(cuStreamSynchronize(s));
    show("here", here);
    SAY(cuCtxSetCurrent(there));
    show("y", y);
}

HAZARD_RAW(memory_of_another_device_is_freed_behind_its_launches)
{
    held_there();
    SAY(cuMemFree(x));
    done_there();
}

/* Access is judged by the context that is current in the call, not by the stream's. */
HAZARD_RAW(copy_from_a_pool_of_another_device_is_checked_at_the_call)
{
    CUdeviceptr far, here;
    two_gpus();
    SAY(cuMemAllocAsync(&far, BYTES, stream));
    SAY(cuMemsetD32Async(far, 9, N, stream));
    SAY(cuStreamSynchronize(stream));
    SAY(cuCtxSetCurrent(context));
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    here = buffer_new(2);
    SAY(launch_mix(here, 3, 1, s));
    hold_ms = 3;
    hold(s);
    SAY(launch_mix(here, 5, 2, s));
    buffered(s);
    SAY(cuMemcpyDtoDAsync(here, far, BYTES, s));
    SAY(launch_mix(here, 2, 3, s));
    SAY(cuCtxSetCurrent(there));
    SAY(cuMemcpyDtoDAsync(y, far, BYTES, s));
    SAY(cuCtxSetCurrent(context));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("here", here);
    SAY(cuCtxSetCurrent(there));
    show("y", y);
}

HAZARD_RAW(module_of_another_device_is_unloaded_behind_its_launches)
{
    held_there();
    SAY(cuModuleUnload(module_there));
    done_there();
}

HAZARD_RAW(pinned_memory_of_another_device_is_freed_behind_its_copies)
{
    two_gpus();
    uint32_t *host = pinned_new(9);
    hold(stream);
    mix_launch(5, 7);
    SAY(cuMemcpyHtoDAsync(y, host, BYTES, stream));
    buffered(stream);
    SAY(cuCtxSetCurrent(context));
    SAY(cuMemFreeHost(host));
    done_there();
}

/* ---- kernels of a library, which are of no device -------------------------------------------- */

enum { MUCH = 64 << 10 }; /* bytes of dynamic shared memory that need a raised limit */

static CUkernel kernel;
static CUstream here;
static CUdeviceptr z;

static void kernel_of_both(void)
{
    char *text = kernels_text();
    CUlibrary library;
    two_gpus();
    MUST(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetKernel(&kernel, library, "mix"));
    free(text);
    MUST(cuCtxSetCurrent(context));
    here = stream_new(CU_STREAM_NON_BLOCKING);
    z = buffer_new(3);
}

static void kernel_launch(CUdeviceptr at, unsigned int shared, CUstream s)
{
    uint32_t a = 5, b = 7, n = N;
    void *params[] = {&at, &a, &b, &n};
    SAY(cuLaunchKernel((CUfunction)kernel, N / 256, 1, 1, 256, 1, 1, shared, s, params, NULL));
}

static void allow_much(CUdevice on)
{
    int now = 0;
    SAY(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, MUCH, kernel, on));
    SAY(cuKernelGetAttribute(&now, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, on));
    printf("allowed: %d\n", now);
}

HAZARD_RAW(kernel_attribute_is_set_for_each_device)
{
    kernel_of_both();
    allow_much(0);
    kernel_launch(z, MUCH, here);
    MUST(cuCtxSetCurrent(there));
    allow_much(1);
    kernel_launch(x, MUCH, stream);
    SAY(cuStreamSynchronize(stream));
    show("x", x);
    allow_much(1);
    MUST(cuCtxSetCurrent(context));
    allow_much(0);
    show("z", z);
}

HAZARD_RAW(kernel_attribute_is_set_for_a_device_that_is_not_current)
{
    kernel_of_both();
    allow_much(0);
    kernel_launch(z, MUCH, here);
    allow_much(0);
    allow_much(1);
    MUST(cuStreamSynchronize(here));
    MUST(cuCtxSetCurrent(there));
    kernel_launch(x, MUCH, stream);
    SAY(cuStreamSynchronize(stream));
    show("x", x);
}

HAZARD_RAW(launch_that_one_device_accepts_is_refused_by_the_other)
{
    kernel_of_both();
    allow_much(0);
    for (int i = 0; i < 2; i++)
        kernel_launch(z, MUCH, here);
    MUST(cuStreamSynchronize(here)); /* show() does not wait for the stream */
    show("z", z);
    MUST(cuCtxSetCurrent(there));
    hold(stream);
    kernel_launch(x, MUCH, stream);
    kernel_launch(x, 0, stream);
    release(stream);
    SAY(cuStreamSynchronize(stream));
    show("x", x);
}

/* A kernel's attributes are also those of its functions. */
HAZARD_RAW(attributes_of_a_kernel_and_of_its_function_are_set_in_turn)
{
    CUfunction f;
    kernel_of_both();
    kernel_launch(z, 0, here);
    MUST(cuKernelGetFunction(&f, kernel));
    uint32_t a = 5, b = 7, n = N;
    void *params[] = {&z, &a, &b, &n};
    for (int i = 0; i < 3; i++) {
        SAY(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 10));
        allow_much(0);
        hold_ms = 3;
        hold(here);
        SAY(cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, MUCH, here, params, NULL));
        release(here);
        SAY(cuStreamSynchronize(here));
    }
    show("z", z);
}

/* ---- pinned memory that ends ----------------------------------------------------------------- */

static uint32_t *page;

static void page_write(uint32_t value)
{
    for (int i = 0; i < N; i++)
        page[i] = value;
}

/* The memory is copied once, so that the library has seen what kind it is. */
static void page_registered(void)
{
    page = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(page == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
    page_write(1);
    MUST(cuMemHostRegister(page, BYTES, CU_MEMHOSTREGISTER_PORTABLE));
    SAY(cuMemcpyHtoDAsync(x, page, BYTES, stream));
    SAY(cuStreamSynchronize(stream));
}

/* The memory is pageable now: the copy has read it when the call returns. */
static void page_is_pageable(void)
{
    page_write(6);
    hold(stream);
    SAY(launch_mix(y, 5, 7, stream));
    SAY(cuMemcpyHtoDAsync(x, page, BYTES, stream));
    page_write(0xdead);
    release(stream);
    SAY(cuStreamSynchronize(stream));
    show("x", x);
}

static void one_gpu(void)
{
    gpu_open();
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    y = buffer_new(0);
    warm(stream);
}

HAZARD_RAW(memory_unregistered_in_an_idle_context_is_pageable)
{
    CUcontext popped;
    one_gpu();
    page_registered();
    CUcontext idle = context_new();
    SAY(cuMemHostUnregister(page));
    SAY(cuCtxPopCurrent(&popped));
    page_is_pageable();
    SAY(cuCtxDestroy(idle));
}

HAZARD_RAW(memory_registered_in_a_destroyed_context_is_pageable)
{
    CUcontext popped;
    one_gpu();
    CUcontext other = context_new();
    CUstream of_other = stream_new(CU_STREAM_NON_BLOCKING), first = stream;
    CUdeviceptr kept = x;
    MUST(cuMemAlloc(&x, BYTES));
    stream = of_other;
    page_registered();
    SAY(cuCtxDestroy(other));
    SAY(cuCtxGetCurrent(&popped));
    SAY(cuCtxSetCurrent(context));
    x = kept;
    stream = first;
    page_is_pageable();
}
