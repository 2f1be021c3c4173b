/*
 * pools.c - allocation in stream order.
 */
#include "rig.h"

static void need_pools(void)
{
    if (!rig_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        cr_skip_test("no memory pools");
}

static void open_pools(void)
{
    rig_open();
    need_pools();
}

TestSuite(pools, .init = open_pools);

static void open_pools_newest(void)
{
    rig_open_newest();
    need_pools();
}

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

/* cuda.h 13.5: "The allocation type of the mempool", "Available export handle types", "The location
 * id", "The location type", "Maximum size", "whether the pool has hardware compresssion enabled",
 * "A value of -1 indicates that the mempool is not localized". Older headers lack these names. */
Test(newest, pool_attributes_report_creation_properties, .init = open_pools_newest)
{
    enum { ALLOCATION_TYPE = 9, HANDLE_TYPES, LOCATION_ID, LOCATION_TYPE, MOST, UNPACKS, DOMAIN };
    CUmemoryPool pool = pool_new();
    int version, value = -1;
    OK(cuDriverGetVersion(&version));
    if (version < 13050)
        cr_skip_test("a driver before 13.5");
    OK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)ALLOCATION_TYPE, &value));
    cr_assert_eq(value, CU_MEM_ALLOCATION_TYPE_PINNED);
    OK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)HANDLE_TYPES, &value));
    cr_assert_eq(value, CU_MEM_HANDLE_TYPE_NONE);
    OK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)LOCATION_ID, &value));
    cr_assert_eq(value, rig.dev);
    OK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)LOCATION_TYPE, &value));
    cr_assert_eq(value, CU_MEM_LOCATION_TYPE_DEVICE);
    pool_amount(pool, (CUmemPool_attribute)MOST);
    OK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)UNPACKS, &value));
    OK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)DOMAIN, &value));
    cr_assert_eq(value, -1);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuMemPoolSetAttribute(pool, (CUmemPool_attribute)LOCATION_ID, &value));
    OK(cuMemPoolDestroy(pool));
}

Test(pools, allocation_returns_its_address_before_it_runs)
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

Test(pools, double_free_is_refused)
{
    CUstream s = stream_new();
    CUdeviceptr p;
    OK(cuMemAllocAsync(&p, BYTES, s));
    OK(cuMemFreeAsync(p, s));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
}

Test(pools, double_free_is_refused_while_first_is_pending)
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

Test(pools, mem_free_accepts_pool_memory)
{
    CUstream s = stream_new();
    CUdeviceptr p;
    OK(cuMemAllocAsync(&p, BYTES, s));
    OK(cuStreamSynchronize(s));
    OK(cuMemFree(p));
}

Test(pools, used_and_reserved_memory_follow_allocations)
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

Test(pools, same_stream_reuses_freed_memory_at_once)
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

Test(pools, default_pool_cannot_be_destroyed)
{
    CUmemoryPool def, cur;
    OK(cuDeviceGetDefaultMemPool(&def, rig.dev));
    OK(cuDeviceGetMemPool(&cur, rig.dev));
    cr_assert_eq(def, cur);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(def));
}

Test(pools, alloc_async_uses_the_current_pool)
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

Test(pools, oversized_allocation_is_refused)
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

Test(pools, graph_allocation_outlives_its_graph)
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

/* cuda.h says that cuMemAlloc returns CUDA_ERROR_INVALID_VALUE for 0 bytes, but not that these
 * functions do. NVIDIA's cuda-python relies on their success (its pull request 1516: "zero-sized
 * allocations, which fail with the TCC windows driver mode"). */
Test(pools, zero_byte_allocation_succeeds)
{
    CUstream s = stream_new();
    CUmemoryPool pool = pool_new();
    CUdeviceptr p = 0, q = 0, node = 0;
    CUgraph g;
    OK(cuMemAllocAsync(&p, 0, s));
    OK(cuMemAllocFromPoolAsync(&q, 0, pool, s));
    OK(cuMemFreeAsync(p, s));
    OK(cuMemFreeAsync(q, s));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&node, 0, s));
    OK(cuMemFreeAsync(node, s));
    OK(cuStreamEndCapture(s, &g));
    OK(cuGraphLaunch(exec_new(g), s));
    OK(cuStreamSynchronize(s));
    OK(cuMemPoolDestroy(pool));
}

/* "When more than the release threshold bytes of memory are held by the memory pool, the allocator
 * will try to release memory back to the OS on the next call to stream, event or context
 * synchronize. (default 0)" (cuda.h) */
