/*
 * distance.c - a GPU at a distance: every command begins later by the round trip, in its stream's
 * order, and only the stream waits for that. Events tell the simulated device's own time.
 */
#include "tests/shim/wrap/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double rtt_us, delay_us; /* set before each test */

static void setup(void)
{
    rtt_us = atof(getenv("CUTIN_DISTANCE_US"));
    delay_us = rtt_us - 1.2;
    rig_open();
}

TestSuite(distance, .init = setup, .fini = rig_close);

static struct {
    CUevent begin, end;
} stopwatch;

static void stopwatch_begin(CUstream s)
{
    ok(cuEventCreate(&stopwatch.begin, CU_EVENT_DEFAULT));
    ok(cuEventCreate(&stopwatch.end, CU_EVENT_DEFAULT));
    ok(cuEventRecord(stopwatch.begin, s));
}

static double stopwatch_us(void)
{
    float ms;
    ok(cuEventSynchronize(stopwatch.end));
    ok(cuEventElapsedTime(&ms, stopwatch.begin, stopwatch.end));
    return (double)ms * 1000;
}

static double stopwatch_end_us(CUstream s)
{
    ok(cuEventRecord(stopwatch.end, s));
    return stopwatch_us();
}

static CUresult spin(uint64_t ns, CUstream s)
{
    void *params[] = {&ns};
    return cuLaunchKernel(rig_spin, 1, 1, 1, 32, 1, 1, 0, s, params, NULL);
}

/* The device may have waited for the host, so more is allowed, but never less than wanted. */
static void took(double us, double wanted)
{
    cr_expect(us > wanted - 0.5, "%.1f us, not %.1f", us, wanted);
}

