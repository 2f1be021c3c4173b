/*
 * allocation.c - stream-ordered allocation, frees and unloads while work is buffered, and memory
 * that runs out.
 */
#include "tests/hazards/hazard.h"

#include <stdatomic.h>
#include <string.h>

HAZARD(allocation_returns_a_pointer_that_can_be_used_at_once)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3), y = 0;
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    buffered(s);
    SAY(cuMemAllocAsync(&y, BYTES, s));
    printf("written: %d\n", y != 0);
    SAY(cuMemsetD32Async(y, 2, N, s));
    SAY(launch_mix(y, 5, 7, s));
    SAY(cuMemcpyDtoDAsync(x, y, BYTES / 2, s));
    SAY(cuMemFreeAsync(y, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(allocation_from_a_pool_can_be_used_at_once)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3), y = 0;
    CUmemoryPool pool;
    MUST(cuDeviceGetDefaultMemPool(&pool, device));
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuMemAllocFromPoolAsync(&y, BYTES, pool, s));
    SAY(cuMemcpyAsync(y, x, BYTES, s));
    SAY(launch_mix(y, 2, 1, s));
    SAY(cuMemcpyAsync(x, y, BYTES, s));
    SAY(cuMemFreeAsync(y, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(memory_is_not_reused_while_its_free_is_buffered)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING), other = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(0), p = 0, q = 0;
    warm(s);
    warm(other);
    MUST(cuMemAllocAsync(&p, BYTES, s));
    MUST(cuMemsetD32Async(p, 1, N, s));
    MUST(cuStreamSynchronize(s));
    hold(s);
    SAY(launch_mix(p, 5, 7, s));
    SAY(cuMemcpyDtoDAsync(x, p, BYTES, s));
    SAY(cuMemFreeAsync(p, s));
    SAY(cuMemAllocAsync(&q, BYTES, other));
    SAY(cuMemsetD32Async(q, 9, N, other));
    SAY(cuStreamSynchronize(other));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("copied before the free", x);
    show("other", q);
}

HAZARD(freeing_a_buffer_waits_for_buffered_launches_that_use_it)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3), y = buffer_new(0), z = 0;
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuMemcpyDtoDAsync(y, x, BYTES, s));
    SAY(cuMemFree(x));
    SAY(cuMemAlloc(&z, BYTES));
    SAY(cuMemsetD32(z, 8, N));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("y", y);
    SAY(cuMemFree(x ^ 8));
}

HAZARD(freeing_pinned_memory_waits_for_buffered_copies)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    uint32_t *host = pinned_new(9);
    warm(s);
    hold(s);
    SAY(cuMemcpyHtoDAsync(x, host, BYTES, s));
    SAY(cuMemFreeHost(host));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(pool_is_trimmed_and_destroyed_behind_buffered_frees)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(0), p = 0;
    CUmemoryPool pool;
    MUST(cuMemPoolCreate(&pool, &props));
    warm(s);
    SAY(cuMemAllocFromPoolAsync(&p, BYTES, pool, s));
    hold(s);
    SAY(cuMemsetD32Async(p, 4, N, s));
    SAY(cuMemcpyDtoDAsync(x, p, BYTES, s));
    SAY(cuMemFreeAsync(p, s));
    SAY(cuMemPoolTrimTo(pool, 0));
    SAY(cuMemPoolDestroy(pool));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* ---- pools while frees are buffered ---------------------------------------------------------- */

enum { POOL_BYTES = 8 << 20 };

static CUmemoryPool pool_new(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemoryPool pool;
    MUST(cuMemPoolCreate(&pool, &props));
    return pool;
}

