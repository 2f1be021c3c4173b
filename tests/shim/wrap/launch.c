/*
 * launch.c - launches that wait in a vHQ: a program can tell that only by the time.
 */
#include "tests/shim/wrap/rig.h"

#include <string.h>

TestSuite(launch, .init = rig_open, .fini = rig_close);

Test(launch, waits_while_held_and_runs_once_released)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    uint32_t now = 0;
    CUstream other = rig_stream();
    ok(cuMemcpyDtoHAsync(&now, x, sizeof(now), other));
    ok(cuStreamSynchronize(other));
    cr_assert_eq(now, 3);
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    ok(cutin_stream_release(s));
    rig_expect(x, rig_mixed(3, 5, 7), s);
}

Test(launch, parameters_are_read_at_the_call)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(1);
    uint32_t expect = 1;
    ok(cutin_stream_hold(s));
    for (uint32_t i = 0; i < 100; i++) {
        ok(rig_launch(x, i + 3, i, s));
        expect = rig_mixed(expect, i + 3, i);
    }
    ok(cutin_stream_release(s));
    rig_expect(x, expect, s);
}

struct packed_mix {
    CUdeviceptr x;
    uint32_t a, b, n;
};

static CUresult launch_extra(struct packed_mix p, CUstream s)
{
    size_t bytes = sizeof(p);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &p, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    CUresult r = cuLaunchKernel(rig_mix, N / 256, 1, 1, 256, 1, 1, 0, s, NULL, extra);
    p = (struct packed_mix){0};
    bytes = 0;
    return r;
}

Test(launch, extra_buffer_is_read_at_the_call)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(2);
    ok(cutin_stream_hold(s));
    ok(launch_extra((struct packed_mix){x, 3, 4, N}, s));
    ok(launch_extra((struct packed_mix){x, 5, 6, N}, s));
    ok(cutin_stream_release(s));
    rig_expect(x, rig_mixed(rig_mixed(2, 3, 4), 5, 6), s);
}

static CUresult launch_ex_as(CUdeviceptr x, uint32_t a, uint32_t b, CUstream s,
                             CUlaunchAttribute attr, unsigned grid)
{
    uint32_t n = N;
    void *params[] = {&x, &a, &b, &n};
    CUlaunchConfig config = {.gridDimX = grid,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 256,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = s,
                             .attrs = &attr,
                             .numAttrs = 1};
    CUresult r = cuLaunchKernelEx(&config, rig_mix, params, NULL);
    attr.id = 999;
    config.attrs = NULL;
    return r;
}

static CUresult launch_ex(CUdeviceptr x, uint32_t a, uint32_t b, CUstream s)
{
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 0};
    return launch_ex_as(x, a, b, s, attr, N / 256);
}

Test(launch, configuration_is_read_at_the_call)
{
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(2);
    ok(launch_ex(x, 1, 0, s));
    ok(cutin_stream_hold(s));
    ok(launch_ex(x, 3, 4, s));
    ok(launch_ex(x, 5, 6, s));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    ok(cutin_stream_release(s));
    rig_expect(x, rig_mixed(rig_mixed(2, 3, 4), 5, 6), s);
}

static CUstream grids_stream;
static CUdeviceptr grids_buffer;
static uint32_t grids_width; /* of clusters */

/* Launches grids that cover the buffer. Bytes behind an attribute's value are left undefined. */
static void launch_grids(void *user)
{
    for (unsigned i = 1; i <= 200; i++) {
        CUlaunchAttribute attr;
        memset(&attr, (int)i, sizeof(attr));
        attr.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attr.value.clusterDim.x = grids_width;
        attr.value.clusterDim.y = attr.value.clusterDim.z = 1;
        ok(launch_ex_as(grids_buffer, 3, i, grids_stream, attr, (N / 256 + i) * grids_width));
    }
}

static void grids_are_buffered(uint32_t width)
{
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                              .value.clusterDim = {width, 1, 1}};
    struct rig_thread t = {0};
    uint32_t expect = 2;
    grids_stream = rig_stream();
    grids_buffer = rig_buffer(2);
    grids_width = width;
    ok(launch_ex_as(grids_buffer, 1, 0, grids_stream, attr, N / 256 * width));
    ok(cutin_stream_hold(grids_stream));
    rig_start(&t, launch_grids, NULL);
    rig_join(&t); /* it returns while the stream is held */
    ok(cutin_stream_release(grids_stream));
    for (uint32_t i = 1; i <= 200; i++)
        expect = rig_mixed(expect, 3, i);
    rig_expect(grids_buffer, expect, grids_stream);
}