Test(pools, freed_memory_is_kept_until_next_synchronize)
{
    CUstream s = stream_new(), other = stream_new();
    CUmemoryPool pool = pool_new();
    CUevent e = event_new();
    for (int how = 0; how < 3; how++) {
        CUdeviceptr p;
        OK(cuMemAllocFromPoolAsync(&p, BYTES, pool, s));
        OK(cuMemFreeAsync(p, s));
        UNTIL(cuStreamQuery(s) == CUDA_SUCCESS);
        UNTIL(pool_amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
        cr_assert_geq(pool_amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), BYTES);
        OK(cuEventRecord(e, other));
        OK(how == 0   ? cuStreamSynchronize(other)
           : how == 1 ? cuEventSynchronize(e)
                      : cuCtxSynchronize());
        cr_assert_eq(pool_amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    }
    OK(cuMemPoolDestroy(pool));
}

/* ---- the host's pools, and managed ones ------------------------------------------------------ */

enum { LOCATION_NONE, LOCATION_HOST = 2, LOCATION_NUMA, LOCATION_NUMA_CURRENT, TYPE_MANAGED = 2 };

static CUmemPoolProps props_of(int location, int type)
{
    return (CUmemPoolProps){.allocType = (CUmemAllocationType)type,
                            .location = {(CUmemLocationType)location, 0}};
}

static void open_host_pools(void)
{
    open_pools();
    if (!rig_attribute((CUdevice_attribute)144) || !rig_attribute((CUdevice_attribute)142))
        cr_skip_test("no pools of the host");
}

TestSuite(host_pools, .init = open_host_pools);

static CUmemoryPool host_pool(int location, int type)
{
    CUmemPoolProps props = props_of(location, type);
    CUmemoryPool pool;
    OK(cuMemPoolCreate(&pool, &props));
    return pool;
}

static CUresult pool_open(CUmemoryPool pool, CUmemAccess_flags flags)
{
    CUmemAccessDesc to = {{CU_MEM_LOCATION_TYPE_DEVICE, rig.dev}, flags};
    return cuMemPoolSetAccess(pool, &to, 1);
}

/* A kernel writes the memory, the host reads and writes it, a copy reads it. */
static void both_sides_use(CUmemoryPool pool)
{
    CUstream s = stream_new();
    CUdeviceptr p, back = words_new(0);
    OK(cuMemAllocFromPoolAsync(&p, BYTES, pool, s));
    OK(launch_fill(s, p, 7));
    OK(cuStreamSynchronize(s));
    uint32_t *words = (uint32_t *)(uintptr_t)p;
    cr_assert_eq(words[WORDS - 1], 7);
    for (int i = 0; i < WORDS; i++)
        words[i] = 9;
    OK(cuMemcpyAsync(back, p, BYTES, s));
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    words_are(back, 9);
    cr_assert_eq(pool_amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
}

/* "To create a memory pool for HOST memory not targeting a specific NUMA node, applications must
 * set [...] type to ::CU_MEM_LOCATION_TYPE_HOST. [...] To create a memory pool targeting a specific
 * host NUMA node, applications must set [...] type to ::CU_MEM_LOCATION_TYPE_HOST_NUMA" (cuda.h) */
Test(host_pools, host_and_device_share_pool_memory)
{
    for (int location = LOCATION_HOST; location <= LOCATION_NUMA; location++) {
        CUmemoryPool pool = host_pool(location, CU_MEM_ALLOCATION_TYPE_PINNED);
        OK(pool_open(pool, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
        both_sides_use(pool);
        OK(cuMemPoolDestroy(pool));
    }
}

/* "In the case of pools created with ::CU_MEM_LOCATION_TYPE_HOST_NUMA or
 * ::CU_MEM_LOCATION_TYPE_HOST, their default accessibility will be from the host CPU" (cuda.h) */
Test(host_pools, device_has_no_access_until_granted)
{
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, rig.dev};
    CUmemLocation host = {(CUmemLocationType)LOCATION_HOST, 0};
    CUmemAccess_flags flags;
    CUmemoryPool pool = host_pool(LOCATION_HOST, CU_MEM_ALLOCATION_TYPE_PINNED);
    OK(cuMemPoolGetAccess(&flags, pool, &device));
    cr_assert_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    OK(cuMemPoolGetAccess(&flags, pool, &host));
    cr_assert_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(pool_open(pool, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemPoolGetAccess(&flags, pool, &device));
    cr_assert_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemPoolDestroy(pool));
}

/* "handleTypes must be 0, any other values will result in ::CUDA_ERROR_INVALID_VALUE [...]
 * Specifying ::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT [...] will result in
 * ::CUDA_ERROR_INVALID_VALUE" (cuda.h). Only managed memory may have no location. */
Test(host_pools, unsupported_properties_are_refused)
{
    CUmemoryPool pool;
    CUmemPoolProps shared = props_of(LOCATION_HOST, CU_MEM_ALLOCATION_TYPE_PINNED);
    CUmemPoolProps current = props_of(LOCATION_NUMA_CURRENT, CU_MEM_ALLOCATION_TYPE_PINNED);
    CUmemPoolProps nowhere = props_of(LOCATION_NONE, CU_MEM_ALLOCATION_TYPE_PINNED);
    shared.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &shared));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &current));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &nowhere));
}

