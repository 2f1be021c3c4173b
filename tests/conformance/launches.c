/*
 * launches.c - kernels: parameters, limits, attributes, modules and libraries.
 */
#include "rig.h"

TestSuite(launches, .init = rig_open);

Test(launches, parameters_are_read_during_the_call)
{
    struct gate gate;
    CUstream s = stream_new();
    CUdeviceptr p = words_new(0);
    uint32_t v = 5, n = WORDS;
    void *params[] = {&p, &v, &n};
    CUdeviceptr q = p;
    gate_queue(&gate, s);
    OK(cuLaunchKernel(rig.fill, WORDS / 256, 1, 1, 256, 1, 1, 0, s, params, NULL));
    v = 6, n = 1, p = 0;
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    words_are(q, 5);
}

Test(launches, parameters_can_be_passed_in_a_buffer)
{
    CUdeviceptr p = words_new(0);
    struct {
        CUdeviceptr p;
        uint32_t v, n;
    } args = {p, 21, WORDS};
    size_t bytes = sizeof(args);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(rig.fill, WORDS / 256, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
    words_are(p, 21);
}

Test(launches, four_threads_write_exactly_ten_elements)
{
    CUdeviceptr p = words_new(0);
    uint32_t v = 1, n = 10;
    void *params[] = {&p, &v, &n};
    uint32_t out[WORDS];
    OK(cuLaunchKernel(rig.fill, 1, 1, 1, 4, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH(out, p, BYTES));
    for (int i = 0; i < WORDS; i++)
        cr_assert_eq(out[i], i < 10 ? 1 : 0);
}

Test(launches, axpy_computes)
{
    float in[WORDS], out[WORDS];
    CUdeviceptr x = words_new(0), y = words_new(0);
    float a = 2.0f;
    uint32_t n = WORDS;
    for (int i = 0; i < WORDS; i++)
        in[i] = (float)i;
    OK(cuMemcpyHtoD(x, in, BYTES));
    OK(cuMemcpyHtoD(y, in, BYTES));
    void *params[] = {&y, &x, &a, &n};
    OK(cuLaunchKernel(rig.axpy, WORDS / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH(out, y, BYTES));
    for (int i = 0; i < WORDS; i++)
        cr_assert_eq(out[i], 3.0f * (float)i);
}

Test(launches, impossible_configurations_are_refused)
{
    uint64_t ns = 1;
    void *params[] = {&ns};
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuLaunchKernel(rig.spin, 0, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuLaunchKernel(rig.spin, 1, 1, 1, 0, 1, 1, 0, NULL, params, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuLaunchKernel(rig.spin, 1, 1, 1, 4096, 1, 1, 0, NULL, params, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuLaunchKernel(rig.spin, 1, 1 << 20, 1, 32, 1, 1, 0, NULL, params, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuLaunchKernel(rig.spin, 1, 1, 1, 32, 1, 1, 1 << 20, NULL, params, NULL));
    OK(launch_spin(NULL, 1000));
    OK(cuCtxSynchronize()); /* none of them harmed the context */
}

Test(launches, null_function_is_refused)
{
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

Test(launches, launch_kernel_ex_obeys_config_and_attributes)
{
    CUdeviceptr p = words_new(1);
    uint32_t a = 7, b = 3, n = WORDS;
    void *params[] = {&p, &a, &b, &n};
    struct gate gate;
    CUlaunchAttribute attrs[1];
    memset(attrs, 0, sizeof(attrs));
    attrs[0].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    CUlaunchConfig config = {.gridDimX = WORDS / 256,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 256,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream_new(),
                             .attrs = attrs,
                             .numAttrs = 1};
    gate_queue(&gate, config.hStream);
    OK(launch_fill(config.hStream, p, 2));
    OK(cuLaunchKernelEx(&config, rig.mix, params, NULL)); /* after the fill */
    gate_open(&gate);
    OK(cuStreamSynchronize(config.hStream));
    words_are(p, 17);
    config.sharedMemBytes = 1 << 20;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&config, rig.mix, params, NULL));
    config.sharedMemBytes = 0;
    if (!rig_attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH))
        return;
    config.gridDimX = 1 << 20;
    attrs[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attrs[0].value.cooperative = 1;
    FAILS(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
          cuLaunchKernelEx(&config, rig.mix, params, NULL));
    config.numAttrs = 0; /* only the attribute forbids it */
    OK(cuLaunchKernelEx(&config, rig.mix, params, NULL));
    OK(cuStreamSynchronize(config.hStream));
    words_are(p, 122);
}

Test(launches, cooperative_grids_must_fit)
{
    uint64_t ns = 1000;
    void *params[] = {&ns};
    if (!rig_attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH))
        cr_skip_test("no cooperative launch");
    OK(cuLaunchCooperativeKernel(rig.spin, 1, 1, 1, 32, 1, 1, 0, NULL, params));
    FAILS(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
          cuLaunchCooperativeKernel(rig.spin, 1 << 20, 1, 1, 1024, 1, 1, 0, NULL, params));
    OK(cuCtxSynchronize());
}

Test(launches, function_attributes_are_those_of_the_function)
{
    const CUfunction_attribute shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    int value = 0, most = 0;
    uint64_t ns = 1;
    void *params[] = {&ns};
    OK(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, rig.spin));
    cr_assert_gt(most, 0);
    cr_assert_leq(most, 1024);
    OK(cuLaunchKernel(rig.spin, 1, 1, 1, (unsigned)most, 1, 1, 0, NULL, params, NULL));
    cr_assert_neq(
        cuLaunchKernel(rig.spin, 1, 1, 1, (unsigned)most + 1, 1, 1, 0, NULL, params, NULL),
        CUDA_SUCCESS);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, rig.spin));
    cr_assert_eq(value, 0); /* it declares none */
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, rig.spin));
    cr_assert_gt(value, 0);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_BINARY_VERSION, rig.spin));
    cr_assert_eq(value / 10, rig_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
    for (int bytes = 1024; bytes <= 4096; bytes *= 2) {
        OK(cuFuncSetAttribute(rig.spin, shared, bytes));
        OK(cuFuncGetAttribute(&value, shared, rig.spin));
        cr_assert_eq(value, bytes);
    }
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuFuncGetAttribute(&value, (CUfunction_attribute)10000, rig.spin));
    OK(cuCtxSynchronize());
}