/* So few commands are in flight that the device waits for the host in any case. */
static bool inexact(void)
{
    return getenv("CUTIN_BUDGET_US");
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* How long what `body` submits takes on the device. The device has other work until all of it is
 * submitted. */
static double measured_us(CUstream s, void (*body)(CUstream s))
{
    uint64_t head_start_ns = 500000;
    for (int i = 0; i < 100; i++, head_start_ns *= head_start_ns < 100000000 ? 2 : 1) {
        const uint64_t from = now_ns();
        ok(spin(head_start_ns, s));
        stopwatch_begin(s);
        body(s);
        ok(cuEventRecord(stopwatch.end, s));
        bool early = now_ns() - from < head_start_ns;
        double us = stopwatch_us();
        if (early || inexact())
            return us;
    }
    cr_assert_fail("the host is too slow");
    return 0;
}

/* There may be a marker among the commands, which takes half a microsecond. */
static void takes(CUstream s, void (*body)(CUstream s), double wanted)
{
    double us = measured_us(s, body);
    cr_expect(us > wanted - 0.5 && (inexact() || us < wanted + 1), "%.1f us, not %.1f", us, wanted);
}

static void ten_kernels(CUstream s)
{
    for (int i = 0; i < 10; i++)
        ok(spin(7000, s));
}

Test(distance, delays_every_kernel)
{
    takes(rig_stream(), ten_kernels, 10 * (delay_us + 7));
}

/* In some try twenty kernels are launched before the first one's delay is over. */
Test(distance, blocks_no_host_thread)
{
    CUstream s = rig_stream();
    if (delay_us < 50 || inexact())
        cr_skip_test("the host needs as long, or waits for the cap");
    for (int i = 0; i < 1000; i++) {
        stopwatch_begin(s);
        ok(spin(0, s));
        ok(cuEventRecord(stopwatch.end, s));
        for (int k = 0; k < 20; k++)
            ok(spin(0, s));
        bool ahead = cuEventQuery(stopwatch.end) == CUDA_ERROR_NOT_READY;
        ok(cuStreamSynchronize(s));
        if (ahead)
            return;
    }
    cr_assert_fail("every launch waited");
}

static CUstream beside;

static void two_streams(CUstream s)
{
    CUevent done;
    ok(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    ok(cuStreamWaitEvent(beside, stopwatch.begin, 0));
    for (int i = 0; i < 10; i++) {
        ok(spin(7000, s));
        ok(spin(7000, beside));
    }
    ok(cuEventRecord(done, beside));
    ok(cuStreamWaitEvent(s, done, 0));
}

Test(distance, delays_of_two_streams_overlap)
{
    beside = rig_stream();
    takes(rig_stream(), two_streams, 10 * (delay_us + 7));
}

static void other_kinds(CUstream s)
{
    uint64_t ns = 0;
    void *params[] = {&ns};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = s};
    ok(cuLaunchKernelEx(&config, rig_spin, params, NULL));
    ok(cuLaunchCooperativeKernel(rig_spin, 1, 1, 1, 32, 1, 1, 0, s, params));
}

Test(distance, delays_extended_and_cooperative_launches)
{
    takes(rig_stream(), other_kinds, 2 * delay_us);
}

Test(distance, delays_memsets)
{
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(0);
    stopwatch_begin(s);
    ok(cuMemsetD32Async(x, 5, N, s));
    ok(cuMemsetD2D8Async(x, N, 7, N, 4, s));
    took(stopwatch_end_us(s), 2 * delay_us);
    rig_expect(x, 0x07070707, s);
}

Test(distance, delays_default_streams)
{
    CUdeviceptr x = rig_buffer(0);
    stopwatch_begin(CU_STREAM_LEGACY);
    ok(spin(0, CU_STREAM_LEGACY));
    ok(cuMemsetD32(x, 5, N));
    took(stopwatch_end_us(CU_STREAM_LEGACY), 2 * delay_us);
    stopwatch_begin(CU_STREAM_PER_THREAD);
    ok(spin(0, CU_STREAM_PER_THREAD));
    took(stopwatch_end_us(CU_STREAM_PER_THREAD), delay_us);
}

static CUgraphExec captured;

static void launch_graph(CUstream s)
{
    ok(cuGraphLaunch(captured, s));
}

/* Cutin adds nothing to the graph: it has the program's nodes, and its launch has one delay. */
Test(distance, captured_graph_gets_one_delay_and_no_node)
{
    enum { KERNELS = 3 };
    CUstream s = rig_stream();
    CUgraph graph;
    size_t nodes = 0;
    ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < KERNELS; i++)
        ok(spin(1000, s));
    ok(cuStreamEndCapture(s, &graph));
    ok(cuGraphGetNodes(graph, NULL, &nodes));
    cr_expect_eq(nodes, KERNELS);
    ok(cuGraphInstantiate(&captured, graph, 0));
    takes(s, launch_graph, delay_us + KERNELS);
    ok(cuGraphExecDestroy(captured));
    ok(cuGraphDestroy(graph));
}

/* The dispatcher submits commands that were held, with their delays. */
Test(distance, delays_buffered_launch)
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
    took(stopwatch_end_us(s), delay_us);
    rig_expect(x, rig_mixed(expect, 3, 4), s);
}

Test(distance, keeps_launch_errors)
{
    CUstream s = rig_stream();
    uint64_t ns = 0;
    void *params[] = {&ns};
    answers(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(rig_spin, 0, 1, 1, 32, 1, 1, 0, s, params, NULL));
    ok(spin(0, s));
    ok(cuStreamSynchronize(s));
}

Test(distance, delays_in_later_contexts)
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
        took(stopwatch_end_us(s), delay_us);
        ok(cuCtxDestroy(other));
        ok(i ? CUDA_SUCCESS : cuCtxSetCurrent(NULL));
        other = i ? NULL : rig_context_new();
    }
    free(ptx);
    ok(cuCtxSetCurrent(rig_context));
}

/* ---- copies --------------------------------------------------------------------------------- */

enum { MIB = 1 << 20, LARGE = 16 * MIB };
static const double native_us_per_byte = 1 / 25000.0, native_us = 2; /* the simulator's copies */

static uint32_t *pinned(size_t bytes)
{
    uint32_t *p;
    ok(cuMemHostAlloc((void **)&p, bytes, 0));
    for (size_t i = 0; i < bytes / 4; i++)
        p[i] = (uint32_t)i * 2654435761u;
    return p;
}