/* It is host memory of the pool, without a context or device, and cuMemFree frees it once. */
Test(host_pools, pointer_attributes_report_host_memory_and_pool)
{
    CUstream s = stream_new();
    CUmemoryPool pool = host_pool(LOCATION_HOST, CU_MEM_ALLOCATION_TYPE_PINNED), got = NULL;
    CUmemorytype type = (CUmemorytype)0;
    CUdeviceptr p;
    void *host = NULL;
    OK(cuMemAllocFromPoolAsync(&p, BYTES, pool, s));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    OK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p));
    cr_assert_eq(type, CU_MEMORYTYPE_HOST);
    cr_assert_eq(got, pool);
    cr_assert_eq((CUdeviceptr)(uintptr_t)host, p);
    OK(cuStreamSynchronize(s));
    OK(cuMemFree(p));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
    OK(cuMemPoolDestroy(pool));
}

#if CUDA_VERSION >= 13000
/* "Returns the last pool provided to ::cuMemSetMemPool or ::cuDeviceSetMemPool for this location
 * and allocation type or the location's default memory pool" (cuda.h) */
Test(host_pools, each_location_has_default_and_current_pool)
{
    struct {
        int location, type;
    } places[] = {
        {CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ALLOCATION_TYPE_PINNED},
        {LOCATION_HOST, CU_MEM_ALLOCATION_TYPE_PINNED},
        {LOCATION_NUMA, CU_MEM_ALLOCATION_TYPE_PINNED},
        {CU_MEM_LOCATION_TYPE_DEVICE, TYPE_MANAGED},
        {LOCATION_HOST, TYPE_MANAGED},
        {LOCATION_NONE, TYPE_MANAGED},
    };
    enum { N = sizeof(places) / sizeof(*places) };
    CUmemoryPool defaults[N], made[N], got;
    for (int i = 0; i < N; i++) {
        CUmemLocation at = {(CUmemLocationType)places[i].location, 0};
        CUmemAllocationType type = (CUmemAllocationType)places[i].type;
        OK(cuMemGetDefaultMemPool(&defaults[i], &at, type));
        OK(cuMemGetMemPool(&got, &at, type));
        cr_assert_eq(got, defaults[i]);
        for (int k = 0; k < i; k++)
            cr_assert_neq(defaults[k], defaults[i]);
        made[i] = host_pool(places[i].location, places[i].type);
    }
    for (int i = 0; i < N; i++) {
        CUmemLocation at = {(CUmemLocationType)places[i].location, 0};
        CUmemAllocationType type = (CUmemAllocationType)places[i].type;
        for (int k = 0; k < N; k++) {
            CUresult rc = cuMemSetMemPool(&at, type, made[k]);
            cr_assert_eq(rc, k == i ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
        }
        OK(cuMemGetMemPool(&got, &at, type));
        cr_assert_eq(got, made[i]);
        OK(cuMemPoolDestroy(made[i]));
        OK(cuMemGetMemPool(&got, &at, type));
        cr_assert_eq(got, defaults[i]);
    }
}

/* "[...] In all other cases, the call returns ::CUDA_ERROR_INVALID_VALUE" (cuda.h) */
Test(host_pools, default_pinned_pool_requires_a_location)
{
    CUmemLocation nowhere = {(CUmemLocationType)LOCATION_NONE, 0};
    CUmemoryPool pool;
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuMemGetDefaultMemPool(&pool, &nowhere, CU_MEM_ALLOCATION_TYPE_PINNED));
}

/* "The memory location can be one of [...] ::CU_MEM_LOCATION_TYPE_NONE to indicate no preferred
 * location for the managed memory pool" (cuda.h) */
Test(host_pools, host_and_device_share_managed_memory)
{
    CUmemoryPool pool = host_pool(LOCATION_NONE, TYPE_MANAGED);
    CUstream s = stream_new();
    CUdeviceptr p;
    int managed = 0;
    both_sides_use(pool);
    OK(cuMemAllocFromPoolAsync(&p, BYTES, pool, s));
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
    cr_assert_eq(managed, 1);
    OK(cuMemPrefetchAsync(p, BYTES, (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, rig.dev}, 0, s));
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    OK(cuMemPoolDestroy(pool));
}

/* "Applications can control the maximum size of the pool by specifying a non-zero value for
 * ::CUmemPoolProps::maxSize" (cuda.h) */
Test(host_pools, allocation_beyond_max_size_fails)
{
    CUstream s = stream_new();
    CUmemPoolProps props = props_of(LOCATION_HOST, CU_MEM_ALLOCATION_TYPE_PINNED);
    CUmemoryPool pool;
    CUdeviceptr p, q;
    props.maxSize = 64 << 20;
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&p, 48 << 20, pool, s));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&q, 48 << 20, pool, s));
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    OK(cuMemAllocFromPoolAsync(&q, 48 << 20, pool, s));
    OK(cuMemFreeAsync(q, s));
    OK(cuStreamSynchronize(s));
    OK(cuMemPoolDestroy(pool));
}
#endif

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
 * cudaMemcpyPeerAsync" (CUDA Programming Guide). Otherwise it is an invalid value, also with host
 * memory (NVIDIA's bug 3446335), unless the pool was opened to the device. */
Test(pools_of_two, copy_needs_current_context_with_pool_access)
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

Test(pools_of_two, current_context_decides_access_not_the_streams)
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

Test(pools_of_two, refused_copy_leaves_capture_valid)
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
