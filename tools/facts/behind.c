/*
 * behind.c - what other calls of a process do while one of its streams waits at a closed gate: do
 * they return? Or does the driver wait for the stream, and so for the thread that opens the gate?
 */
#include "gpu.h"

#include <pthread.h>
#include <stdlib.h>

#include "kernels_ptx.h"

enum {
    RETURNS_MS = 500, /* a call that takes longer waits, or the machine is busy */
    OPENED_MS = 20000,
    FULL_MS = 2000, /* even on a busy machine two launches in a row are never that far apart */
    BYTES = 1 << 20,
    ALIGNMENT = 4096,
    MOST_LAUNCHES = 8192,
};

static struct {
    CUstream gated, other, spare;
    struct word gate;
    CUevent event;
    CUdeviceptr memory, used;
    void *host, *pinned, *pages;
    CUmodule module;
    CUfunction function;
    CUcontext context;
    CUgraphExec graph;
} it;

/* A call to test, and one that prepares for it while the gate is open. */
struct behind {
    const char *name;
    CUresult (*prepare)(void);
    CUresult (*call)(void);
};

GPU_CALL(launch_other, gpu_spin(it.other, 1, 1))
GPU_CALL(launch_gated, gpu_spin(it.gated, 1, 1))
GPU_CALL(launch_legacy, gpu_spin(NULL, 1, 1))
GPU_CALL(module_load, gpu.cuModuleLoadData(&it.module, kernels_ptx))
GPU_CALL(module_function, gpu.cuModuleGetFunction(&it.function, it.module, "spin"))
GPU_CALL(module_unload, gpu.cuModuleUnload(it.module))
GPU_CALL(first_launch, gpu.cuLaunchKernel(it.function, 1, 1, 1, 32, 1, 1, 0, it.other,
                                          (void *[]){&(uint64_t){0}}, NULL))
GPU_CALL(mem_alloc, gpu.cuMemAlloc(&it.memory, BYTES))
GPU_CALL(mem_free, gpu.cuMemFree(it.memory))
GPU_CALL(mem_alloc_large, gpu.cuMemAlloc(&it.memory, (size_t)BYTES * 256))
GPU_CALL(mem_alloc_async, gpu.cuMemAllocAsync(&it.memory, BYTES, it.other))
GPU_CALL(mem_free_async, gpu.cuMemFreeAsync(it.memory, it.other))
GPU_CALL(mem_alloc_host, gpu.cuMemAllocHost(&it.host, BYTES))
GPU_CALL(mem_free_host, gpu.cuMemFreeHost(it.host))
GPU_CALL(mem_alloc_managed, gpu.cuMemAllocManaged(&it.memory, BYTES, CU_MEM_ATTACH_GLOBAL))
GPU_CALL(host_register, gpu.cuMemHostRegister(it.pages, BYTES, CU_MEMHOSTREGISTER_PORTABLE))
GPU_CALL(host_unregister, gpu.cuMemHostUnregister(it.pages))
GPU_CALL(memset_sync, gpu.cuMemsetD8(it.used, 1, BYTES))
GPU_CALL(copy_sync, gpu.cuMemcpyHtoD(it.used, it.pages, 4096))
GPU_CALL(copy_pageable, gpu.cuMemcpyHtoDAsync(it.used, it.pages, BYTES, it.other))
GPU_CALL(copy_pinned, gpu.cuMemcpyHtoDAsync(it.used, it.pinned, BYTES, it.other))
GPU_CALL(stream_create, gpu.cuStreamCreate(&it.spare, CU_STREAM_NON_BLOCKING))
GPU_CALL(stream_destroy, gpu.cuStreamDestroy(it.spare))
GPU_CALL(stream_query, gpu.cuStreamQuery(it.gated))
GPU_CALL(stream_sync_other, gpu.cuStreamSynchronize(it.other))
GPU_CALL(stream_sync_legacy, gpu.cuStreamSynchronize(NULL))
GPU_CALL(stream_sync_gated, gpu.cuStreamSynchronize(it.gated))
GPU_CALL(context_create, gpu.cuCtxCreate_v2(&it.context, 0, gpu.device))
GPU_CALL(context_sync, gpu.cuCtxSynchronize())
GPU_CALL(event_create, gpu.cuEventCreate(&it.event, CU_EVENT_DISABLE_TIMING))
GPU_CALL(event_destroy, gpu.cuEventDestroy(it.event))
GPU_CALL(graph_launch, gpu.cuGraphLaunch(it.graph, it.other))

