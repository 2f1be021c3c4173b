/*
 * pools.c - allocation in stream order.
 */
#include "rig.h"

static void open_pools(void)
{
    rig_open();
    if (!rig_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        cr_skip_test("no memory pools");
}

TestSuite(pools, .init = open_pools);

static CUmemoryPool pool_new(void)
{
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, rig.dev}};
    OK(cuMemPoolCreate(&pool, &props));
    return pool;
}

static uint64_t pool_amount(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

Test(pools, address_is_known_when_the_call_returns)
{
    struct gate gate;
    CUstream s = stream_new();
    CUdeviceptr p = 0, back = words_new(0);
    gate_queue(&gate, s);
    OK(cuMemAllocAsync(&p, BYTES, s));
    cr_assert_neq(p, 0);
    OK(launch_fill(s, p, 5));
    OK(launch_copy(s, back, p));
    OK(cuMemFreeAsync(p, s));
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    words_are(back, 5);
}

Test(pools, freed_twice_is_refused)
{
    CUstream s = stream_new();
    CUdeviceptr p;
    OK(cuMemAllocAsync(&p, BYTES, s));
    OK(cuMemFreeAsync(p, s));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
}

Test(pools, freed_twice_is_refused_before_the_first_free_is_due)
{
    struct gate gate;
    CUstream s = stream_new();
    CUdeviceptr p;
    OK(cuMemAllocAsync(&p, BYTES, s));
    gate_queue(&gate, s);
    OK(cuMemFreeAsync(p, s));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, s));
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
}

Test(pools, plain_free_works_on_pool_memory)
{
    CUstream s = stream_new();
    CUdeviceptr p;
    OK(cuMemAllocAsync(&p, BYTES, s));
    OK(cuStreamSynchronize(s));
    OK(cuMemFree(p));
}

Test(pools, amounts_follow_allocations)
{
    CUstream s = stream_new();
    CUmemoryPool pool = pool_new();
    CUdeviceptr p;
    cuuint64_t keep = UINT64_MAX;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocFromPoolAsync(&p, BYTES, pool, s));
    cr_assert_geq(pool_amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), BYTES);
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    cr_assert_eq(pool_amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    cr_assert_geq(pool_amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), BYTES);
    OK(cuMemPoolTrimTo(pool, 0));
    cr_assert_eq(pool_amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    OK(cuMemPoolDestroy(pool));
}

Test(pools, same_stream_reuses_at_once)
{
    struct gate gate;
    CUstream s = stream_new();
    CUmemoryPool pool = pool_new();
    CUdeviceptr p;
    gate_queue(&gate, s);
    for (int i = 0; i < 100; i++) {
        OK(cuMemAllocFromPoolAsync(&p, 8 << 20, pool, s));
        OK(cuMemFreeAsync(p, s));
    }
    cr_assert_leq(pool_amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 64 << 20);
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
}

Test(pools, default_pool_stays)
{
    CUmemoryPool def, cur;
    OK(cuDeviceGetDefaultMemPool(&def, rig.dev));
    OK(cuDeviceGetMemPool(&cur, rig.dev));
    cr_assert_eq(def, cur);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(def));
}

Test(pools, current_pool_serves_plain_allocations)
{
    CUstream s = stream_new();
    CUmemoryPool pool = pool_new(), got = NULL;
    CUdeviceptr p;
    OK(cuDeviceSetMemPool(rig.dev, pool));
    OK(cuMemAllocAsync(&p, BYTES, s));
    OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    cr_assert_eq(got, pool);
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
}

Test(pools, destroyed_pool_keeps_live_memory)
{
    CUstream s = stream_new();
    CUmemoryPool pool = pool_new();
    CUdeviceptr p;
    OK(cuMemAllocFromPoolAsync(&p, BYTES, pool, s));
    OK(cuMemPoolDestroy(pool));
    OK(launch_fill(s, p, 8));
    OK(cuStreamSynchronize(s));
    words_are(p, 8);
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
}

Test(pools, too_much_is_refused)
{
    size_t left, all;
    CUdeviceptr p;
    OK(cuMemGetInfo(&left, &all));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&p, all * 2, stream_new()));
}

/* "Graph destruction does not automatically free any live graph-allocated memory [...] The
 * allocation must subsequently be freed in another graph, or using cudaFreeAsync()/cudaFree()"
 * (CUDA Programming Guide, graph memory nodes). */
