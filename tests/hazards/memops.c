/*
 * memops.c - the application's own memory operations in streams, and work on the device that waits
 * for work that is still buffered. If the driver has no memory operations both runs say so.
 */
#include "tests/hazards/hazard.h"

#include <stdatomic.h>
#include <string.h>

static CUstream a, b;
static CUdeviceptr x, at;
static volatile uint32_t *word;

static void open_streams(void)
{
    a = stream_new(CU_STREAM_NON_BLOCKING);
    b = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    word = pinned_new(0);
    MUST(cuMemHostGetDevicePointer(&at, (void *)(uintptr_t)word, 0));
    warm(a);
    warm(b);
}

HAZARD(memory_operations_do_not_overtake_buffered_kernels)
{
    CUstreamBatchMemOpParams op[2] = {0};
    open_streams();
    op[0].writeValue.operation = op[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op[0].writeValue.address = x + 8;
    op[1].writeValue.address = x + 12;
    op[0].writeValue.value = 100;
    op[1].writeValue.value = 200;
    hold(a);
    SAY(launch_mix(x, 5, 7, a));
    SAY(cuStreamWriteValue32(a, x, 1, 0));
    SAY(cuStreamWriteValue64(a, x + 16, 2, 0));
    SAY(cuStreamBatchMemOp(a, 2, op, 0));
    memset(op, 0, sizeof(op));
    SAY(launch_mix(x, 5, 7, a));
    release(a);
    SAY(cuStreamSynchronize(a));
    show("x", x);
}

HAZARD(wait_sees_a_value_that_a_held_stream_writes)
{
    open_streams();
    hold(b);
    if (SAY(cuStreamWaitValue32(a, at, 1, CU_STREAM_WAIT_VALUE_GEQ)) != CUDA_SUCCESS)
        return;
    for (uint32_t i = 0; i < 80; i++) /* more than may be in flight */
        MUST(launch_mix(x, 3, i, a));
    SAY(cuStreamWriteValue32(b, at, 1, 0));
    release(b);
    SAY(cuStreamSynchronize(a));
    show("x", x);
}

/* With one hardware queue, the write would come behind the graph's wait in it. */
HAZARD_RAW(wait_in_a_graph_sees_a_value_that_a_held_stream_writes)
{
    CUstreamBatchMemOpParams op = {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                                 .value = 1,
                                                 .flags = CU_STREAM_WAIT_VALUE_GEQ}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {.count = 1, .paramArray = &op};
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
    gpu_open();
    open_streams();
    hang_watch("a write is behind the wait for it");
    params.ctx = context;
    op.waitValue.address = at;
    MUST(cuGraphCreate(&graph, 0));
    if (SAY(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params)) != CUDA_SUCCESS)
        return;
    MUST(cuGraphInstantiate(&exec, graph, 0));
    SAY(cuStreamWriteValue32(b, at, 1, 0)); /* the first of its kind is not buffered */
    SAY(cuStreamSynchronize(b));
    SAY(cuGraphLaunch(exec, a));
    SAY(cuStreamSynchronize(a));
    *word = 0;
    hold_for(4000);
    hold(b);
    SAY(launch_mix(x, 5, 7, b));
    SAY(cuStreamWriteValue32(b, at, 1, 0));
    SAY(cuGraphLaunch(exec, a));
    time_to_go();
    release(b);
    SAY(cuStreamSynchronize(a));
    show("x", x);
}

/* The write comes behind more work than the cap lets in flight, so the cap must be exceeded. */
HAZARD(wait_sees_a_value_written_behind_a_full_queue)
{
    CUdeviceptr y = buffer_new(1);
    open_streams();
    if (SAY(cuStreamWaitValue32(a, at, 1, CU_STREAM_WAIT_VALUE_GEQ)) != CUDA_SUCCESS)
        return;
    for (uint32_t i = 0; i < 100; i++)
        MUST(launch_slow(x, 3, i, 100, a));
    for (uint32_t i = 0; i < 100; i++)
        MUST(launch_mix(y, 3, i, b));
    SAY(cuStreamWriteValue32(b, at, 1, 0));
    SAY(cuCtxSynchronize());
    show("x", x);
    show("y", y);
}

#ifndef __SANITIZE_THREAD__ /* a race on purpose */
HAZARD(wait_sees_a_value_that_the_host_writes_after_the_call)
{
    open_streams();
    hold(a);
    SAY(launch_mix(x, 5, 7, a));
    if (SAY(cuStreamWaitValue32(a, at, 5, CU_STREAM_WAIT_VALUE_EQ)) != CUDA_SUCCESS)
        return;
    SAY(launch_mix(x, 5, 7, a));
    *word = 5;
    release(a);
    SAY(cuStreamSynchronize(a));
    show("x", x);
}
#endif

/* ---- work in flight that waits for what comes after it --------------------------------------- */

static _Atomic int door;

static void spin_on_the_door(void *user)
{
    while (!atomic_load(&door))
        nap();
}

/* This is like a kernel that spins until a later one has run: nothing completes until all of this
 * was called. The cap and the vHQ have less room than that, the driver has enough not to block. */
HAZARD(work_in_flight_may_wait_for_buffered_work)
{
    CUdeviceptr y = buffer_new(1);
    open_streams();
    CUevent e = event_new();
    SAY(cuLaunchHostFunc(a, spin_on_the_door, NULL));
    for (uint32_t i = 0; i < 120; i++) {
        MUST(launch_slow(x, 3, i, 20, a));
        MUST(cuEventRecord(e, a));
        MUST(cuStreamWaitEvent(b, e, 0));
        MUST(launch_slow(y, 5, i, 20, b));
    }
    atomic_store(&door, 1);
    SAY(cuStreamSynchronize(b));
    SAY(cuStreamSynchronize(a));
    show("x", x);
    show("y", y);
}