static CUresult load_function(void)
{
    CUresult result = module_load();

    return result ? result : module_function();
}

static CUgraph captured(void)
{
    CUgraph graph = NULL;

    if (gpu.cuStreamBeginCapture(it.other, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS) {
        gpu_spin(it.other, 1, 1);
        gpu.cuStreamEndCapture(it.other, &graph);
    }
    return graph;
}

static CUresult graph_instantiate(void)
{
    CUgraph graph = captured();

    return graph ? gpu.cuGraphInstantiateWithFlags(&it.graph, graph, 0) : CUDA_ERROR_UNKNOWN;
}

static const struct behind table[] = {
    {"launch_on_another_stream", NULL, launch_other},
    {"launch_on_the_gated_stream", NULL, launch_gated},
    {"launch_on_the_legacy_stream", NULL, launch_legacy},
    {"first_launch_of_a_kernel", load_function, first_launch},
    {"module_load", NULL, module_load},
    {"module_unload", load_function, module_unload},
    {"mem_alloc", NULL, mem_alloc},
    {"mem_alloc_256_mib", NULL, mem_alloc_large},
    {"mem_free", mem_alloc, mem_free},
    {"mem_alloc_async", NULL, mem_alloc_async},
    {"mem_free_async", mem_alloc_async, mem_free_async},
    {"mem_alloc_host", NULL, mem_alloc_host},
    {"mem_free_host", mem_alloc_host, mem_free_host},
    {"mem_alloc_managed", NULL, mem_alloc_managed},
    {"host_register", NULL, host_register},
    {"host_unregister", NULL, host_unregister},
    {"memset_sync", NULL, memset_sync},
    {"copy_sync", NULL, copy_sync},
    {"copy_pageable_on_another_stream", NULL, copy_pageable},
    {"copy_pinned_on_another_stream", NULL, copy_pinned},
    {"stream_create", NULL, stream_create},
    {"stream_destroy", stream_create, stream_destroy},
    {"stream_query_of_the_gated", NULL, stream_query},
    {"synchronize_another_stream", NULL, stream_sync_other},
    {"synchronize_the_legacy_stream", NULL, stream_sync_legacy},
    {"event_create", NULL, event_create},
    {"event_destroy", event_create, event_destroy},
    {"capture_and_graph_instantiate", NULL, graph_instantiate},
    {"graph_launch_on_another_stream", graph_instantiate, graph_launch},
    {"context_create", NULL, context_create},
    /* These must wait. If they do not, the gate was not closed. */
    {"synchronize_the_gated_stream", NULL, stream_sync_gated},
    {"synchronize_the_context", NULL, context_sync},
};

struct attempt {
    CUresult (*call)(void);
    CUresult result;
    uint64_t took_ns;
    atomic_int begun, done;
};

static void *attempt_main(void *arg)
{
    struct attempt *a = arg;
    uint64_t from_ns;

    gpu.cuCtxSetCurrent(gpu.context);
    from_ns = clock_ns();
    atomic_store(&a->begun, 1);
    a->result = a->call();
    a->took_ns = clock_ns() - from_ns;
    atomic_store(&a->done, 1);
    return NULL;
}

static bool attempt_done(struct attempt *a, unsigned int ms)
{
    for (uint64_t end_ns = clock_ns() + ms * UINT64_C(1000000); clock_ns() < end_ns;
         clock_sleep_us(200))
        if (atomic_load(&a->done))
            return true;
    return atomic_load(&a->done) != 0;
}

/* How long the call takes with the gate open: a call that loads something is slow by itself. */
static uint64_t open_gate_ns(const struct behind *b)
{
    struct attempt a = {.call = b->call};

    gpu.cuCtxSynchronize();
    if (!b->prepare || b->prepare() == CUDA_SUCCESS)
        attempt_main(&a);
    return a.took_ns;
}

static void call_test(const struct behind *b)
{
    struct attempt a = {.call = b->call};
    pthread_t thread;
    bool returned;

    if (b->prepare && b->prepare() != CUDA_SUCCESS) {
        fact_text(b->name, "could not be prepared");
        return;
    }
    CU(cuStreamSynchronize, it.other);
    word_set(it.gate, 1);
    gpu_check(gate_enqueue(it.gated, it.gate.device), "cuStreamWaitValue32");
    gpu_check(gpu_spin(it.gated, 1, 1), "cuLaunchKernel");
    if (pthread_create(&thread, NULL, attempt_main, &a) != 0)
        fact_fail("no thread");
    while (!atomic_load(&a.begun)) /* on a busy machine the thread begins late */
        clock_sleep_us(50);
    returned = attempt_done(&a, RETURNS_MS);
    if (!returned && !b->prepare)
        fact_text(b->name, "waits (not seen to end yet)"); /* stays if the rest hangs */
    word_set(it.gate, 0);
    if (!attempt_done(&a, OPENED_MS))
        fact_fail("%s did not return %d ms after the gate was opened", b->name, OPENED_MS);
    pthread_join(thread, NULL);
    returned = returned || a.took_ns < open_gate_ns(b) * 3 / 2 + RETURNS_MS * UINT64_C(500000);
    fact_value(b->name, json_pack("{s:s, s:s, s:f}", "behind_gate", returned ? "returns" : "waits",
                                  "result", gpu_error(a.result), "us", (double)a.took_ns / 1000));
    gpu.cuCtxSynchronize();
}

void fact_behind(void)
{
    gpu_open();
    need_memops();
    it.gated = stream_new();
    it.other = stream_new();
    it.gate = word_new();
    it.pages = aligned_alloc(ALIGNMENT, BYTES);
    CU(cuMemAlloc, &it.used, BYTES);
    CU(cuMemAllocHost, &it.pinned, BYTES);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        call_test(&table[i]);
}

/* ---- how many launches a stream takes before the thread waits -------------------------------- */

static atomic_uint launched;

static CUresult launch_many(void)
{
    CUresult result = CUDA_SUCCESS;

    while (result == CUDA_SUCCESS && atomic_load(&launched) < MOST_LAUNCHES) {
        result = launch_gated();
        atomic_fetch_add(&launched, 1);
    }
    return result;
}

unsigned int launch_until_full(void)
{
    struct attempt a = {.call = launch_many};
    unsigned int before = 0, now;
    pthread_t thread;

    it.gated = stream_new();
    it.gate = word_new();
    word_set(it.gate, 1);
    gpu_check(gate_enqueue(it.gated, it.gate.device), "cuStreamWaitValue32");
    if (pthread_create(&thread, NULL, attempt_main, &a) != 0)
        fact_fail("no thread");
    do { /* until no launch has returned for a while */
        before = atomic_load(&launched);
        if (attempt_done(&a, FULL_MS))
            break;
        now = atomic_load(&launched);
    } while (now != before);
    fact_flag("launching_thread_waits", !atomic_load(&a.done));
    fact_value("launches_queued", json_integer((json_int_t)(now = atomic_load(&launched))));
    word_set(it.gate, 0);
    if (!attempt_done(&a, OPENED_MS))
        fact_fail("the launching thread still waits %d ms after the gate was opened", OPENED_MS);
    pthread_join(thread, NULL);
    CU(cuStreamSynchronize, it.gated);
    return now;
}

void fact_depth(void)
{
    gpu_open();
    need_memops();
    launch_until_full();
}
