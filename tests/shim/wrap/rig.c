/*
 * rig.c - see rig.h.
 */
#include "tests/shim/wrap/rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

CUdevice rig_device;
CUcontext rig_context;
CUmodule rig_module;
CUfunction rig_mix, rig_spin, rig_fill, rig_mix_spin;

static char *file_read(const char *path)
{
    FILE *f = fopen(path, "r");
    cr_assert(f, "%s", path);
    char *text = calloc(1, 1 << 20);
    cr_assert(text && fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

void rig_join_device(int pid)
{
    char id[32];
    snprintf(id, sizeof(id), "shim-%d", pid);
    setenv("SIMGPU_ID", id, 1);
}

void rig_open(void)
{
    rig_join_device((int)getpid());
    cr_assert(cutin_version(), "cutin is not preloaded");
    ok(cuInit(0));
    ok(cuDeviceGet(&rig_device, 0));
    ok(cuDevicePrimaryCtxRetain(&rig_context, rig_device));
    ok(cuCtxSetCurrent(rig_context));
    char *ptx = file_read(SOURCE_DIR "/examples/kernels.ptx");
    ok(cuModuleLoadData(&rig_module, ptx));
    free(ptx);
    ok(cuModuleGetFunction(&rig_mix, rig_module, "mix"));
    ok(cuModuleGetFunction(&rig_spin, rig_module, "spin"));
    ok(cuModuleGetFunction(&rig_fill, rig_module, "fill"));
    ok(cuModuleGetFunction(&rig_mix_spin, rig_module, "mix_spin"));
}

void rig_open_with(const char *name, const char *value)
{
    setenv(name, value, 1);
    rig_open();
}

void rig_close(void)
{
    cuDevicePrimaryCtxRelease(rig_device);
}

CUcontext rig_context_new(void)
{
    CUcontext ctx;
#if CUDA_VERSION >= 13000
    ok(cuCtxCreate(&ctx, NULL, 0, rig_device));
#else
    ok(cuCtxCreate(&ctx, 0, rig_device));
#endif
    return ctx;
}

CUstream rig_stream(void)
{
    CUstream s;
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

CUstream rig_stream_blocking(void)
{
    CUstream s;
    ok(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    return s;
}

CUstream rig_stream_first(void)
{
    CUstream s;
    int least, greatest;
    ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    ok(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest));
    return s;
}

bool rig_held(CUstream stream)
{
    struct cutin_stream_state state = {.size = sizeof(state)};
    ok(cutin_stream_state(stream, &state));
    return state.held != 0;
}

CUdeviceptr rig_buffer(uint32_t value)
{
    CUdeviceptr x;
    ok(cuMemAlloc(&x, N * sizeof(uint32_t)));
    ok(cuMemsetD32(x, value, N));
    ok(cuCtxSynchronize());
    return x;
}

CUresult rig_launch(CUdeviceptr x, uint32_t a, uint32_t b, CUstream stream)
{
    uint32_t n = N;
    void *params[] = {&x, &a, &b, &n};
    CUresult r = cuLaunchKernel(rig_mix, N / 256, 1, 1, 256, 1, 1, 0, stream, params, NULL);
    x = 0xdead; /* the caller may reuse them as soon as the call has returned */
    a = b = n = 0xdead;
    return r;
}

_Atomic uint32_t *rig_resident(CUstream stream)
{
    _Atomic uint32_t *word;
    CUfunction await_mix;
    CUdeviceptr x = rig_buffer(1), at;
    uint32_t a = 1, b = 0, n = N, rounds = 1;
    void *params[] = {&x, &a, &b, &n, &at, &rounds};
    ok(cuModuleGetFunction(&await_mix, rig_module, "await_mix"));
    ok(cuMemHostAlloc((void **)&word, sizeof(*word), CU_MEMHOSTALLOC_DEVICEMAP));
    ok(cuMemHostGetDevicePointer(&at, (void *)word, 0));
    atomic_store(word, 0);
    ok(cuLaunchKernel(await_mix, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    return word;
}

void rig_warm(CUstream stream)
{
    CUdeviceptr x = rig_buffer(1);
    ok(rig_launch(x, 1, 0, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuMemFree(x));
}

void rig_settle(CUstream stream)
{
    CUdeviceptr x = rig_buffer(1);
    uint32_t value = 1, n = N;
    void *params[] = {&x, &value, &n};
    for (int i = 0; i < 64; i++) {
        ok(cuLaunchKernel(rig_fill, N / 256, 1, 1, 256, 1, 1, 0, stream, params, NULL));
        ok(cuStreamSynchronize(stream));
    }
    ok(cuMemFree(x));
}

void rig_expect(CUdeviceptr x, uint32_t value, CUstream stream)
{
    static uint32_t host[N];
    if (stream)
        ok(cuStreamSynchronize(stream));
    else
        ok(cuCtxSynchronize());
    ok(cuMemcpyDtoH(host, x, sizeof(host)));
    for (int i = 0; i < N; i++)
        cr_assert_eq(host[i], value, "element %d is %u, not %u", i, host[i], value);
}

static void *thread_main(void *arg)
{
    struct rig_thread *t = arg;
    cuCtxSetCurrent(rig_context);
    t->body(t->user);
    atomic_store(&t->returned, true);
    return NULL;
}

void rig_start(struct rig_thread *t, void (*body)(void *), void *user)
{
    pthread_t id;
    t->body = body;
    t->user = user;
    atomic_store(&t->returned, false);
    cr_assert_eq(pthread_create(&id, NULL, thread_main, t), 0);
    t->id = id;
}

void rig_join(struct rig_thread *t)
{
    rig_until(&t->returned);
    pthread_join(t->id, NULL);
}

CUgraphExec rig_graph(CUdeviceptr x, uint32_t a, uint32_t b, int count)
{
    uint32_t n = N;
    void *params[] = {&x, &a, &b, &n};
    CUDA_KERNEL_NODE_PARAMS node = {.func = rig_mix,
                                    .gridDimX = N / 256,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 256,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .kernelParams = params};
    CUgraph graph;
    CUgraphNode added, after;
    CUgraphExec exec;
    ok(cuGraphCreate(&graph, 0));
    for (int i = 0; i < count; i++, after = added)
        ok(cuGraphAddKernelNode(&added, graph, &after, i > 0, &node));
    ok(cuGraphInstantiate(&exec, graph, 0));
    ok(cuGraphDestroy(graph));
    return exec;
}

void rig_nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

uint64_t rig_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int rig_patience(void)
{
    const char *set = getenv("RIG_PATIENCE_MS");
    return set ? atoi(set) : 20000;
}

void rig_blocked(struct rig_thread *t)
{
    for (int i = 0; i < 20; i++)
        rig_nap();
    cr_assert(!atomic_load(&t->returned), "the call returned while its stream was held");
}

void rig_until(_Atomic bool *flag)
{
    for (int i = 0; i < 200000 && !atomic_load(flag); i++)
        rig_nap();
    cr_assert(atomic_load(flag), "nothing happened for 200 s");
}

void rig_until_open(CUstream stream)
{
    for (int i = 0; i < 200000 && rig_held(stream); i++)
        rig_nap();
    cr_assert(!rig_held(stream), "held for 200 s");
}
