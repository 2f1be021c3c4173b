/*
 * launch_errors.c - launches that the driver refuses are refused by the same call with the same
 * code, whatever is buffered. A fault on the device shows in every later call.
 */
#include "tests/hazards/hazard.h"

static CUdeviceptr x;

static CUresult launch_as(CUfunction f, const unsigned int grid[3], const unsigned int block[3],
                          unsigned int shared, CUstream s)
{
    uint32_t a = 3, b = 1, n = N;
    void *params[] = {&x, &a, &b, &n};
    return cuLaunchKernel(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, s,
                          params, NULL);
}

static CUresult launch_shape(unsigned int grid, unsigned int block, unsigned int shared, CUstream s)
{
    return launch_as(mix, (const unsigned int[]){grid, 1, 1}, (const unsigned int[]){block, 1, 1},
                     shared, s);
}

/* Tries shapes and keeps those that return success. Tries all twice: then the shapes are known. */
HAZARD(autotuner_relies_on_launch_errors)
{
    static const unsigned int grids[] = {0, 1, 4, 65535, 70000, 0x7fffffff, 0x80000000u};
    static const unsigned int blocks[] = {0, 1, 64, 256, 1024, 1025, 4096};
    static const unsigned int shareds[] = {0, 4096, 49152, 49153, 233472};
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    hold_ms = 5;
    for (int i = 0; i < 2 * 7 * 7 * 5; i++) {
        unsigned int g = grids[i / 35 % 7], b = blocks[i / 5 % 7], m = shareds[i % 5];
        if (g == 0x7fffffff && b > 64) /* would run too long */
            continue;
        if (i % 35 == 0)
            hold(s);
        printf("%u %u %u: %d\n", g, b, m, (int)launch_shape(g, b, m, s));
        if (i % 35 == 34)
            release(s);
    }
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(bad_grids_are_refused_while_the_same_block_is_buffered)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    const unsigned int block[] = {256, 1, 1};
    x = buffer_new(3);
    warm(s);
    hold(s);
    SAY(launch_shape(4, 256, 0, s));
    buffered(s);
    SAY(launch_shape(0, 256, 0, s));
    SAY(launch_as(mix, (const unsigned int[]){1, 65536, 1}, block, 0, s));
    SAY(launch_as(mix, (const unsigned int[]){1, 0, 1}, block, 0, s));
    SAY(launch_as(mix, (const unsigned int[]){1, 1, 65536}, block, 0, s));
    SAY(launch_shape(4, 256, 0, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* Libraries raise the limit for big tiles and launch, while another caller lowers it again. */
HAZARD(shared_memory_limit_at_the_call_applies)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    const CUfunction_attribute limit = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    int value = -1;
    x = buffer_new(3);
    warm(s);
    hold_ms = 5;
    for (int i = 0; i < 3; i++) {
        SAY(launch_shape(4, 256, 60000, s));
        SAY(cuFuncSetAttribute(mix, limit, 65536));
        SAY(launch_shape(4, 256, 60000, s));
        hold(s);
        SAY(launch_shape(4, 256, 60000, s));
        SAY(cuFuncSetAttribute(mix, limit, 65536));
        SAY(cuFuncSetAttribute(mix, limit, 0));
        SAY(launch_shape(4, 256, 60000, s));
        SAY(cuFuncGetAttribute(&value, limit, mix));
        printf("limit %d\n", value);
        SAY(cuFuncSetAttribute(mix, limit, 1 << 30));
        release(s);
    }
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(cooperative_grid_that_does_not_fit_is_refused)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    uint32_t a = 3, b = 1, n = N;
    void *params[] = {&x, &a, &b, &n};
    x = buffer_new(3);
    warm(s);
    hold_ms = 5;
    for (int i = 0; i < 3; i++) {
        hold(s);
        SAY(cuLaunchCooperativeKernel(mix, 4, 1, 1, 256, 1, 1, 0, s, params));
        SAY(cuLaunchCooperativeKernel(mix, 100000, 1, 1, 256, 1, 1, 0, s, params));
        release(s);
    }
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

static CUresult launch_clusters(unsigned int grid, unsigned int width, CUstream s)
{
    uint32_t a = 3, b = 1, n = N;
    void *params[] = {&x, &a, &b, &n};
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                              .value.clusterDim = {width, 1, 1}};
    CUlaunchConfig config = {.gridDimX = grid,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 256,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = s,
                             .attrs = &attr,
                             .numAttrs = 1};
    return cuLaunchKernelEx(&config, mix, params, NULL);
}

HAZARD(grid_that_is_no_multiple_of_its_clusters_is_refused)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    hold_ms = 5;
    SAY(launch_clusters(4, 2, s));
    for (unsigned int i = 0; i < 3; i++) {
        hold(s);
        SAY(launch_clusters(6, 2, s));
        SAY(launch_clusters(5 + 2 * i, 2, s));
        SAY(launch_clusters(8, 16, s));
        SAY(launch_clusters(4, 0, s));
        release(s);
    }
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* If the code requires clusters, a plain launch has them, too. */
HAZARD(grid_that_is_no_multiple_of_required_clusters_is_refused)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    hold_ms = 5;
    for (int i = 0; i < 3; i++)
        SAY(cuFuncSetAttribute(
            mix, (CUfunction_attribute)(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i), i ? 1 : 4));
    SAY(launch_shape(4, 256, 0, s));
    for (unsigned int i = 0; i < 3; i++) {
        hold(s);
        SAY(launch_shape(8, 256, 0, s));
        SAY(launch_shape(5 + i, 256, 0, s));
        SAY(launch_clusters(6, 2, s));
        release(s);
    }
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(invalid_arguments_are_refused_while_work_is_buffered)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING), gone = stream_new(CU_STREAM_NON_BLOCKING);
    const unsigned int one[] = {1, 1, 1};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, NULL, CU_LAUNCH_PARAM_END};
    x = buffer_new(3);
    warm(s);
    MUST(cuStreamDestroy(gone));
    hold_ms = 10;
    hold(s);
    SAY(launch_shape(4, 256, 0, s));
    SAY(launch_as(NULL, one, one, 0, s));
    SAY(cuLaunchKernel(mix, 4, 1, 1, 256, 1, 1, 0, s, NULL, NULL));
    SAY(cuLaunchKernel(mix, 4, 1, 1, 256, 1, 1, 0, s, NULL, extra));
    SAY(cuLaunchKernelEx(NULL, mix, NULL, NULL));
    SAY(launch_shape(4, 256, 0, gone));
    SAY(cuStreamDestroy(gone));
    SAY(cuEventRecord(NULL, s));
    SAY(cuStreamWaitEvent(s, NULL, 0));
    SAY(cuStreamWaitEvent(s, NULL, 77));
    SAY(cuLaunchHostFunc(s, NULL, NULL));
    SAY(cuStreamAddCallback(s, NULL, NULL, 0));
    SAY(cuGraphLaunch(NULL, s));
    SAY(cuMemFreeAsync(0, s));
    SAY(cuMemFreeAsync(x + 4, s));
    SAY(cuStreamSynchronize(gone));
    SAY(cuStreamQuery(gone));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* ---- faults on the device ------------------------------------------------------------------ */

