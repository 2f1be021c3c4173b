/*
 * launch.c - launches, functions, modules and libraries of the simulated driver.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(launch, .init = sim_open, .fini = sim_close);

enum { N = 1000 };

static CUdeviceptr words(size_t n)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, n * 4));
    return p;
}

static CUresult spin_shape(unsigned int gx, unsigned int gy, unsigned int bx, unsigned int bz,
                           unsigned int smem)
{
    uint64_t ns = 1;
    void *params[] = {&ns};
    return cuLaunchKernel(sim.spin, gx, gy, 1, bx, 1, bz, smem, NULL, params, NULL);
}

Test(launch, shape_beyond_device_limits_is_refused)
{
    EXPECT(spin_shape(1, 1, 32, 1, 0), CUDA_SUCCESS);
    EXPECT(spin_shape(0, 1, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(spin_shape(1, 0, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(spin_shape(1, 65536, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(spin_shape(0x80000000u, 1, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(spin_shape(1, 1, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(spin_shape(1, 1, 1025, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(spin_shape(1, 1, 32, 65, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(spin_shape(1, 1, 512, 4, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(spin_shape(1, 1, 32, 1, 49153), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuFuncSetAttribute(sim.spin, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    EXPECT(spin_shape(1, 1, 32, 1, 49153), CUDA_SUCCESS);
    EXPECT(cuFuncSetAttribute(sim.spin, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000),
           CUDA_ERROR_INVALID_VALUE);
    CHECK(cuCtxSynchronize());
}

Test(launch, known_kernels_compute_their_results)
{
    CUdeviceptr x = words(N), y = words(N);
    uint32_t u[N], n = N, value = 0x40400000u; /* 3.0f */
    float f[N], a = 2;
    void *fill[] = {&x, &value, &n}, *copy[] = {&y, &x, &n}, *axpy[] = {&y, &x, &a, &n};
    CHECK(cuLaunchKernel(sim.fill, 2, 1, 1, 64, 1, 1, 0, NULL, fill, NULL));
    CHECK(cuLaunchKernel(sim.copy, 2, 1, 1, 64, 1, 1, 0, NULL, copy, NULL));
    CHECK(cuLaunchKernel(sim.axpy, 2, 1, 1, 64, 1, 1, 0, NULL, axpy, NULL));
    CHECK(cuMemcpyDtoH(f, y, sizeof(f)));
    for (int i = 0; i < N; i++)
        cr_assert_eq(f[i], 9.0f);
    CHECK(cuMemsetD32(x, 5, N));
    uint64_t ns = 100 * US;
    uint32_t mul = 7, add = 1;
    void *mix_spin[] = {&x, &mul, &add, &n, &ns};
    CHECK(cuLaunchKernel(sim.mix_spin, 2, 1, 1, 64, 1, 1, 0, NULL, mix_spin, NULL));
    CHECK(cuMemcpyDtoH(u, x, sizeof(u)));
    for (int i = 0; i < N; i++)
        cr_assert_eq(u[i], 36);
}