Test(launch, new_grid_is_buffered)
{
    grids_are_buffered(1);
}

Test(launch, new_cluster_count_is_buffered)
{
    grids_are_buffered(4);
}

static CUresult launch_cooperative(CUdeviceptr x, uint32_t a, uint32_t b, CUstream s)
{
    uint32_t n = N;
    void *params[] = {&x, &a, &b, &n};
    return cuLaunchCooperativeKernel(rig_mix, N / 256, 1, 1, 256, 1, 1, 0, s, params);
}

Test(launch, cooperative_kernel_does_not_overtake)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(2);
    ok(launch_cooperative(x, 1, 0, s));
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 3, 4, s));
    ok(launch_cooperative(x, 5, 6, s));
    ok(cutin_stream_release(s));
    rig_expect(x, rig_mixed(rig_mixed(2, 3, 4), 5, 6), s);
}

/* ---- errors ------------------------------------------------------------------------------- */

static CUresult launch_shape(unsigned grid, unsigned block, CUdeviceptr x)
{
    uint32_t a = 1, b = 0, n = N;
    void *params[] = {&x, &a, &b, &n};
    return cuLaunchKernel(rig_mix, grid, 1, 1, block, 1, 1, 0, NULL, params, NULL);
}

Test(launch, bad_shape_fails_the_call)
{
    CUdeviceptr x = rig_buffer(2);
    ok(launch_shape(4, 256, x));
    answers(CUDA_ERROR_INVALID_VALUE, launch_shape(4, 4096, x));
    answers(CUDA_ERROR_INVALID_VALUE, launch_shape(0, 256, x));
    answers(CUDA_ERROR_INVALID_VALUE, launch_shape(0, 256, x));
    answers(CUDA_ERROR_INVALID_VALUE, launch_shape(4, 0, x));
    ok(launch_shape(4, 256, x));
    rig_expect(x, 2, NULL);
}

Test(launch, missing_function_or_parameters_fail_the_call)
{
    cr_assert_neq(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_SUCCESS);
    cr_assert_neq(cuLaunchKernel(rig_mix, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_SUCCESS);
}

static void rig_open_with_fault(void)
{
    rig_open_with("SIMGPU_FAULT", "kernel=fill:nth=2:error=700");
}

static CUresult launch_fill(CUdeviceptr x, uint32_t v, CUstream s)
{
    uint32_t n = N;
    void *params[] = {&x, &v, &n};
    return cuLaunchKernel(rig_fill, N / 256, 1, 1, 256, 1, 1, 0, s, params, NULL);
}

Test(launch_fault, fault_of_deferred_work_fails_every_later_call, .init = rig_open_with_fault)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(0);
    ok(launch_fill(x, 1, s));
    ok(cuStreamSynchronize(s));
    ok(cutin_stream_hold(s));
    ok(launch_fill(x, 2, s));
    ok(launch_fill(x, 3, s));
    ok(cutin_stream_release(s));
    answers(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
    answers(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(s));
    answers(CUDA_ERROR_ILLEGAL_ADDRESS, launch_fill(x, 3, s));
    answers(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

/* ---- lifetime ----------------------------------------------------------------------------- */

static void unload(void *user)
{
    ok(cuModuleUnload(rig_module));
}

Test(launch, module_unload_waits_for_buffered_work)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    struct rig_thread t;
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    rig_start(&t, unload, NULL);
    rig_blocked(&t);
    ok(cutin_stream_release(s));
    rig_join(&t);
    rig_expect(x, rig_mixed(3, 5, 7), s);
}

Test(launch, more_than_queue_holds_all_run)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(1);
    uint32_t expect = 1;
    for (uint32_t i = 0; i < 6000; i++) {
        ok(rig_launch(x, 3, i, s));
        expect = rig_mixed(expect, 3, i);
    }
    rig_expect(x, expect, s);
}
