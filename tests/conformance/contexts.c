/*
 * contexts.c - contexts: the stack of each thread, primary contexts, destruction.
 */
#include "rig.h"

TestSuite(contexts, .init = rig_open);

static CUcontext context_new(void)
{
    CUcontext ctx;
    OK(rig_context(&ctx));
    return ctx;
}

static CUcontext current(void)
{
    CUcontext ctx = NULL;
    OK(cuCtxGetCurrent(&ctx));
    return ctx;
}

Test(contexts, new_context_becomes_current)
{
    cr_assert_eq(current(), rig.ctx);
    CUcontext second = context_new();
    cr_assert_eq(current(), second);
    OK(cuCtxDestroy(second));
    cr_assert_eq(current(), rig.ctx);
}

Test(contexts, pop_undoes_push_and_fails_on_empty_stack)
{
    CUcontext other = context_new(), popped = NULL;
    OK(cuCtxPushCurrent(rig.ctx));
    cr_assert_eq(current(), rig.ctx);
    OK(cuCtxPopCurrent(&popped));
    cr_assert_eq(popped, rig.ctx);
    cr_assert_eq(current(), other);
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxPopCurrent(NULL));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(NULL));
}

Test(contexts, set_current_replaces_or_pops_top_of_stack)
{
    CUcontext other = context_new();
    OK(cuCtxSetCurrent(rig.ctx));
    cr_assert_eq(current(), rig.ctx);
    OK(cuCtxSetCurrent(NULL));
    cr_assert_eq(current(), rig.ctx); /* the one below it */
    OK(cuCtxDestroy(other));
}

static void look_for_current(void *out)
{
    OK(cuCtxSetCurrent(NULL));
    *(CUcontext *)out = current();
}

Test(contexts, each_thread_has_its_own_stack)
{
    CUcontext seen = rig.ctx;
    in_thread(look_for_current, &seen);
    cr_assert_null(seen);
    cr_assert_eq(current(), rig.ctx);
}

Test(contexts, calls_without_current_context_fail)
{
    CUdeviceptr p;
    OK(cuCtxSetCurrent(NULL));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 4));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
}

Test(contexts, primary_context_is_shared_and_reference_counted)
{
    CUcontext a, b;
    unsigned int flags;
    int active = 1;
    OK(cuDevicePrimaryCtxGetState(rig.dev, &flags, &active));
    cr_assert_eq(active, 0);
    OK(cuDevicePrimaryCtxRetain(&a, rig.dev));
    OK(cuDevicePrimaryCtxRetain(&b, rig.dev));
    cr_assert_eq(a, b);
    OK(cuDevicePrimaryCtxRelease(rig.dev));
    OK(cuDevicePrimaryCtxGetState(rig.dev, &flags, &active));
    cr_assert_eq(active, 1);
    OK(cuDevicePrimaryCtxRelease(rig.dev));
    OK(cuDevicePrimaryCtxGetState(rig.dev, &flags, &active));
    cr_assert_eq(active, 0);
}

Test(contexts, primary_context_can_be_retained_after_reset)
{
    CUcontext a, b;
    CUdeviceptr p;
    OK(cuDevicePrimaryCtxRetain(&a, rig.dev));
    OK(cuDevicePrimaryCtxReset(rig.dev));
    OK(cuDevicePrimaryCtxRetain(&b, rig.dev));
    OK(cuCtxSetCurrent(b));
    OK(cuMemAlloc(&p, 4));
    OK(cuMemFree(p));
}

/* The static runtime of CUDA 11.8 asks this between cudaSetDevice and its first real call. */
Test(contexts, inactive_primary_context_reports_its_device)
{
    CUcontext primary;
    CUstream s;
    CUdevice dev = -1;
    unsigned int flags, version;
    OK(cuDevicePrimaryCtxRetain(&primary, rig.dev));
    OK(cuDevicePrimaryCtxRelease(rig.dev));
    OK(cuCtxSetCurrent(primary));
    OK(cuCtxGetDevice(&dev));
    cr_expect_eq(dev, rig.dev);
    OK(cuCtxGetFlags(&flags));
    OK(cuCtxGetApiVersion(primary, &version));
    FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamCreate(&s, 0));
    OK(cuDevicePrimaryCtxRetain(&primary, rig.dev));
    OK(cuStreamCreate(&s, 0));
    OK(cuDevicePrimaryCtxRelease(rig.dev));
}

/* Work of another context, that is: cuda.h does not say what becomes of the destroyed one's. */
Test(contexts, destroy_leaves_work_of_another_context_alone)
{
    struct gate gate;
    CUcontext other = context_new();
    OK(cuCtxSetCurrent(rig.ctx));
    uint32_t *out = pinned_new();
    CUstream s = stream_new();
    CUdeviceptr p = words_new(3);
    gate_queue(&gate, s);
    OK(launch_mix(s, p, 2, 0));
    OK(cuMemcpyDtoHAsync(out, p, BYTES, s));
    OK(cuCtxDestroy(other));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    cr_assert_eq(out[0], 0);
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    cr_assert_eq(out[0], 6);
}

