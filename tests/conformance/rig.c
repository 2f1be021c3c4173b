/*
 * rig.c - see rig.h.
 */
#include "rig.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct rig rig;

/* Each test is a process. It gets a simulated device of its own, so that tests do not interfere. No
 * effect on a GPU. */
__attribute__((constructor)) static void own_device(void)
{
    char id[32];
    snprintf(id, sizeof(id), "conformance-%d", (int)getpid());
    setenv("SIMGPU_ID", id, 0);
}

void rig_init(void)
{
    int count = 0;
    CUresult rc = cuInit(0);
    if (rc == CUDA_SUCCESS)
        rc = cuDeviceGetCount(&count);
    if (rc != CUDA_SUCCESS || count == 0)
        cr_skip_test("no CUDA device (error %d)", (int)rc);
    OK(cuDeviceGet(&rig.dev, 0));
}

/* Drivers of CUDA 12 have this version, too, but newer headers do not declare it. */
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);

CUresult rig_context(CUcontext *ctx)
{
    return cuCtxCreate_v2(ctx, 0, rig.dev);
}

const char *rig_kernels(void)
{
    const char *path = getenv("KERNELS_PTX");

    return path ? path : SOURCE_DIR "/examples/kernels.ptx";
}

void rig_open(void)
{
    rig_init();
    OK(rig_context(&rig.ctx));
    OK(cuModuleLoad(&rig.module, rig_kernels()));
    OK(cuModuleGetFunction(&rig.spin, rig.module, "spin"));
    OK(cuModuleGetFunction(&rig.fill, rig.module, "fill"));
    OK(cuModuleGetFunction(&rig.copy, rig.module, "copy"));
    OK(cuModuleGetFunction(&rig.axpy, rig.module, "axpy"));
    OK(cuModuleGetFunction(&rig.mix, rig.module, "mix"));
    OK(cuModuleGetFunction(&rig.mix_spin, rig.module, "mix_spin"));
}

void rig_open_newest(void)
{
    setenv("SIMGPU_DRIVER_VERSION", "13050", 1);
    rig_open();
}

void *rig_function(const char *name, int version)
{
    void *function = NULL;
    int driver;
    OK(cuDriverGetVersion(&driver));
    if (driver < version)
        cr_skip_test("driver %d has no %s, which came with %d", driver, name, version);
#if CUDA_VERSION >= 12000
    OK(cuGetProcAddress(name, &function, version, 0, NULL));
#else
    OK(cuGetProcAddress(name, &function, version, 0));
#endif
    return function;
}

int rig_attribute(CUdevice_attribute attribute)
{
    int value = 0;
    OK(cuDeviceGetAttribute(&value, attribute, rig.dev));
    return value;
}

CUstream stream_new(void)
{
    CUstream s;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

CUstream stream_new_blocking(void)
{
    CUstream s;
    OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    return s;
}

CUevent event_new(void)
{
    CUevent e;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    return e;
}

CUdeviceptr words_new(uint32_t value)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, BYTES));
    OK(cuMemsetD32(p, value, WORDS));
    OK(cuCtxSynchronize());
    return p;
}

void *pinned_new(void)
{
    void *p;
    OK(cuMemHostAlloc(&p, BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    memset(p, 0, BYTES);
    return p;
}

uint32_t word_of(CUdeviceptr p)
{
    uint32_t value = 0;
    OK(cuMemcpyDtoH(&value, p, sizeof(value)));
    return value;
}

void words_are(CUdeviceptr p, uint32_t value)
{
    static uint32_t host[WORDS];
    OK(cuMemcpyDtoH(host, p, BYTES));
    for (int i = 0; i < WORDS; i++)
        cr_assert_eq(host[i], value, "word %d is %u, not %u", i, host[i], value);
}

static CUresult launch(CUfunction f, unsigned int blocks, unsigned int threads, CUstream s,
                       void **params)
{
    return cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, s, params, NULL);
}

CUresult launch_spin(CUstream s, uint64_t ns)
{
    return launch(rig.spin, 1, 32, s, (void *[]){&ns});
}

CUresult launch_fill(CUstream s, CUdeviceptr p, uint32_t v)
{
    uint32_t n = WORDS;
    return launch(rig.fill, WORDS / 256, 256, s, (void *[]){&p, &v, &n});
}

CUresult launch_copy(CUstream s, CUdeviceptr dst, CUdeviceptr src)
{
    uint32_t n = WORDS;
    return launch(rig.copy, WORDS / 256, 256, s, (void *[]){&dst, &src, &n});
}

CUresult launch_mix(CUstream s, CUdeviceptr p, uint32_t a, uint32_t b)
{
    uint32_t n = WORDS;
    return launch(rig.mix, WORDS / 256, 256, s, (void *[]){&p, &a, &b, &n});
}

void rig_pause(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static void CUDA_CB gate_wait(void *arg)
{
    struct gate *g = arg;
    while (!atomic_load(&g->open))
        rig_pause();
}

void rig_open_words(_Atomic uint32_t **word, CUdeviceptr *address)
{
    rig_open();
    *word = pinned_new();
    OK(cuMemHostGetDevicePointer(address, (void *)*word, 0));
    if (cuStreamWriteValue32(stream_new(), *address, 0, 0) == CUDA_ERROR_NOT_SUPPORTED)
        cr_skip_test("no stream memory operations");
    OK(cuCtxSynchronize());
}

void gate_queue(struct gate *g, CUstream s)
{
    atomic_store(&g->open, 0);
    OK(cuLaunchHostFunc(s, gate_wait, g));
}

void gate_open(struct gate *g)
{
    atomic_store(&g->open, 1);
}

struct call {
    void (*fn)(void *);
    void *arg;
};

static void *call_in_context(void *arg)
{
    struct call *call = arg;
    OK(cuCtxSetCurrent(rig.ctx));
    call->fn(call->arg);
    return NULL;
}

void in_thread(void (*fn)(void *), void *arg)
{
    pthread_t thread;
    struct call call = {fn, arg};
    cr_assert_eq(pthread_create(&thread, NULL, call_in_context, &call), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

CUDA_KERNEL_NODE_PARAMS mix_params(struct mix_args *args, CUdeviceptr p, uint32_t a, uint32_t b)
{
    *args = (struct mix_args){.p = p, .a = a, .b = b, .n = WORDS};
    args->list[0] = &args->p;
    args->list[1] = &args->a;
    args->list[2] = &args->b;
    args->list[3] = &args->n;
    return (CUDA_KERNEL_NODE_PARAMS){.func = rig.mix,
                                     .gridDimX = WORDS / 256,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 256,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = args->list};
}

CUgraph graph_new(void)
{
    CUgraph g;
    OK(cuGraphCreate(&g, 0));
    return g;
}

CUgraphNode mix_node(CUgraph g, const CUgraphNode *after, size_t n, CUdeviceptr p, uint32_t a,
                     uint32_t b)
{
    struct mix_args args;
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS params = mix_params(&args, p, a, b);
    OK(cuGraphAddKernelNode(&node, g, after, n, &params));
    return node;
}

CUgraphExec exec_new(CUgraph g)
{
    CUgraphExec x;
    OK(cuGraphInstantiate(&x, g, 0));
    return x;
}
