/*
 * turns.c - a thread is in a call in which the driver lets it wait: a copy into pageable memory
 * behind work that waits for the host. Meanwhile other threads make calls for the same stream.
 * Natively none of these calls waits for the copy, which goes on only afterwards. What they submit
 * comes behind it.
 */
#include "tests/hazards/hazard.h"

#include <stdatomic.h>

enum { WIDTH = 256, ROWS = BYTES / WIDTH };

static CUstream stream;
static CUdeviceptr copied, changed;
static uint32_t host[N], *pinned; /* `host` is pageable */
static CUevent event;
static CUgraphExec exec;
static CUdeviceptr freed;

static void function(void *user)
{
    *(uint32_t *)user += 1;
}

/* ---- calls that wait ------------------------------------------------------------------------- */

static void down(void *arg)
{
    (void)arg;
    MUST(cuMemcpyDtoHAsync(host, copied, BYTES, stream));
}

static void down_generic(void *arg)
{
    (void)arg;
    MUST(cuMemcpyAsync((CUdeviceptr)(uintptr_t)host, copied, BYTES, stream));
}

static void down_2d(void *arg)
{
    (void)arg;
    MUST(cuMemcpy2DAsync(&(CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                          .srcDevice = copied,
                                          .srcPitch = WIDTH,
                                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                                          .dstHost = host,
                                          .dstPitch = WIDTH,
                                          .WidthInBytes = WIDTH,
                                          .Height = ROWS},
                         stream));
}

static void down_3d(void *arg)
{
    (void)arg;
    MUST(cuMemcpy3DAsync(&(CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                          .srcDevice = copied,
                                          .srcPitch = WIDTH,
                                          .srcHeight = ROWS,
                                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                                          .dstHost = host,
                                          .dstPitch = WIDTH,
                                          .dstHeight = ROWS,
                                          .WidthInBytes = WIDTH,
                                          .Height = ROWS,
                                          .Depth = 1},
                         stream));
}

static void down_synchronous(void *arg)
{
    (void)arg;
    MUST(cuMemcpyDtoH(host, copied, BYTES));
}

static void waits_for_it(void *arg)
{
    (void)arg;
    MUST(cuStreamSynchronize(stream));
}

/* ---- the world ------------------------------------------------------------------------------- */

static void graph_new(void)
{
    CUgraph graph;
    CUgraphNode node;
    const CUDA_MEMSET_NODE_PARAMS p = {
        .dst = changed, .value = 11, .elementSize = 4, .width = N / 2, .height = 1};
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemsetNode(&node, graph, NULL, 0, &p, context));
    MUST(cuGraphInstantiate(&exec, graph, 0));
}

/* The thread that makes the first call waits in it; with `turns` it waited for its turn before. */
static void others(CUstream s, void (*first)(void *), bool turns, void (*call)(void))
{
    hang_watch("a call waits for a call of another thread");
    stream = s;
    if (s)
        warm(s);
    copied = buffer_new(3);
    changed = buffer_new(3);
    pinned = pinned_new(7);
    event = event_new();
    graph_new();
    MUST(cuMemAllocAsync(&freed, BYTES, stream));
    MUST(cuCtxSynchronize());
    hold_for(20000);
    if (turns)
        hold(stream);
    SAY(launch_mix(copied, 5, 7, stream));
    SAY(cuLaunchHostFunc(stream, until_told, NULL));
    struct thread *t = thread_start(first, NULL);
    if (turns)
        thread_waits(t);
    release(stream);
    thread_waits(t);
    call();
    atomic_store(&told, true);
    thread_join(t);
    SAY(cuCtxSynchronize());
    show_host("host", host);
    show_host("pinned", pinned);
    show("copied", copied);
    show("changed", changed);
}

#define BEHIND(name, ...)                                                                          \
    static void name##_call(void){__VA_ARGS__} HAZARD(name##_returns_while_a_copy_waits)           \
    {                                                                                              \
        others(stream_new(CU_STREAM_NON_BLOCKING), down, false, name##_call);                      \
    }
#define BEHIND_A_TURN(name)                                                                        \
    HAZARD(name##_returns_while_a_queued_copy_waits)                                               \
    {                                                                                              \
        others(stream_new(CU_STREAM_NON_BLOCKING), down, true, name##_call);                       \
    }

BEHIND(launch, SAY(launch_mix(copied, 3, 1, stream));)
BEHIND_A_TURN(launch)
BEHIND(memset, SAY(cuMemsetD32Async(copied, 9, N / 2, stream));)
BEHIND_A_TURN(memset)
BEHIND(event_record, SAY(cuEventRecord(event, stream)); SAY(cuEventQuery(event));)
BEHIND_A_TURN(event_record)
BEHIND(event_wait, SAY(cuStreamWaitEvent(stream, event, 0)); SAY(launch_mix(copied, 3, 1, stream));)
BEHIND(host_function_launch, SAY(cuLaunchHostFunc(stream, function, pinned));)
BEHIND(free, SAY(cuMemFreeAsync(freed, stream));)
BEHIND(allocation, CUdeviceptr p; SAY(cuMemAllocAsync(&p, BYTES, stream));
       SAY(cuMemsetD32Async(p, 9, N, stream)); SAY(cuMemFreeAsync(p, stream));)
BEHIND(graph_launch, SAY(cuGraphLaunch(exec, stream));)
BEHIND(query, SAY(cuStreamQuery(stream));)
BEHIND(copy_to_pinned_memory, SAY(cuMemcpyDtoHAsync(pinned, copied, BYTES, stream));)
BEHIND(copy_from_pinned_memory, SAY(cuMemcpyHtoDAsync(copied, pinned, BYTES, stream));)
BEHIND(copy_from_pageable_memory, static uint32_t from[N] = {5};
       SAY(cuMemcpyHtoDAsync(copied, from, BYTES, stream));)
BEHIND(copy_within_the_device, SAY(cuMemcpyDtoDAsync(copied, changed, BYTES, stream));)
BEHIND(stream_destroy, SAY(cuStreamDestroy(stream));)
BEHIND_A_TURN(stream_destroy)
BEHIND(wait_of_another_stream, CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
       SAY(cuEventRecord(event, stream)); SAY(cuStreamWaitEvent(other, event, 0));
       SAY(launch_mix(copied, 3, 1, other));)
/* The attribute must not be set before the launch has been submitted. */
BEHIND(attribute_set_after_a_launch, SAY(launch_mix(copied, 3, 1, stream));
       SAY(cuFuncSetCacheConfig(mix, CU_FUNC_CACHE_PREFER_L1));)

static void synchronised_call(void)
{
    struct thread *t = thread_start(waits_for_it, NULL);
    thread_waits(t);
    SAY(launch_mix(copied, 3, 1, stream));
    atomic_store(&told, true);
    thread_join(t);
}
HAZARD(launch_returns_while_a_copy_and_a_sync_wait)
{
    others(stream_new(CU_STREAM_NON_BLOCKING), down, false, synchronised_call);
}

#define BEHIND_CALL(what, stream)                                                                  \
    HAZARD(launch_returns_while_a_##what##_copy_waits)                                             \
    {                                                                                              \
        others(stream, down_##what, false, launch_call);                                           \
    }
BEHIND_CALL(generic, stream_new(CU_STREAM_NON_BLOCKING))
BEHIND_CALL(2d, stream_new(CU_STREAM_DEFAULT))
BEHIND_CALL(3d, stream_new(CU_STREAM_NON_BLOCKING))
BEHIND_CALL(synchronous, NULL)