static CUdeviceptr graph_left(CUstream s)
{
    CUdeviceptr p;
    CUgraph g;
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&p, BYTES, s));
    OK(cuStreamEndCapture(s, &g));
    CUgraphExec x = exec_new(g);
    OK(cuGraphLaunch(x, s));
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    return p;
}

Test(pools, memory_of_a_graph_outlives_it)
{
    struct gate gate;
    CUstream s = stream_new();
    CUdeviceptr back = words_new(0);
    gate_queue(&gate, s);
    CUdeviceptr p = graph_left(s);
    OK(launch_fill(s, p, 6));
    OK(launch_copy(s, back, p));
    OK(cuMemFreeAsync(p, s));
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    words_are(back, 6);
    OK(cuMemFree(graph_left(s)));
    OK(cuStreamSynchronize(s));
}

/* ---- another device's pools ------------------------------------------------------------------ */

static struct {
    CUdevice dev;
    CUcontext ctx;
} second;

static void open_second(void)
{
    int count, able;
    open_pools();
    OK(cuDeviceGetCount(&count));
    if (count < 2)
        cr_skip_test("one device");
    OK(cuDeviceGet(&second.dev, 1));
    OK(cuDeviceCanAccessPeer(&able, rig.dev, second.dev));
    if (!able)
        cr_skip_test("no peers");
    OK(cuDevicePrimaryCtxRetain(&second.ctx, second.dev));
}

TestSuite(pools_of_two, .init = open_second);

static CUdeviceptr pooled_words(CUcontext ctx, uint32_t value)
{
    CUdeviceptr p;
    OK(cuCtxSetCurrent(ctx));
    OK(cuMemAllocAsync(&p, BYTES, NULL));
    OK(cuMemsetD32(p, value, WORDS));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(rig.ctx));
    return p;
}

static void pool_allow(CUmemAccess_flags flags)
{
    CUmemoryPool pool;
    CUmemAccessDesc to = {{CU_MEM_LOCATION_TYPE_DEVICE, rig.dev}, flags};
    OK(cuDeviceGetDefaultMemPool(&pool, second.dev));
    OK(cuMemPoolSetAccess(pool, &to, 1));
}

/* "Any async memcpy involving memory from cudaMallocAsync should be done using the specified
 * stream's context as the calling thread's current context. This is not necessary for
 * cudaMemcpyPeerAsync" (CUDA Programming Guide). Else it is an invalid value, from hosts too
 * (NVIDIA's bug 3446335), unless the pool was opened. */
Test(pools_of_two, copies_need_a_context_that_reaches_the_pool)
{
    static uint32_t host[WORDS];
    CUstream s = stream_new();
    CUdeviceptr here = pooled_words(rig.ctx, 1), far = pooled_words(second.ctx, 7);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(here, far, BYTES, s));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync(far, here, BYTES, s));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(host, far, BYTES));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(far, host, BYTES, s));
    OK(cuMemcpyPeerAsync(here, rig.ctx, far, second.ctx, BYTES, s));
    OK(cuStreamSynchronize(s));
    words_are(here, 7);
    pool_allow(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemsetD32(here, 1, WORDS));
    OK(cuMemcpyDtoDAsync(here, far, BYTES, s));
    OK(cuStreamSynchronize(s));
    words_are(here, 7);
    pool_allow(CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

Test(pools_of_two, the_current_context_counts_and_not_the_streams)
{
    CUstream s = stream_new();
    CUdeviceptr plain = words_new(1), here = pooled_words(rig.ctx, 2);
    CUdeviceptr far = pooled_words(second.ctx, 7);
    OK(cuCtxSetCurrent(second.ctx));
    OK(cuMemcpyDtoDAsync(plain, far, BYTES, s));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(plain, here, BYTES, s));
    OK(cuStreamSynchronize(s));
    OK(cuCtxSetCurrent(rig.ctx));
    words_are(plain, 7);
}

Test(pools_of_two, a_copy_that_is_refused_leaves_the_capture)
{
    CUstream s = stream_new();
    CUdeviceptr here = pooled_words(rig.ctx, 1), far = pooled_words(second.ctx, 7), plain;
    CUgraph g;
    OK(cuCtxSetCurrent(second.ctx));
    OK(cuMemAlloc(&plain, BYTES));
    OK(cuCtxSetCurrent(rig.ctx));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync(here, far, BYTES, s));
    OK(cuMemcpyAsync(plain, here, BYTES, s));
    OK(cuStreamEndCapture(s, &g));
    OK(cuGraphLaunch(exec_new(g), s));
    OK(cuStreamSynchronize(s));
    words_are(plain, 1);
}