static CUdeviceptr device(size_t bytes)
{
    CUdeviceptr p;
    ok(cuMemAlloc(&p, bytes));
    return p;
}

static uint32_t *host;
static CUdeviceptr there;

static void upload(CUstream s)
{
    ok(cuMemcpyHtoDAsync(there, host, LARGE, s));
}

/* The formula: so many requests of 128 bytes in each round trip, after the delay. */
Test(distance, upload_rate_follows_request_formula)
{
    uint32_t *back = calloc(1, LARGE);
    host = pinned(LARGE);
    there = device(LARGE);
    double us = measured_us(rig_stream(), upload);
    double gbs = LARGE / us / 1000, formula = 140 * 128 / rtt_us / 1000;
    printf("%.1f us: %.3f GB/s, formula %.3f\n", rtt_us, gbs, formula);
    cr_expect(us > delay_us && gbs < formula * 1.05 && (inexact() || gbs > formula * 0.95),
              "%.3f GB/s, formula %.3f", gbs, formula);
    ok(cuMemcpyDtoH(back, there, LARGE));
    cr_expect_not(memcmp(host, back, LARGE));
    free(back);
}

Test(distance, pageable_upload_is_no_faster_than_formula)
{
    CUdeviceptr x = device(MIB);
    uint32_t *host = calloc(1, MIB), *back = calloc(1, MIB);
    for (int i = 0; i < MIB / 4; i++)
        host[i] = (uint32_t)i;
    stopwatch_begin(CU_STREAM_LEGACY);
    ok(cuMemcpyHtoD(x, host, MIB));
    took(stopwatch_end_us(CU_STREAM_LEGACY), delay_us + MIB * rtt_us / (140 * 128) * 0.98);
    ok(cuMemcpyDtoH(back, x, MIB));
    cr_expect_not(memcmp(host, back, MIB));
    free(host);
    free(back);
}

static void download(CUstream s)
{
    ok(cuMemcpyDtoHAsync(host, there, MIB, s));
}

Test(distance, download_takes_half_delay_and_native_rate)
{
    host = pinned(MIB);
    there = device(MIB);
    takes(rig_stream(), download, delay_us / 2 + native_us + MIB * native_us_per_byte);
}

Test(distance, delays_device_copies)
{
    CUstream s = rig_stream();
    CUdeviceptr x = device(8192), y = device(8192);
    stopwatch_begin(s);
    ok(cuMemcpyDtoDAsync(x, y, 4096, s));
    ok(cuMemcpyAsync(y, x, 4096, s));
    took(stopwatch_end_us(s), 2 * (delay_us + native_us));
}

/* Bytes that change between two copies arrive in order, whether there is a hold in between or
 * not. */
Test(distance, copies_between_launches_keep_order)
{
    enum { ROUNDS = 20 };
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(0), y = rig_buffer(0);
    uint32_t *in = pinned(N * 4), *out = pinned(ROUNDS * N * 4), expect = 0;
    for (uint32_t i = 0; i < N; i++)
        in[i] = 3;
    if (!getenv("CUTIN_PRIORITY"))
        ok(cutin_stream_hold(s));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        ok(cuMemcpyHtoDAsync(x, in, N * 4, s));
        ok(rig_launch(x, i + 1, i, s));
        ok(rig_launch(x, 7, i, s));
        ok(cuMemcpyDtoDAsync(y, x, N * 4, s));
        ok(cuMemcpyDtoHAsync(out + i * N, y, N * 4, s));
    }
    if (!getenv("CUTIN_PRIORITY"))
        ok(cutin_stream_release(s));
    ok(cuStreamSynchronize(s));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        expect = rig_mixed(rig_mixed(3, i + 1, i), 7, i);
        cr_expect_eq(out[i * N], expect);
        cr_expect_eq(out[i * N + N - 1], expect);
    }
}

Test(distance, keeps_copy_errors)
{
    CUstream s = rig_stream();
    uint32_t *host = pinned(MIB);
    CUdeviceptr x = device(4096);
    answers(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(x, host, MIB, s));
    ok(cuMemcpyHtoDAsync(x, host, 0, s));
    ok(cuStreamSynchronize(s));
}