#if CUDA_VERSION >= 12040
/* cuda_occupancy.h, cudaOccAvailableDynamicSMemPerBlock: "Cap computed dynamic SM by user requested
 * limit specified via cuFuncSetAttribute()". */
Test(launches, available_shared_memory_respects_function_limit)
{
    size_t bytes = 0;
    int most = 0;
    OK(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, rig.spin));
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, rig.spin, 1, 32));
    cr_assert_gt(bytes, 0);
    cr_assert_leq(bytes, (size_t)most);
    OK(cuFuncSetAttribute(rig.spin, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096));
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, rig.spin, 1, 32));
    cr_assert_leq(bytes, 4096);
}

/* The guide's chapter on compute capabilities: the device's attributes say how much is resident on
 * a multiprocessor, and how much a block may have. */
Test(launches, occupancy_follows_device_limits)
{
    int threads = rig_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    int blocks = rig_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    int most = rig_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    int whole = rig_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    const CUfunction_attribute shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    int fit = 0;
    cr_assert_leq(most, whole);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, rig.spin, 32, 0));
    cr_assert_eq(fit, blocks < threads / 32 ? blocks : threads / 32);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, rig.spin, 512, 0));
    cr_assert_eq(fit, threads / 512);
    OK(cuFuncSetAttribute(rig.spin, shared, most));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, rig.spin, 32, (size_t)most));
    cr_assert_eq(fit, 1);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(rig.spin, shared, most + 1));
}

/* cuda.h: "The size in bytes of user-allocated constant memory required by this function", "... of
 * local memory used by each thread of this function". */
Test(launches, function_reports_local_and_constant_memory)
{
    static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                               ".const .align 4 .u32 table[100];\n"
                               ".visible .entry f(.param .u64 out, .param .u32 at) {\n"
                               "  .local .align 4 .b8 stack[4000];\n"
                               "  .reg .b64 %d<5>; .reg .b32 %r<4>;\n"
                               "  ld.param.u64 %d0, [out]; cvta.to.global.u64 %d0, %d0;\n"
                               "  ld.param.u32 %r0, [at]; mul.wide.u32 %d1, %r0, 4;\n"
                               "  mov.u64 %d2, stack; add.u64 %d2, %d2, %d1;\n"
                               "  mov.u64 %d3, table; add.u64 %d3, %d3, %d1;\n"
                               "  st.volatile.local.u32 [%d2], %r0;\n"
                               "  ld.volatile.local.u32 %r1, [stack];\n"
                               "  ld.const.u32 %r2, [%d3]; add.u32 %r1, %r1, %r2;\n"
                               "  st.global.u32 [%d0], %r1; ret; }\n";
    CUmodule module;
    CUfunction f;
    int bytes = 0;
    OK(cuModuleLoadData(&module, text));
    OK(cuModuleGetFunction(&f, module, "f"));
    OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f));
    cr_assert_geq(bytes, 4000);
    OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, f));
    cr_assert_geq(bytes, 400);
    OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, rig.spin));
    cr_assert_lt(bytes, 4000);
}