static uint64_t pool_amount(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    MUST(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

static void pool_show(CUmemoryPool pool)
{
    printf("used %llu, at most %llu; reserved at most %llu\n",
           (unsigned long long)pool_amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
           (unsigned long long)pool_amount(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH),
           (unsigned long long)pool_amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
}

HAZARD(pool_grows_only_as_natively_while_frees_are_buffered)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3), p = 0;
    CUmemoryPool pool = pool_new(), of = NULL;
    size_t bytes = 0;
    warm(s);
    hold(s);
    for (uint32_t i = 0; i < 300; i++) {
        MUST(cuMemAllocFromPoolAsync(&p, POOL_BYTES, pool, s));
        MUST(cuMemcpyDtoDAsync(p, x, BYTES, s));
        MUST(launch_mix(p, 5, i, s));
        MUST(cuMemcpyDtoDAsync(x, p, BYTES, s));
        if (i < 299)
            MUST(cuMemFreeAsync(p, s));
    }
    MUST(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    MUST(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p));
    printf("of the pool: %d, %zu bytes\n", of == pool, bytes);
    release(s);
    SAY(cuStreamSynchronize(s));
    pool_show(pool);
    SAY(cuMemFreeAsync(p, s));
    SAY(cuStreamSynchronize(s));
    pool_show(pool);
    show("x", x);
}

HAZARD(second_free_is_refused_while_the_first_is_buffered)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING), other = stream_new(CU_STREAM_NON_BLOCKING);
    CUmemoryPool pool = pool_new();
    CUdeviceptr p = 0;
    warm(s);
    MUST(cuMemAllocFromPoolAsync(&p, POOL_BYTES, pool, s));
    hold(s);
    SAY(launch_mix(p, 5, 7, s));
    SAY(cuMemFreeAsync(p, s));
    SAY(cuMemFreeAsync(p, s));
    SAY(cuMemFreeAsync(p, other));
    SAY(cuMemAllocFromPoolAsync(&p, POOL_BYTES, pool, s));
    SAY(cuMemFreeAsync(p + 256, s));
    SAY(cuMemFreeAsync(p, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    SAY(cuMemFreeAsync(p, s));
    pool_show(pool);
}

HAZARD(current_pool_is_replaced_while_its_frees_are_buffered)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUmemoryPool pool = pool_new(), of = NULL;
    CUdeviceptr p = 0, q = 0;
    warm(s);
    hold(s);
    SAY(cuMemAllocAsync(&p, POOL_BYTES, s));
    SAY(launch_mix(p, 5, 7, s));
    SAY(cuMemFreeAsync(p, s));
    SAY(cuDeviceSetMemPool(device, pool));
    SAY(cuMemAllocAsync(&q, POOL_BYTES, s));
    MUST(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, q));
    printf("of the new pool: %d\n", of == pool);
    SAY(launch_mix(q, 5, 7, s));
    SAY(cuMemFreeAsync(q, s));
    SAY(cuMemPoolDestroy(pool));
    SAY(cuMemAllocFromPoolAsync(&q, POOL_BYTES, pool, s));
    release(s);
    SAY(cuStreamSynchronize(s));
}

/* ---- calls that natively wait for nothing ---------------------------------------------------- */

/* The calling thread itself has to tell the stream to go on: a call that waits for the stream waits
 * for ever. A collective that spins until its peers have been launched is such work. */
static CUstream waiting_stream(CUdeviceptr x)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    warm(s);
    SAY(cuLaunchHostFunc(s, until_told, NULL));
    SAY(launch_mix(x, 5, 7, s));
    return s;
}

static void tell(CUstream s, CUdeviceptr x)
{
    atomic_store(&told, true);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

static size_t mapping_new(CUdeviceptr *at)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemGenericAllocationHandle handle;
    size_t bytes = 0;
    MUST(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    MUST(cuMemAddressReserve(at, bytes, 0, 0, 0));
    MUST(cuMemCreate(&handle, bytes, &prop, 0));
    MUST(cuMemMap(*at, bytes, 0, handle, 0));
    return bytes;
}

static CUresult access_set(CUdeviceptr at, size_t bytes, CUmemAccess_flags flags)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              .flags = flags};
    return cuMemSetAccess(at, bytes, &access, 1);
}

