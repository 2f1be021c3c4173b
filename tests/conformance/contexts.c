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

Test(contexts, created_one_is_current)
{
    cr_assert_eq(current(), rig.ctx);
    CUcontext second = context_new();
    cr_assert_eq(current(), second);
    OK(cuCtxDestroy(second));
    cr_assert_eq(current(), rig.ctx);
}

Test(contexts, push_and_pop)
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

Test(contexts, set_replaces_the_top)
{
    CUcontext other = context_new();
    OK(cuCtxSetCurrent(rig.ctx));
    cr_assert_eq(current(), rig.ctx);
    OK(cuCtxSetCurrent(NULL));
    cr_assert_eq(current(), rig.ctx); /* what lay beneath */
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

Test(contexts, without_one_calls_fail)
{
    CUdeviceptr p;
    OK(cuCtxSetCurrent(NULL));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 4));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
}

Test(contexts, primary_is_one_for_all)
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

Test(contexts, primary_comes_back_after_a_reset)
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

Test(contexts, destroy_finishes_pending_work)
{
    CUcontext other = context_new();
    atomic_int unused = 0;
    (void)unused;
    OK(cuCtxSetCurrent(rig.ctx));
    uint32_t *out = pinned_new();
    CUstream s = stream_new();
    CUdeviceptr p = words_new(6);
    OK(launch_spin(s, 1000000));
    OK(cuMemcpyDtoHAsync(out, p, BYTES, s));
    OK(cuStreamSynchronize(s));
    OK(cuCtxDestroy(other));
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

Test(contexts, device_and_api_version)
{
    CUdevice dev = -1;
    unsigned int version = 0;
    OK(cuCtxGetDevice(&dev));
    cr_assert_eq(dev, rig.dev);
    OK(cuCtxGetApiVersion(rig.ctx, &version));
    cr_assert_geq(version, 3010);
}

Test(contexts, limits_are_kept)
{
    size_t value = 0;
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20));
    OK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    cr_assert_geq(value, 16 << 20);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(&value, (CUlimit)1000)); /* an H100, 580.159.04 */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit((CUlimit)1000, 5));
}

/* A launch goes to its stream's, whichever is current: seen on an H100, 580.159.04. */
Test(contexts, streams_belong_to_one)
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