static void all_fail(CUstream s, CUevent e)
{
    CUdeviceptr p = 0;
    CUstream other = NULL;
    size_t unused, total;
    SAY(cuStreamSynchronize(s));
    SAY(cuStreamQuery(s));
    SAY(cuEventQuery(e));
    SAY(cuEventSynchronize(e));
    SAY(launch_shape(4, 256, 0, s));
    SAY(cuMemsetD32Async(x, 0, N, s));
    SAY(cuEventRecord(e, s));
    SAY(cuStreamWaitEvent(s, e, 0));
    SAY(cuMemAlloc(&p, BYTES));
    SAY(cuMemAllocAsync(&p, BYTES, s));
    SAY(cuMemGetInfo(&unused, &total));
    SAY(cuStreamCreate(&other, 0));
    SAY(cuMemsetD32(x, 0, N));
    SAY(cuCtxSynchronize());
    SAY(cuMemFree(x));
    SAY(cuEventDestroy(e));
    SAY(cuStreamDestroy(s));
}

HAZARD(fault_of_a_buffered_launch_shows_in_every_later_call)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent e = event_new();
    x = buffer_new(3);
    warm(s);
    hold(s);
    SAY(launch_shape(4, 256, 0, s));
    SAY(launch_mix(0x1000, 1, 1, s));
    cuEventRecord(e, s); /* natively the fault may show here already */
    release(s);
    all_fail(s, e);
}

HAZARD(fault_of_an_ordinary_launch_shows_in_every_later_call)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent e = event_new();
    x = buffer_new(3);
    SAY(cuEventRecord(e, s));
    SAY(launch_mix(0x1000, 1, 1, s));
    all_fail(s, e);
}

HAZARD(fault_in_one_stream_ends_waits_for_a_held_stream)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING), held = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    warm(held);
    hold(held);
    SAY(launch_shape(4, 256, 0, held));
    SAY(launch_mix(0x1000, 1, 1, s));
    SAY(cuStreamSynchronize(s));
    SAY(cuStreamSynchronize(held));
    SAY(cuCtxSynchronize());
    release(held);
}

/* After a fault a reset of the device is the way out. Work after it must run as on a new device. */
HAZARD(primary_context_is_reset_after_a_fault_and_works_again)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    SAY(launch_mix(0x1000, 1, 1, s));
    SAY(cuStreamSynchronize(s));
    SAY(cuDevicePrimaryCtxReset(device));
    gpu_open();
    s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    hold(s);
    SAY(launch_shape(4, 256, 0, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}