Test(contexts, ids_differ)
{
    unsigned long long a = 0, b = 0;
    CUcontext other = context_new();
    OK(cuCtxGetId(rig.ctx, &a));
    OK(cuCtxGetId(other, &b));
    cr_assert_neq(a, b);
}

Test(contexts, device_and_api_version_can_be_queried)
{
    CUdevice dev = -1;
    unsigned int version = 0;
    OK(cuCtxGetDevice(&dev));
    cr_assert_eq(dev, rig.dev);
    OK(cuCtxGetApiVersion(rig.ctx, &version));
    cr_assert_geq(version, 3010);
}

Test(contexts, limit_is_kept_and_unknown_limit_is_refused)
{
    size_t value = 0;
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20));
    OK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    cr_assert_geq(value, 16 << 20);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(&value, (CUlimit)1000)); /* an H100, 580.159.04 */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit((CUlimit)1000, 5));
}

/* A launch goes to its stream's context, whichever is current: seen on an H100, 580.159.04. */
Test(contexts, launch_runs_in_its_streams_context)
{
    CUstream s = stream_new();
    CUdeviceptr p = words_new(1);
    CUcontext other = context_new();
    CUevent foreign = event_new();
    OK(launch_mix(s, p, 2, 1));
    OK(cuStreamSynchronize(s));
    words_are(p, 3);
    OK(cuCtxSetCurrent(rig.ctx));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(foreign, s));
    OK(cuStreamWaitEvent(s, foreign, 0)); /* waiting across contexts is allowed */
    OK(cuCtxDestroy(other));
}

#if CUDA_VERSION >= 13000
struct sm_group { /* CU_DEV_SM_RESOURCE_GROUP_PARAMS of CUDA 13.1 */
    unsigned int sms, coscheduled, preferred, flags, others[12];
};
typedef CUresult split(CUdevResource *, unsigned int, const CUdevResource *, CUdevResource *,
                       unsigned int, struct sm_group *);
typedef CUresult stream_resource(CUstream, CUdevResource *, CUdevResourceType);

/* cuda.h 13.1, cuDevSmResourceSplit, examples 1 and 2: "the result will have 10 SMs ... The rest is
 * placed in the optional remainder"; cuStreamGetDevResource: "Get the type resources available to
 * the hStream". */
Test(newest, green_context_has_the_split_off_multiprocessors, .init = rig_open_newest)
{
    split *divide = (split *)rig_function("cuDevSmResourceSplit", 13010);
    stream_resource *of_stream = (stream_resource *)rig_function("cuStreamGetDevResource", 13010);
    struct sm_group groups[2] = {{10, 2, 0, 0, {0}}, {0, 2, 0, 0, {0}}};
    CUdevResource all, parts[2], rest, seen;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUcontext ctx;
    CUstream s;
    OK(cuDeviceGetDevResource(rig.dev, &all, CU_DEV_RESOURCE_TYPE_SM));
    if (all.sm.smCount < 14)
        cr_skip_test("%u multiprocessors are few", all.sm.smCount);
    OK(divide(parts, 1, &all, &rest, 0, groups));
    cr_assert_eq(parts[0].sm.smCount, 10);
    cr_assert_eq(rest.sm.smCount, all.sm.smCount - 10);
    OK(divide(NULL, 2, &all, NULL, 0, groups)); /* writes how many the second group may have */
    cr_assert_geq(groups[1].sms, 2);
    cr_assert_leq(groups[1].sms, all.sm.smCount - 10);
    groups[0].sms = all.sm.smCount + 2;
    FAILS(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, divide(parts, 1, &all, NULL, 0, groups));
    OK(cuDevResourceGenerateDesc(&desc, parts, 1));
    OK(cuGreenCtxCreate(&green, desc, rig.dev, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuGreenCtxGetDevResource(green, &seen, CU_DEV_RESOURCE_TYPE_SM));
    cr_assert_eq(seen.sm.smCount, 10);
    OK(cuCtxFromGreenCtx(&ctx, green));
    OK(cuCtxGetDevResource(ctx, &seen, CU_DEV_RESOURCE_TYPE_SM));
    cr_assert_eq(seen.sm.smCount, 10);
    OK(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
    OK(of_stream(s, &seen, CU_DEV_RESOURCE_TYPE_SM));
    cr_assert_eq(seen.sm.smCount, 10);
    OK(of_stream(stream_new(), &seen, CU_DEV_RESOURCE_TYPE_SM));
    cr_assert_eq(seen.sm.smCount, all.sm.smCount);
    FAILS(CUDA_ERROR_INVALID_RESOURCE_TYPE,
          cuGreenCtxGetDevResource(green, &seen, (CUdevResourceType)1000));
    OK(cuStreamDestroy(s));
    OK(cuGreenCtxDestroy(green));
}
#endif
