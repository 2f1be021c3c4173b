/*
 * level.c - two levels in one process, by the priority of streams; no daemon is needed.
 */
#include "tests/shim/wrap/rig.h"

#include <sched.h>

TestSuite(level, .init = rig_open, .fini = rig_close);

static CUstream stream_of_priority(int priority, unsigned flags)
{
    CUstream s;
    ok(cuStreamCreateWithPriority(&s, flags, priority));
    return s;
}

static CUstream real_time(unsigned flags)
{
    int least, greatest;
    ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    cr_assert_lt(greatest, least);
    return stream_of_priority(greatest, flags);
}

/* Keeps its stream waiting until *word is 1. */
static _Atomic uint32_t *gate(CUstream s)
{
    CUdeviceptr at;
    _Atomic uint32_t *host;
    ok(cuMemHostAlloc((void **)&host, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    ok(cuMemHostGetDevicePointer(&at, host, 0));
    atomic_store(host, 0);
    ok(cuStreamWaitValue32(s, at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    return host;
}

static CUresult spin(CUstream s, uint64_t ns)
{
    void *params[] = {&ns};
    return cuLaunchKernel(rig_spin, 1, 1, 1, 32, 1, 1, 0, s, params, NULL);
}

Test(level, real_time_stream_refuses_hold)
{
    CUstream rt = real_time(CU_STREAM_NON_BLOCKING);
    answers(CUDA_ERROR_NOT_SUPPORTED, cutin_stream_hold(rt));
    answers(CUDA_SUCCESS, cutin_stream_hold(NULL));
    CUdeviceptr x;
    ok(cuMemAlloc(&x, 4 * N));
    ok(cuMemsetD32Async(x, 1, N, rt));
    ok(cuStreamSynchronize(rt));
    ok(cutin_stream_release(NULL));
}

Test(level, best_effort_waits_while_real_time_runs)
{
    CUstream rt = real_time(CU_STREAM_NON_BLOCKING), be = rig_stream();
    rig_warm(be);
    CUdeviceptr x = rig_buffer(3);
    ok(spin(rt, 1000));
    ok(cuStreamSynchronize(rt));
    rig_expect(x, 3, be);
    uint32_t value = 3;
    CUresult above = CUDA_SUCCESS;
    /* Tries again with longer work if this thread asked too late. */
    for (uint64_t ms = 300; above == CUDA_SUCCESS; ms *= 3) {
        cr_assert_lt(ms, 10000);
        ok(spin(rt, ms * 1000 * 1000));
        ok(rig_launch(x, 5, 7, be)); /* buffered: the stream is held */
        CUresult below = cuStreamQuery(be);
        above = cuStreamQuery(rt);
        cr_assert(above == CUDA_SUCCESS || below == CUDA_ERROR_NOT_READY, "%d", below);
        ok(cuStreamSynchronize(rt));
        value = rig_mixed(value, 5, 7);
        rig_expect(x, value, be);
    }
}

static unsigned held(CUstream s)
{
    struct cutin_stream_state state = {.size = sizeof(state)};
    ok(cutin_stream_state(s, &state));
    return state.held;
}

/* The client's thread may end the hold, and may lose its processor while it does. */
Test(level, hold_lasts_from_launch_to_end_of_sync)
{
    enum { ROUNDS = 20 };
    CUstream rt = real_time(CU_STREAM_NON_BLOCKING), be = rig_stream();
    int at_once = 0;
    for (int round = 0; round < ROUNDS; round++) {
        ok(spin(rt, 20 * 1000 * 1000));
        unsigned while_it_ran = held(be);
        if (cuStreamQuery(rt) == CUDA_ERROR_NOT_READY)
            cr_assert_eq(while_it_ran, CUTIN_HELD_BY_OTHERS);
        ok(cuStreamSynchronize(rt));
        at_once += held(be) == 0;
        while (held(be))
            sched_yield();
    }
    cr_assert_gt(at_once, ROUNDS / 2);
}

Test(level, finished_real_time_work_releases_without_a_sync)
{
    CUstream rt = real_time(CU_STREAM_NON_BLOCKING), be = rig_stream();
    rig_warm(be);
    CUdeviceptr x = rig_buffer(3);
    ok(spin(rt, 20 * 1000 * 1000));
    ok(rig_launch(x, 5, 7, be));
    rig_expect(x, rig_mixed(3, 5, 7), be); /* no call asks: the client's thread finds out */
}

Test(level, real_time_wait_exempts_awaited_work_from_hold)
{
    CUstream rt = real_time(CU_STREAM_NON_BLOCKING), be = rig_stream();
    CUevent e;
    rig_warm(be);
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(be));
    ok(rig_launch(x, 5, 7, be));
    ok(cuEventRecord(e, be));
    ok(cuStreamWaitEvent(rt, e, 0)); /* exempt from holds, else it would wait for itself */
    ok(cuStreamSynchronize(rt));
    rig_expect(x, rig_mixed(3, 5, 7), rt);
    ok(cutin_stream_release(be));
}

Test(level, real_time_stream_follows_legacy_stream)
{
    CUstream rt = real_time(CU_STREAM_DEFAULT);
    rig_warm(NULL);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(NULL));
    ok(rig_launch(x, 5, 7, NULL));
    ok(rig_launch(x, 11, 1, rt));
    ok(cutin_stream_release(NULL));
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 11, 1), NULL);
}