Test(launch, extra_buffer_passes_the_parameters)
{
    struct __attribute__((packed)) {
        CUdeviceptr x;
        uint32_t a, b, n;
    } packed = {words(N), 3, 4, N};
    size_t bytes = sizeof(packed), without_n = sizeof(packed) - sizeof(packed.n);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    void *params[] = {&packed.x, &packed.a, &packed.b, &packed.n};
    uint32_t u[N];
    CHECK(cuMemsetD32(packed.x, 1, N));
    CHECK(cuLaunchKernel(sim.mix, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    CHECK(cuMemcpyDtoH(u, packed.x, sizeof(u)));
    cr_expect_eq(u[N - 1], 7);
    EXPECT(cuLaunchKernel(sim.mix, 1, 1, 1, 32, 1, 1, 0, NULL, params, extra),
           CUDA_ERROR_INVALID_VALUE);
    extra[3] = &without_n; /* a missing parameter is 0: `n` here, so nothing is mixed */
    CHECK(cuLaunchKernel(sim.mix, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    CHECK(cuMemcpyDtoH(u, packed.x, sizeof(u)));
    cr_expect_eq(u[N - 1], 7);
    EXPECT(cuLaunchKernel(sim.mix, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL),
           CUDA_ERROR_INVALID_VALUE);
}

Test(launch, parameters_are_copied_at_the_call)
{
    CUstream s;
    CUdeviceptr x = words(N);
    uint32_t a = 3, b = 1, n = N, u[N];
    void *params[] = {&x, &a, &b, &n};
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemsetD32(x, 1, N));
    CHECK(cuCtxSynchronize());
    launch_spin(s, 1, 3 * MS);
    CHECK(cuLaunchKernel(sim.mix, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
    a = 100;
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemcpyDtoH(u, x, sizeof(u)));
    cr_expect_eq(u[0], 4);
}

Test(launch, cooperative_launches_must_fit)
{
    int per_sm, sms;
    uint64_t ns = 1;
    void *params[] = {&ns};
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, sim.spin, 256, 0));
    CHECK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    unsigned int most = (unsigned int)(per_sm * sms);
    EXPECT(cuLaunchCooperativeKernel(sim.spin, most, 1, 1, 256, 1, 1, 0, NULL, params),
           CUDA_SUCCESS);
    EXPECT(cuLaunchCooperativeKernel(sim.spin, most + 1, 1, 1, 256, 1, 1, 0, NULL, params),
           CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

static void open_8_6(void)
{
    setenv("SIMGPU_COMPUTE", "8.6", 1);
    sim_open();
}

/* A multiprocessor of compute capability 8.6 has room for 1536 threads. */
Test(launch_8_6, sm_holds_1536_cooperative_threads, .init = open_8_6, .fini = sim_close)
{
    int minor, sms;
    CHECK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    CHECK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    cr_expect_eq(minor, 6);
    uint64_t ns = 1;
    void *params[] = {&ns};
    unsigned int most = 6 * (unsigned int)sms;
    EXPECT(cuLaunchCooperativeKernel(sim.spin, most, 1, 1, 256, 1, 1, 0, NULL, params),
           CUDA_SUCCESS);
    EXPECT(cuLaunchCooperativeKernel(sim.spin, most + 1, 1, 1, 256, 1, 1, 0, NULL, params),
           CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

Test(launch, extended_launch_refuses_wrong_attributes)
{
    uint64_t ns = 1;
    void *params[] = {&ns};
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    a.value.clusterDim.x = 2;
    a.value.clusterDim.y = a.value.clusterDim.z = 1;
    CUlaunchConfig c = {.gridDimX = 4,
                        .gridDimY = 1,
                        .gridDimZ = 1,
                        .blockDimX = 32,
                        .blockDimY = 1,
                        .blockDimZ = 1,
                        .attrs = &a,
                        .numAttrs = 1};
    EXPECT(cuLaunchKernelEx(&c, sim.spin, params, NULL), CUDA_SUCCESS);
    c.gridDimX = 3;
    EXPECT(cuLaunchKernelEx(&c, sim.spin, params, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    a.id = (CUlaunchAttributeID)999;
    EXPECT(cuLaunchKernelEx(&c, sim.spin, params, NULL), CUDA_ERROR_INVALID_VALUE);
}

Test(launch, programmatic_event_is_recorded_by_the_launch)
{
    CUevent e;
    CUstream s;
    CUdeviceptr at;
    _Atomic uint32_t *word = host_words(&at);
    uint64_t ns = 10 * US;
    void *params[] = {&ns};
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWaitValue32(s, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    a.value.programmaticEvent.event = e;
    CUlaunchConfig c = {.gridDimX = 1,
                        .gridDimY = 1,
                        .gridDimZ = 1,
                        .blockDimX = 32,
                        .blockDimY = 1,
                        .blockDimZ = 1,
                        .hStream = s,
                        .attrs = &a,
                        .numAttrs = 1};
    CHECK(cuLaunchKernelEx(&c, sim.spin, params, NULL));
    EXPECT(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    *word = 1;
    CHECK(cuEventSynchronize(e));
}

#if CUDA_VERSION >= 12040
Test(launch, param_info_gives_offsets_and_sizes)
{
    static const size_t offsets[] = {0, 8, 12, 16, 24}, sizes[] = {8, 4, 4, 4, 8};
    for (size_t i = 0; i < 5; i++) {
        size_t offset, size;
        CHECK(cuFuncGetParamInfo(sim.mix_spin, i, &offset, &size));
        cr_expect_eq(offset, offsets[i]);
        cr_expect_eq(size, sizes[i]);
    }
    size_t offset;
    EXPECT(cuFuncGetParamInfo(sim.mix_spin, 5, &offset, NULL), CUDA_ERROR_INVALID_VALUE);
}
#endif

Test(launch, legacy_param_set_and_launch_grid_work)
{
    CUdeviceptr x = words(N);
    uint32_t u[N];
    CHECK(cuMemsetD32(x, 1, N));
    CHECK(cuFuncSetBlockShape(sim.mix, 64, 1, 1));
    CHECK(cuParamSetv(sim.mix, 0, &x, sizeof(x)));
    CHECK(cuParamSeti(sim.mix, 8, 5));
    CHECK(cuParamSeti(sim.mix, 12, 2));
    CHECK(cuParamSeti(sim.mix, 16, N));
    CHECK(cuParamSetSize(sim.mix, 20));
    CHECK(cuLaunchGrid(sim.mix, 4, 1));
    CHECK(cuMemcpyDtoH(u, x, sizeof(u)));
    cr_expect_eq(u[N - 1], 7);
}

static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .global .align 4 .u32 table[3] = {5, -1, 7};\n"
                           ".visible .entry strange(.param .u64 p) { ret; }\n";

Test(launch, module_gives_functions_and_globals_until_unloaded)
{
    CUmodule m;
    CUfunction f;
    CUdeviceptr at;
    size_t bytes;
    int32_t table[3];
    uint64_t p = 0;
    void *params[] = {&p};
    CHECK(cuModuleLoadData(&m, text));
    CHECK(cuModuleGetFunction(&f, m, "strange"));
    EXPECT(cuModuleGetFunction(&f, m, "nothing"), CUDA_ERROR_NOT_FOUND);
    CHECK(cuModuleGetGlobal(&at, &bytes, m, "table"));
    cr_expect_eq(bytes, 12);
    CHECK(cuMemcpyDtoH(table, at, sizeof(table)));
    cr_expect_eq(table[0], 5);
    cr_expect_eq(table[1], -1);
    cr_expect_eq(table[2], 7);
    CHECK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    CHECK(cuModuleUnload(m));
    EXPECT(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuModuleLoadData(&m, "no ptx at all"), CUDA_ERROR_INVALID_PTX);
    EXPECT(cuModuleLoad(&m, "/nonexistent.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
}

Test(launch, library_kernels_launch_like_functions)
{
    CUlibrary l;
    CUkernel k;
    CUfunction f;
    CUmodule m;
    CUdeviceptr at;
    uint64_t p = 0;
    void *params[] = {&p};
    CHECK(cuLibraryLoadData(&l, text, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&k, l, "strange"));
    CHECK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    CHECK(cuKernelGetFunction(&f, k));
    CHECK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    CHECK(cuLibraryGetModule(&m, l));
    CHECK(cuLibraryGetGlobal(&at, NULL, l, "table"));
    EXPECT(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuLibraryUnload(l));
    EXPECT(cuLibraryUnload(l), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuLaunchKernel((CUfunction)k, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL),
           CUDA_ERROR_INVALID_HANDLE);
}

/* The runtime asks for the variables before it has made a context. */
Test(launch, managed_library_variable_is_shared_by_contexts)
{
    static const char image[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".visible .global .attribute(.managed) .u32 both = 7;\n.visible .global .u32 device;";
    CUlibrary l;
    CUcontext ctx, other;
    CUdeviceptr first, second, own[2];
    size_t bytes;
    int managed;
    CHECK(cuCtxPopCurrent(&ctx));
    CHECK(cuLibraryLoadData(&l, image, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetManaged(&first, &bytes, l, "both"));
    cr_expect_eq(bytes, 4);
    cr_expect_eq(*(uint32_t *)(uintptr_t)first, 7);
    EXPECT(cuLibraryGetManaged(&second, NULL, l, "device"), CUDA_ERROR_NOT_FOUND);
    EXPECT(cuLibraryGetGlobal(&second, NULL, l, "both"), CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuCtxPushCurrent(ctx));
    CHECK(cuLibraryGetGlobal(&second, NULL, l, "both"));
    cr_expect_eq(first, second);
    CHECK(cuLibraryGetGlobal(&own[0], NULL, l, "device"));
    CHECK(cuCtxCreate(&other, NULL, 0, 0));
    CHECK(cuLibraryGetGlobal(&second, NULL, l, "both"));
    cr_expect_eq(first, second);
    CHECK(cuLibraryGetGlobal(&own[1], NULL, l, "device"));
    cr_expect_neq(own[0], own[1], "only managed ones are the same");
    CHECK(cuMemsetD32(second, 8, 1));
    CHECK(cuCtxDestroy(other));
    cr_expect_eq(*(uint32_t *)(uintptr_t)first, 8);
    CHECK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, first));
    cr_expect(managed);
    EXPECT(cuMemFree(first), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLibraryUnload(l));
    EXPECT(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, first),
           CUDA_ERROR_INVALID_VALUE);
}

/* The runtime finds the host's name of a kernel by `kern`. */
Test(launch, graph_node_params_return_the_library_kernel)
{
    CUlibrary l;
    CUkernel k;
    CUgraph g;
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS back;
    uint64_t p = 0;
    void *values[] = {&p};
    CHECK(cuLibraryLoadData(&l, text, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&k, l, "strange"));
    CHECK(cuGraphCreate(&g, 0));
    CUDA_KERNEL_NODE_PARAMS params = {.kern = k,
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 1,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = values};
    CHECK(cuGraphAddKernelNode(&node, g, NULL, 0, &params));
    CHECK(cuGraphKernelNodeGetParams(node, &back));
    cr_expect_eq(back.kern, k);
    CHECK(cuGraphDestroy(g));
    CHECK(cuLibraryUnload(l));
}

#define TEN(x) x x x x x x x x x x
#define LONG   "_Z" TEN(TEN("vectorized"))

/* Names of template kernels may differ only in the last of a thousand characters. */
Test(launch, log_holds_full_kernel_name_and_shape)
{
    static const char image[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry " LONG "() { ret; }";
    CUmodule m;
    CUfunction f;
    char line[4096];
    CHECK(cuModuleLoadData(&m, image));
    CHECK(cuModuleGetFunction(&f, m, LONG));
    CHECK(cuLaunchKernel(f, 3, 2, 1, 32, 4, 1, 512, NULL, NULL, NULL));
    CHECK(cuModuleUnload(m));
    CHECK(cuCtxSynchronize());
    FILE *log = fopen(sim.log, "r");
    cr_assert(log && fgets(line, sizeof(line), log));
    cr_expect_not_null(strstr(line, "name=" LONG " "), "%s", line);
    cr_expect_not_null(strstr(line, " grid=3,2,1 block=32,4,1 smem=512\n"), "%s", line);
    fclose(log);
}