#if CUDA_VERSION >= 12030
/* cuda.h: "If either **name or hfunc is NULL, CUDA_ERROR_INVALID_VALUE is returned". */
Test(launches, function_name_is_returned_and_null_refused)
{
    const char *name = NULL;
    OK(cuFuncGetName(&name, rig.spin));
    cr_assert_str_eq(name, "spin");
    FAILS(CUDA_ERROR_INVALID_VALUE, cuFuncGetName(&name, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuFuncGetName(NULL, rig.spin));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuKernelGetName(&name, NULL));
}
#endif

Test(launches, parameter_info_returns_offset_and_size)
{
    static const size_t offsets[] = {0, 8, 12, 16, 24}, sizes[] = {8, 4, 4, 4, 8};
    size_t offset, bytes;
    int version = 0;
    OK(cuDriverGetVersion(&version));
    if (version < 12040)
        cr_skip_test("parameter information came with CUDA 12.4");
    for (size_t i = 0; i < 5; i++) {
        OK(cuFuncGetParamInfo(rig.mix_spin, i, &offset, &bytes));
        cr_assert_eq(offset, offsets[i]);
        cr_assert_eq(bytes, sizes[i]);
    }
    FAILS(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(rig.mix_spin, 5, &offset, &bytes));
}
#endif

Test(launches, unknown_function_is_not_found)
{
    CUfunction f;
    FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, rig.module, "nonesuch"));
}

Test(launches, missing_file_is_not_found)
{
    CUmodule m;
    FAILS(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&m, "/nonexistent/kernels.ptx"));
}

Test(launches, invalid_module_image_is_refused)
{
    CUmodule m;
    CUresult rc = cuModuleLoadData(&m, "this is not a module");
    cr_assert(rc == CUDA_ERROR_INVALID_IMAGE || rc == CUDA_ERROR_INVALID_PTX, "gave %d", (int)rc);
}

Test(launches, launched_kernels_finish_after_module_unload)
{
    CUstream s = stream_new();
    CUdeviceptr p = words_new(1);
    OK(launch_spin(s, 1000000));
    OK(launch_mix(s, p, 3, 4));
    OK(cuModuleUnload(rig.module));
    OK(cuStreamSynchronize(s));
    words_are(p, 7);
}

Test(launches, library_kernels_launch_like_functions)
{
    CUlibrary library;
    CUkernel kernel;
    CUdeviceptr p = words_new(1);
    uint32_t a = 5, b = 1, n = WORDS;
    void *params[] = {&p, &a, &b, &n};
    OK(cuLibraryLoadFromFile(&library, rig_kernels(), NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "mix"));
    OK(cuLaunchKernel((CUfunction)kernel, WORDS / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    words_are(p, 6);
    OK(cuLibraryUnload(library));
}

static CUresult launch_shared(CUfunction f, unsigned int bytes)
{
    CUdeviceptr p = words_new(1);
    uint32_t a = 1, b = 1, n = WORDS;
    void *params[] = {&p, &a, &b, &n};
    return cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, bytes, NULL, params, NULL);
}

/* cuda.h of cuKernelSetAttribute: "Note that attributes set using ::cuFuncSetAttribute() will
 * override the attribute set by this API irrespective of whether the call to ::cuFuncSetAttribute()
 * is made before or after this API call. However, ::cuKernelGetAttribute() will always return the
 * attribute value set by this API." */
Test(launches, function_attribute_overrides_kernel_attribute)
{
    enum { LITTLE = 1 << 10, MUCH = 64 << 10 };
    const CUfunction_attribute shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CUlibrary library;
    CUkernel kernel;
    CUfunction f;
    int bytes;
    if (rig_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) < MUCH)
        cr_skip_test("blocks have less shared memory");
    OK(cuLibraryLoadFromFile(&library, rig_kernels(), NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "mix"));
    OK(cuKernelGetFunction(&f, kernel));
    OK(cuKernelSetAttribute(shared, MUCH, kernel, rig.dev));
    OK(launch_shared(f, MUCH));
    for (int first = 0; first < 2; first++) {
        if (first)
            OK(cuFuncSetAttribute(f, shared, LITTLE));
        OK(cuKernelSetAttribute(shared, MUCH, kernel, rig.dev));
        if (!first)
            OK(cuFuncSetAttribute(f, shared, LITTLE));
        FAILS(CUDA_ERROR_INVALID_VALUE, launch_shared(f, MUCH));
        FAILS(CUDA_ERROR_INVALID_VALUE, launch_shared((CUfunction)kernel, MUCH));
        OK(cuFuncGetAttribute(&bytes, shared, f));
        cr_assert_eq(bytes, LITTLE);
        OK(cuKernelGetAttribute(&bytes, shared, kernel, rig.dev));
        cr_assert_eq(bytes, MUCH);
    }
    OK(cuFuncSetAttribute(f, shared, MUCH));
    OK(cuKernelSetAttribute(shared, LITTLE, kernel, rig.dev));
    OK(launch_shared((CUfunction)kernel, MUCH));
    OK(cuLibraryUnload(library));
}