Test(level, real_time_record_does_not_change_buffered_wait)
{
    CUstream rt = real_time(CU_STREAM_NON_BLOCKING), be = rig_stream();
    CUevent e;
    rig_warm(be);
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr x = rig_buffer(3);
    ok(cuEventRecord(e, be));
    ok(cutin_stream_hold(be));
    ok(cuStreamWaitEvent(be, e, 0));
    ok(rig_launch(x, 5, 7, be));
    _Atomic uint32_t *open = gate(rt);
    ok(cuEventRecord(e, rt)); /* completes only when the gate opens */
    ok(cutin_stream_release(be));
    rig_expect(x, rig_mixed(3, 5, 7), be);
    atomic_store(open, 1);
    ok(cuStreamSynchronize(rt));
}

Test(level, wait_on_host_word_does_not_hold_forever)
{
    CUstream rt = real_time(CU_STREAM_NON_BLOCKING), be = rig_stream();
    rig_warm(be);
    CUdeviceptr x = rig_buffer(3);
    _Atomic uint32_t *open = gate(rt);
    ok(rig_launch(x, 5, 7, be));
    rig_expect(x, rig_mixed(3, 5, 7), be);
    atomic_store(open, 1);
    ok(cuStreamSynchronize(rt));
}

/* The stream that waits for the value is destroyed, and another one follows its work. */
Test(level, wait_in_destroyed_stream_does_not_hold_forever)
{
    CUstream gone = real_time(CU_STREAM_NON_BLOCKING), rt = real_time(CU_STREAM_NON_BLOCKING);
    CUstream be = rig_stream();
    CUevent behind;
    rig_warm(be);
    CUdeviceptr x = rig_buffer(3);
    _Atomic uint32_t *open = gate(gone);
    ok(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
    ok(cuEventRecord(behind, gone));
    ok(cuStreamDestroy(gone));
    ok(cuStreamWaitEvent(rt, behind, 0));
    ok(rig_launch(x, 5, 7, be));
    rig_expect(x, rig_mixed(3, 5, 7), be);
    atomic_store(open, 1);
    ok(cuStreamSynchronize(rt));
}

/* Each kernel is longer than the budget, so one is in flight, and one more at its end. */
Test(level, best_effort_beside_real_time_stream_has_one_budget_in_flight)
{
    enum { KERNELS = 100 };
    CUstream be = rig_stream();
    struct cutin_stream_state state = {.size = sizeof(state)};
    ok(spin(be, 1000));
    ok(cuStreamSynchronize(be));
    real_time(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < KERNELS; i++)
        ok(spin(be, 1000 * 1000));
    answers(CUDA_SUCCESS, cutin_stream_state(be, &state));
    cr_expect_leq(state.in_flight, 2);
    ok(cuStreamSynchronize(be));
}

/* ---- the legacy stream: blocking streams follow it, and it follows all their earlier work ---- */

Test(level, legacy_allocation_does_not_overtake_buffered_write)
{
    CUstream rt = real_time(CU_STREAM_DEFAULT), be = rig_stream_blocking();
    CUdeviceptr word = rig_buffer(0), x;
    ok(cuMemAllocAsync(&x, 64, CU_STREAM_LEGACY)); /* makes the pool */
    rig_warm(be);
    ok(cuStreamWriteValue32(be, word, 0, 0)); /* the driver took one, so the next may be deferred */
    ok(cuCtxSynchronize());
    ok(cuStreamWaitValue32(rt, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    ok(cuStreamWriteValue32(be, word, 1, 0)); /* buffered: the stream is held */
    ok(cuMemAllocAsync(&x, 64, CU_STREAM_LEGACY));
    ok(cuCtxSynchronize());
}

/* A marker in one of the blocking streams would follow what the program put into others. */
Test(level, sync_waits_only_for_its_own_stream)
{
    CUstream waits = rig_stream_blocking(), be = rig_stream_blocking();
    CUdeviceptr x = rig_buffer(3), y = rig_buffer(3);
    rig_warm(be);
    rig_warm(CU_STREAM_LEGACY);
    ok(cuCtxSynchronize());
    ok(rig_launch(x, 5, 7, be));
    _Atomic uint32_t *open = gate(waits);
    ok(rig_launch(y, 5, 7, CU_STREAM_LEGACY));
    ok(cuStreamSynchronize(be));
    atomic_store(open, 1);
    rig_expect(y, rig_mixed(3, 5, 7), CU_STREAM_LEGACY);
}

static void sync_legacy(void *user)
{
    ok(cuCtxSetCurrent(rig_context));
    ok(cuStreamSynchronize(CU_STREAM_LEGACY));
}

Test(level, legacy_sync_does_not_block_blocking_streams)
{
    CUstream waits = rig_stream_blocking(), be = rig_stream_blocking();
    CUdeviceptr x = rig_buffer(3), word = rig_buffer(0);
    struct rig_thread sync;
    rig_warm(CU_STREAM_LEGACY);
    ok(cuCtxSynchronize());
    ok(rig_launch(x, 5, 7, CU_STREAM_LEGACY));
    ok(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    rig_start(&sync, sync_legacy, NULL);
    rig_blocked(&sync);
    ok(cuStreamWriteValue32(be, word, 1, 0));
    rig_join(&sync);
    rig_expect(x, rig_mixed(3, 5, 7), CU_STREAM_LEGACY);
}

/* This stream has no queue, and the launch before may be buffered in another stream's queue. */
Test(level, real_time_graph_follows_its_buffered_launch_below)
{
    CUstream rt = real_time(CU_STREAM_NON_BLOCKING), below = rig_stream();
    CUdeviceptr x = rig_buffer(1);
    CUgraphExec exec = rig_graph(x, 5, 7, 1);
    ok(cuGraphLaunch(exec, below));
    rig_warm(below);
    ok(cuMemsetD32(x, 3, N));
    ok(cuCtxSynchronize());
    ok(cutin_stream_hold(below));
    ok(rig_launch(x, 2, 1, below));
    ok(cuGraphLaunch(exec, below));
    ok(cuGraphLaunch(exec, rt));
    ok(cutin_stream_release(below));
    rig_expect(x, rig_mixed(rig_mixed(rig_mixed(3, 2, 1), 5, 7), 5, 7), NULL);
}

/* ---- real time waits for what it holds itself ----------------------------------------------- */

static _Atomic uint32_t *answer;

static CUdeviceptr answer_new(void)
{
    CUdeviceptr at;
    ok(cuMemHostAlloc((void **)&answer, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    ok(cuMemHostGetDevicePointer(&at, answer, 0));
    atomic_store(answer, 0);
    return at;
}

/* Launches a kernel as the answer, with an event behind it. A host function might have to wait for
 * another one. */
static CUevent kernel_below(CUdeviceptr x, CUstream below)
{
    CUevent e;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    ok(rig_launch(x, 5, 7, below));
    ok(cuEventRecord(e, below));
    return e;
}

/* A thread that waits in `rt` for the answer holds `below`, which gives the answer. */
static void answered(CUstream rt, CUstream below, CUdeviceptr x)
{
    CUevent e = kernel_below(x, below);
    for (int i = rig_patience(); i > 0 && cuEventQuery(e) == CUDA_ERROR_NOT_READY; i--)
        rig_nap();
    CUresult seen = cuEventQuery(e);
    atomic_store(answer, 1);
    ok(cuStreamSynchronize(rt));
    ok(cuStreamSynchronize(below));
    ok(seen);
}

Test(level, waiting_graph_lets_its_answer_pass)
{
    CUstream rt = real_time(CU_STREAM_NON_BLOCKING), below = rig_stream();
    CUdeviceptr at = answer_new(), x = rig_buffer(3);
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUstreamBatchMemOpParams op = {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                                 .address = at,
                                                 .value = 1,
                                                 .flags = CU_STREAM_WAIT_VALUE_GEQ}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {.ctx = rig_context, .count = 1, .paramArray = &op};
    ok(cuGraphCreate(&graph, 0));
    ok(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    ok(cuGraphInstantiate(&exec, graph, 0));
    rig_warm(below);
    ok(cuGraphLaunch(exec, rt));
    answered(rt, below, x);
    ok(cuGraphExecDestroy(exec));
}

static void CUDA_CB until_answered(void *user)
{
    while (atomic_load(answer) == 0)
        rig_nap();
}

Test(level, waiting_host_function_lets_its_answer_pass)
{
    CUstream rt = real_time(CU_STREAM_NON_BLOCKING), below = rig_stream();
    CUdeviceptr x = rig_buffer(3), y = rig_buffer(3);
    answer_new();
    rig_warm(below);
    ok(cuLaunchHostFunc(rt, until_answered, NULL));
    ok(rig_launch(y, 5, 7, rt));
    answered(rt, below, x);
}

/* A kernel of another process may wait for these kernels. */
Test(level, kernel_on_exported_memory_passes_hold)
{
    CUstream rt = real_time(CU_STREAM_NON_BLOCKING), below = rig_stream();
    CUdeviceptr exported = rig_buffer(1);
    CUipcMemHandle handle;
    ok(cuIpcGetMemHandle(&handle, exported));
    rig_warm(below);
    answer = rig_resident(rt);
    answered(rt, below, exported);
}
