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