HAZARD(access_is_granted_while_earlier_work_waits_for_the_caller)
{
    CUdeviceptr x = buffer_new(3), y;
    CUstream s = waiting_stream(x);
    size_t bytes = mapping_new(&y);
    SAY(access_set(y, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    SAY(access_set(y, bytes, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    tell(s, x);
}

/* Nor does it wait for a held stream: an allocator's lock may be wanted by real-time work. */
HAZARD(access_is_granted_while_a_stream_is_held)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3), y;
    warm(s);
    hold_for(10000);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    buffered(s);
    bool before = held(s);
    size_t bytes = mapping_new(&y);
    SAY(access_set(y, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    printf("held as before: %d\n", held(s) == before);
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(mapping_is_removed_while_earlier_work_waits_for_the_caller)
{
    CUdeviceptr x = buffer_new(3), y;
    size_t bytes = mapping_new(&y);
    MUST(access_set(y, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CUstream s = waiting_stream(x);
    SAY(cuMemUnmap(y, bytes));
    tell(s, x);
}

HAZARD(pool_memory_is_freed_while_earlier_work_waits_for_the_caller)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3), y;
    MUST(cuMemAllocAsync(&y, BYTES, s));
    MUST(cuStreamSynchronize(s));
    s = waiting_stream(x);
    SAY(cuMemFree(y));
    tell(s, x);
}

/* ---- pools of the host ----------------------------------------------------------------------- */

static CUresult pool_let(CUmemoryPool pool, CUmemAccess_flags flags)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              .flags = flags};
    return cuMemPoolSetAccess(pool, &access, 1);
}

/* A block of a pool of the host that the device may access; behind a kernel in a held stream. */
static CUdeviceptr host_block(CUmemoryPool *pool, CUstream *s, CUdeviceptr *x)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = (CUmemLocationType)2}}; /* HOST, CUDA 12.2 */
    CUdeviceptr at;
    *s = stream_new(CU_STREAM_NON_BLOCKING);
    *x = buffer_new(3);
    MUST(cuMemPoolCreate(pool, &props));
    MUST(pool_let(*pool, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    MUST(cuMemAllocFromPoolAsync(&at, BYTES, *pool, *s));
    MUST(cuMemsetD32Async(at, 9, N, *s));
    warm(*s);
    hold_for(30);
    hold(*s);
    SAY(launch_mix(*x, 5, 7, *s));
    buffered(*s);
    return at;
}

HAZARD(pool_access_is_revoked_while_a_copy_from_it_is_buffered)
{
    CUmemoryPool pool;
    CUdeviceptr x;
    CUstream s;
    CUdeviceptr at = host_block(&pool, &s, &x);
    SAY(cuMemcpyAsync(x, at, BYTES, s));
    SAY(pool_let(pool, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(copy_from_an_inaccessible_host_pool_is_checked_at_the_call)
{
    CUmemoryPool pool;
    CUdeviceptr x;
    CUstream s;
    CUdeviceptr at = host_block(&pool, &s, &x);
    SAY(pool_let(pool, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    buffered(s);
    SAY(cuMemcpyAsync(x, at, BYTES, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(range_attribute_reflects_a_buffered_prefetch)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3), y;
    int where = 0;
    MUST(cuMemAllocManaged(&y, BYTES, CU_MEM_ATTACH_GLOBAL));
    warm(s);
    hold_for(30);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    buffered(s);
#if CUDA_VERSION >= 13000
    SAY(cuMemPrefetchAsync(y, BYTES, (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device}, 0, s));
#else
    SAY(cuMemPrefetchAsync(y, BYTES, device, s));
#endif
    SAY(cuMemRangeGetAttribute(&where, sizeof(where), CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                               y, BYTES));
    printf("prefetched to the device: %d\n", where == device);
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* ---- unloads ------------------------------------------------------------------------------- */

HAZARD(unloading_a_module_waits_for_buffered_launches)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(launch_slow(x, 5, 7, 100, s));
    SAY(cuModuleUnload(module));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(unloading_a_library_waits_for_buffered_launches)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    char *text = kernels_text();
    uint32_t a = 5, b = 7, n = N;
    void *params[] = {&x, &a, &b, &n};
    CUlibrary library;
    CUkernel kernel;
    MUST(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetKernel(&kernel, library, "mix"));
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            hold(s);
        SAY(cuLaunchKernel((CUfunction)kernel, 4, 1, 1, 256, 1, 1, 0, s, params, NULL));
    }
    buffered(s);
    SAY(cuLibraryUnload(library));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
    free(text);
}

/* A new module may get the old one's handles: what was known of those must not be used. */
HAZARD(modules_are_loaded_and_unloaded_in_a_loop)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    char *text = kernels_text();
    static const char *const names[] = {"mix", "fill", "axpy", "mix"};
    for (uint32_t i = 0; i < 12; i++) {
        CUmodule m;
        CUfunction f;
        float scale = 0;
        uint32_t a = i, b = 7, n = N;
        void *mixed[] = {&x, &a, &b, &n}, *filled[] = {&x, &a, &n}, *added[] = {&x, &x, &scale, &n};
        void **params = i % 4 == 1 ? filled : i % 4 == 2 ? added : mixed;
        MUST(cuModuleLoadData(&m, text));
        MUST(cuModuleGetFunction(&f, m, names[i % 4]));
        SAY(cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, s, params, NULL));
        hold_ms = 3;
        hold(s);
        SAY(cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, s, params, NULL));
        SAY(cuModuleUnload(m));
        release(s);
    }
    MUST(cuStreamSynchronize(s)); /* show() does not wait for the stream */
    show("x", x);
    free(text);
}

/* Uses functions of a library through the library's module. Handles are used again, in another
 * order. */
static void through_module(bool of_function)
{
    static const char *const names[] = {"mix", "fill", "axpy"};
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    char *text = kernels_text();
    float scale = 0;
    uint32_t a = 5, b = 7, n = N;
    void *mixed[] = {&x, &a, &b, &n}, *filled[] = {&x, &a, &n}, *added[] = {&x, &x, &scale, &n};
    void **params[] = {mixed, filled, added};
    for (int i = 0; i < 8; i++) {
        CUlibrary library;
        CUkernel kernel;
        CUmodule m;
        CUfunction f;
        MUST(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
        MUST(cuLibraryGetKernel(&kernel, library, "spin"));
        MUST(cuKernelGetFunction(&f, kernel));
        if (of_function)
            MUST(cuFuncGetModule(&m, f));
        else
            MUST(cuLibraryGetModule(&m, library));
        hold_ms = 3;
        for (int k = 0; k < 3; k++) {
            MUST(cuModuleGetFunction(&f, m, names[(i + k) % 3]));
            hold(s);
            SAY(cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, s, params[(i + k) % 3], NULL));
            release(s);
            SAY(cuStreamSynchronize(s));
            show("x", x);
        }
        MUST(cuLibraryUnload(library));
    }
    free(text);
}

HAZARD(function_handles_from_a_librarys_module_may_be_reused)
{
    through_module(false);
}

HAZARD(function_handles_from_a_functions_module_may_be_reused)
{
    through_module(true);
}

/* ---- memory pressure ----------------------------------------------------------------------- */

enum { MB = 1 << 20 };

static void small_gpu(void)
{
    setenv("SIMGPU_MEM_MB", "64", 1);
    gpu_open();
}

HAZARD_RAW(allocation_is_retried_after_buffered_frees_are_drained)
{
    CUdeviceptr x, p = 0, q = 0;
    small_gpu();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    SAY(cuMemAllocAsync(&p, 40 * MB, s));
    SAY(cuMemsetD32Async(p, 1, N, s));
    SAY(cuStreamSynchronize(s));
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuMemFreeAsync(p, s));
    SAY(cuMemAllocAsync(&q, 40 * MB, s));
    SAY(cuMemsetD32Async(q, 2, N, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("q", q);
    show("x", x);
}

HAZARD_RAW(allocation_too_large_for_the_device_is_refused)
{
    CUdeviceptr x, p = 0;
    size_t unused, total;
    small_gpu();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuMemAlloc(&p, 100 * (size_t)MB));
    SAY(cuMemAllocAsync(&p, 100 * (size_t)MB, s));
    SAY(cuMemAllocManaged(&p, (size_t)1 << 50, CU_MEM_ATTACH_GLOBAL));
    SAY(cuMemGetInfo(&unused, &total));
    printf("total %zu\n", total);
    SAY(launch_mix(x, 5, 7, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD_RAW(allocator_may_fill_the_memory_repeatedly)
{
    CUdeviceptr x;
    uint32_t refused = 0;
    small_gpu();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    for (uint32_t i = 0; i < 60; i++) {
        CUdeviceptr p = 0;
        if (i % 16 == 0) {
            hold_ms = 3;
            hold(s);
        }
        CUresult r = cuMemAllocAsync(&p, 24 * MB, s);
        refused += r != CUDA_SUCCESS;
        if (r == CUDA_SUCCESS) {
            MUST(cuMemsetD32Async(p, i, N, s));
            MUST(cuMemcpyDtoDAsync(x, p, BYTES, s));
            MUST(launch_mix(x, 3, i, s));
            MUST(cuMemFreeAsync(p, s));
        }
        if (i % 16 == 8)
            release(s);
    }
    SAY(cuStreamSynchronize(s));
    printf("refused %u\n", refused);
    show("x", x);
}

/* Null handles and addresses name nothing, so these calls have nothing to wait for. */
HAZARD(free_of_null_returns_at_once)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    hold_for(10000);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    buffered(s);
    SAY(cuMemFree(0));
    SAY(cuMemFreeHost(NULL));
    SAY(cuMemHostUnregister(NULL));
    SAY(cuArrayDestroy(NULL));
    SAY(cuMipmappedArrayDestroy(NULL));
    SAY(cuDestroyExternalMemory(NULL));
    SAY(cuDestroyExternalSemaphore(NULL));
    SAY(cuIpcCloseMemHandle(0));
    still_held(s);
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* ---- addresses that mean nothing any more: the driver says so at the call ------------------- */

static void use_of_nothing(CUdeviceptr at, CUdeviceptr x, CUstream s)
{
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    buffered(s);
    SAY(cuMemsetD32Async(at, 7, N, s));
    SAY(cuMemcpyDtoDAsync(x, at, BYTES, s));
    SAY(cuMemFreeAsync(at, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(freed_and_trimmed_pool_memory_is_refused)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUmemoryPool pool;
    CUdeviceptr at, x = buffer_new(3);
    warm(s);
    MUST(cuDeviceGetDefaultMemPool(&pool, device));
    MUST(cuMemAllocAsync(&at, BYTES, s));
    MUST(cuMemsetD32Async(at, 7, N, s));
    MUST(cuMemFreeAsync(at, s));
    MUST(cuStreamSynchronize(s));
    MUST(cuMemPoolTrimTo(pool, 0));
    use_of_nothing(at, x, s);
}

HAZARD(memory_of_a_destroyed_graph_is_refused)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
        .bytesize = BYTES};
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph;
    warm(s);
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p));
    MUST(cuGraphInstantiate(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, s));
    MUST(cuMemsetD32Async(p.dptr, 7, N, s));
    MUST(cuMemFreeAsync(p.dptr, s));
    MUST(cuStreamSynchronize(s));
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(graph));
    MUST(cuDeviceGraphMemTrim(device));
    use_of_nothing(p.dptr, x, s);
}

HAZARD(free_of_memory_outside_pools_is_checked_at_the_call)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3), managed;
    MUST(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    buffered(s);
    SAY(cuMemFreeAsync(x, s));
    SAY(cuMemFreeAsync(managed, s));
    SAY(cuMemFreeAsync((CUdeviceptr)(uintptr_t)pinned_new(1), s));
    SAY(launch_mix(x, 5, 7, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}
