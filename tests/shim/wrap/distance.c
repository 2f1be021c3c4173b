/*
 * distance.c - a GPU at a distance: every command comes later by the round trip, in its stream's
 * order, and nobody waits for it but the stream. The simulated device's own time is asked, by
 * events. CUTIN_DISTANCE_US is 101.2, so a delay is 100 us.
 */
#include "tests/shim/wrap/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(distance, .init = rig_open, .fini = rig_close);

enum { DELAY_US = 100 };

static struct {
    CUevent begin, end;
} stopwatch;

static void stopwatch_begin(CUstream s)
{
    ok(cuEventCreate(&stopwatch.begin, CU_EVENT_DEFAULT));
    ok(cuEventCreate(&stopwatch.end, CU_EVENT_DEFAULT));
    ok(cuEventRecord(stopwatch.begin, s));
}

static double stopwatch_end_us(CUstream s)
{
    float ms;
    ok(cuEventRecord(stopwatch.end, s));
    ok(cuEventSynchronize(stopwatch.end));
    ok(cuEventElapsedTime(&ms, stopwatch.begin, stopwatch.end));
    return (double)ms * 1000;
}

/* The device may have waited for the host, and never less than it had to. */
static void took(double us, double least)
{
    cr_expect_geq(us, least - 0.5, "%.1f us", us);
}

static CUresult spin(uint64_t ns, CUstream s)
{
    void *params[] = {&ns};
    return cuLaunchKernel(rig_spin, 1, 1, 1, 32, 1, 1, 0, s, params, NULL);
}

Test(distance, is_in_front_of_every_kernel)
{
    CUstream s = rig_stream();
    ok(spin(0, s));
    stopwatch_begin(s);
    for (int i = 0; i < 10; i++)
        ok(spin(7000, s));
    took(stopwatch_end_us(s), 10 * (DELAY_US + 7));
}

Test(distance, is_in_front_of_launches_of_other_kinds)
{
    CUstream s = rig_stream();
    uint64_t ns = 0;
    void *params[] = {&ns};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = s};
    stopwatch_begin(s);
    ok(cuLaunchKernelEx(&config, rig_spin, params, NULL));
    ok(cuLaunchCooperativeKernel(rig_spin, 1, 1, 1, 32, 1, 1, 0, s, params));
    took(stopwatch_end_us(s), 2 * DELAY_US);
}

Test(distance, is_in_front_of_memsets)
{
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(0);
    stopwatch_begin(s);
    ok(cuMemsetD32Async(x, 5, N, s));
    ok(cuMemsetD2D8Async(x, N, 7, N, 4, s));
    took(stopwatch_end_us(s), 2 * DELAY_US);
    rig_expect(x, 0x07070707, s);
}

Test(distance, is_in_front_of_work_in_default_streams)
{
    CUdeviceptr x = rig_buffer(0);
    stopwatch_begin(CU_STREAM_LEGACY);
    ok(spin(0, CU_STREAM_LEGACY));
    ok(cuMemsetD32(x, 5, N));
    took(stopwatch_end_us(CU_STREAM_LEGACY), 2 * DELAY_US);
    stopwatch_begin(CU_STREAM_PER_THREAD);
    ok(spin(0, CU_STREAM_PER_THREAD));
    took(stopwatch_end_us(CU_STREAM_PER_THREAD), DELAY_US);
}

/* Nothing of ours in the graph: it has the program's nodes, and its launch one delay. */
Test(distance, adds_nothing_to_a_stream_that_captures)
{
    enum { KERNELS = 3 };
    CUstream s = rig_stream();
    CUgraph graph;
    CUgraphExec exec;
    size_t nodes = 0;
    ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < KERNELS; i++)
        ok(spin(1000, s));
    ok(cuStreamEndCapture(s, &graph));
    ok(cuGraphGetNodes(graph, NULL, &nodes));
    cr_expect_eq(nodes, KERNELS);
    ok(cuGraphInstantiate(&exec, graph, 0));
    stopwatch_begin(s);
    ok(cuGraphLaunch(exec, s));
    double us = stopwatch_end_us(s);
    took(us, DELAY_US + KERNELS);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
}

/* Commands that a hold keeps are submitted by the dispatcher, with their delays. */
Test(distance, comes_with_what_was_buffered)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(1);
    uint32_t expect = 1;
    if (cutin_stream_hold(s) != CUDA_SUCCESS)
        cr_skip_test("a stream without a queue");
    for (uint32_t i = 0; i < 20; i++) {
        ok(rig_launch(x, i + 3, i, s));
        expect = rig_mixed(expect, i + 3, i);
    }
    stopwatch_begin(s);
    ok(rig_launch(x, 3, 4, s));
    ok(cutin_stream_release(s));
    took(stopwatch_end_us(s), DELAY_US);
    rig_expect(x, rig_mixed(expect, 3, 4), s);
}

Test(distance, leaves_errors_of_launches_as_they_are)
{
    CUstream s = rig_stream();
    uint64_t ns = 0;
    void *params[] = {&ns};
    answers(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(rig_spin, 0, 1, 1, 32, 1, 1, 0, s, params, NULL));
    ok(spin(0, s));
    ok(cuStreamSynchronize(s));
}

Test(distance, goes_on_in_a_context_that_comes_later)
{
    CUcontext other = rig_context_new();
    CUmodule module;
    char *ptx = calloc(1, 1 << 20);
    FILE *f = fopen(SOURCE_DIR "/examples/kernels.ptx", "r");
    cr_assert(f && ptx && fread(ptx, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    for (int i = 0; i < 2; i++) {
        CUstream s = rig_stream();
        ok(cuModuleLoadData(&module, ptx));
        ok(cuModuleGetFunction(&rig_spin, module, "spin"));
        stopwatch_begin(s);
        ok(spin(0, s));
        took(stopwatch_end_us(s), DELAY_US);
        ok(cuCtxDestroy(other));
        ok(i ? CUDA_SUCCESS : cuCtxSetCurrent(NULL));
        other = i ? NULL : rig_context_new();
    }
    free(ptx);
    ok(cuCtxSetCurrent(rig_context));
}
