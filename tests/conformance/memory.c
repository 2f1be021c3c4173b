/*
 * memory.c - allocations (device, pinned, managed, mapped), and what can be asked about a pointer.
 */
#include "rig.h"

TestSuite(memory, .init = rig_open);

Test(memory, zero_byte_allocation_is_refused)
{
    CUdeviceptr p;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&p, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(NULL, 4));
}

Test(memory, oversized_allocation_fails_without_harm)
{
    size_t left, all;
    CUdeviceptr p;
    OK(cuMemGetInfo(&left, &all));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, all * 2));
    words_are(words_new(3), 3);
}

Test(memory, mem_info_counts_allocations)
{
    size_t before, after, all;
    CUdeviceptr p;
    OK(cuMemGetInfo(&before, &all));
    OK(cuMemAlloc(&p, 64 << 20));
    OK(cuMemGetInfo(&after, &all));
    cr_assert_leq(after + (63 << 20), before);
    OK(cuMemFree(p));
}

Test(memory, free_refuses_inner_pointer_and_accepts_null)
{
    CUdeviceptr p = words_new(0);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(p + 4));
    OK(cuMemFree(p));
    OK(cuMemFree(0));
}

Test(memory, free_waits_for_pending_work)
{
    CUstream s = stream_new();
    CUdeviceptr p = words_new(0);
    OK(launch_spin(s, 2000000));
    OK(launch_fill(s, p, 1));
    OK(cuMemFree(p));
    OK(cuStreamQuery(s));
}

Test(memory, address_range_of_an_inner_pointer)
{
    CUdeviceptr p = words_new(0), base = 0;
    size_t bytes = 0;
    OK(cuMemGetAddressRange(&base, &bytes, p + 100));
    cr_assert_eq(base, p);
    cr_assert_geq(bytes, BYTES);
}

Test(memory, pointer_attributes_distinguish_device_from_host)
{
    CUmemorytype type = 0;
    int ordinal = -1, on_stack;
    CUcontext ctx = NULL;
    CUdeviceptr p = words_new(0), host = (CUdeviceptr)pinned_new();
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    cr_assert_eq(type, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host));
    cr_assert_eq(type, CU_MEMORYTYPE_HOST);
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    cr_assert_eq(ordinal, rig.dev);
    OK(cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    cr_assert_eq(ctx, rig.ctx);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&on_stack));
}

Test(memory, unknown_pointer_has_zero_attributes)
{
    int on_stack;
    CUmemorytype type = CU_MEMORYTYPE_DEVICE;
    CUcontext ctx = rig.ctx;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
    void *data[] = {&type, &ctx};
    OK(cuPointerGetAttributes(2, which, data, (CUdeviceptr)&on_stack));
    cr_assert_eq((int)type, 0);
    cr_assert_null(ctx);
}

Test(memory, pinned_memory_reports_flags_and_device_pointer)
{
    void *p;
    unsigned int flags = 0;
    CUdeviceptr mapped = 0;
    OK(cuMemHostAlloc(&p, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetFlags(&flags, p));
    cr_assert(flags & CU_MEMHOSTALLOC_PORTABLE);
    OK(cuMemHostGetDevicePointer(&mapped, p, 0));
    cr_assert_neq(mapped, 0);
    OK(cuMemFreeHost(p));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(p));
}

Test(memory, kernel_writes_pinned_memory)
{
    uint32_t *p = pinned_new();
    CUdeviceptr mapped;
    OK(cuMemHostGetDevicePointer(&mapped, p, 0));
    OK(launch_fill(NULL, mapped, 12));
    OK(cuCtxSynchronize());
    cr_assert_eq(p[WORDS - 1], 12);
}

Test(memory, registering_twice_is_refused)
{
    static uint32_t host[WORDS];
    OK(cuMemHostRegister(host, BYTES, 0));
    FAILS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(host, BYTES, 0));
    OK(cuMemHostUnregister(host));
    FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(host));
}

Test(memory, host_and_device_share_managed_memory)
{
    CUdeviceptr p;
    if (!rig_attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
        cr_skip_test("no managed memory");
    OK(cuMemAllocManaged(&p, BYTES, CU_MEM_ATTACH_GLOBAL));
    ((uint32_t *)p)[0] = 4;
    OK(launch_mix(NULL, p, 10, 2));
    OK(cuCtxSynchronize());
    cr_assert_eq(((uint32_t *)p)[0], 42);
    OK(cuMemFree(p));
}

Test(memory, allocation_can_be_mapped_at_two_addresses)
{
    if (!rig_attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        cr_skip_test("no virtual memory management");
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, rig.dev}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    size_t bytes = 0;
    CUdeviceptr p;
    OK(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemAddressReserve(&p, 2 * bytes, 0, 0, 0));
    OK(cuMemCreate(&handle, bytes, &prop, 0));
    OK(cuMemMap(p, bytes, 0, handle, 0));
    OK(cuMemMap(p + bytes, bytes, 0, handle, 0));
    OK(cuMemSetAccess(p, 2 * bytes, &access, 1));
    OK(cuMemRelease(handle));
    OK(launch_fill(NULL, p, 77));
    OK(cuCtxSynchronize());
    words_are(p + bytes, 77);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(p, 2 * bytes)); /* still mapped */
    OK(cuMemUnmap(p, 2 * bytes));
    OK(cuMemAddressFree(p, 2 * bytes));
}

/* ---- what is said of managed memory ---------------------------------------------------------- */

enum { PAGE_BYTES = 4096, PLACES = 3 };

static int range_says(CUmem_range_attribute which, CUdeviceptr p, size_t bytes)
{
    int value = -99;
    OK(cuMemRangeGetAttribute(&value, sizeof(value), which, p, bytes));
    return value;
}

static CUresult advise(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUdevice dev)
{
#if CUDA_VERSION >= 13000
    CUmemLocation at = {dev == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST
                                             : CU_MEM_LOCATION_TYPE_DEVICE,
                        dev == CU_DEVICE_CPU ? 0 : dev};
    return cuMemAdvise(p, bytes, advice, at);
#else
    return cuMemAdvise(p, bytes, advice, dev);
#endif
}

/* "The result returned will be 1 if all pages in the given memory range have read-duplication
 * enabled", and CU_DEVICE_INVALID "if either all the pages don't have the same preferred location
 * or some of the pages don't have a preferred location at all" (cuda.h) */
Test(memory, advice_is_kept_per_page)
{
    CUdeviceptr p;
    if (!rig_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
        cr_skip_test("no concurrent access to managed memory");
    OK(cuMemAllocManaged(&p, 4 * PAGE_BYTES, CU_MEM_ATTACH_GLOBAL));
    cr_assert_eq(range_says(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 4 * PAGE_BYTES), 0);
    OK(advise(p, 2 * PAGE_BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, rig.dev));
    OK(advise(p + PAGE_BYTES, 3 * PAGE_BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, rig.dev));
    cr_assert_eq(range_says(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 2 * PAGE_BYTES), 1);
    cr_assert_eq(range_says(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 3 * PAGE_BYTES), 0);
    CUmem_range_attribute preferred = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
    cr_assert_eq(range_says(preferred, p + PAGE_BYTES, 3 * PAGE_BYTES), rig.dev);
    cr_assert_eq(range_says(preferred, p, 4 * PAGE_BYTES), CU_DEVICE_INVALID);
    OK(advise(p + 2 * PAGE_BYTES, PAGE_BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    cr_assert_eq(range_says(preferred, p + 2 * PAGE_BYTES, PAGE_BYTES), CU_DEVICE_CPU);
    cr_assert_eq(range_says(preferred, p + PAGE_BYTES, 3 * PAGE_BYTES), CU_DEVICE_INVALID);
    OK(advise(p, 4 * PAGE_BYTES, CU_MEM_ADVISE_UNSET_READ_MOSTLY, rig.dev));
    cr_assert_eq(range_says(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, PAGE_BYTES), 0);
    OK(cuMemFree(p));
    OK(cuMemAllocManaged(&p, 4 * PAGE_BYTES, CU_MEM_ATTACH_GLOBAL));
    cr_assert_eq(range_says(preferred, p + 3 * PAGE_BYTES, PAGE_BYTES), CU_DEVICE_INVALID);
    OK(cuMemFree(p));
}

/* "A list of device ids that had ::CU_MEM_ADVISE_SET_ACCESSED_BY set for that entire memory range
 * [...] CU_DEVICE_INVALID will be returned in all the extra space provided"; the last prefetch is
 * "the last location that the application requested" (cuda.h) */
Test(memory, range_attributes_report_accessors_and_last_prefetch)
{
    CUstream s = stream_new();
    CUdeviceptr p;
    int places[PLACES];
    if (!rig_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
        cr_skip_test("no concurrent access to managed memory");
    OK(cuMemAllocManaged(&p, BYTES, CU_MEM_ATTACH_GLOBAL));
    OK(advise(p, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
    OK(advise(p, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, rig.dev));
    OK(cuMemRangeGetAttribute(places, sizeof(places), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p,
                              BYTES));
    cr_assert(places[0] == rig.dev || places[1] == rig.dev);
    cr_assert(places[0] == CU_DEVICE_CPU || places[1] == CU_DEVICE_CPU);
    cr_assert_eq(places[2], CU_DEVICE_INVALID);
    OK(advise(p, BYTES, CU_MEM_ADVISE_UNSET_ACCESSED_BY, CU_DEVICE_CPU));
    OK(cuMemRangeGetAttribute(places, sizeof(places), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p,
                              BYTES));
    cr_assert_eq(places[0], rig.dev);
    cr_assert_eq(places[1], CU_DEVICE_INVALID);
    CUmem_range_attribute last = CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
    cr_assert_eq(range_says(last, p, BYTES), CU_DEVICE_INVALID);
#if CUDA_VERSION >= 13000
    OK(cuMemPrefetchAsync(p, BYTES, (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, rig.dev}, 0, s));
#else
    OK(cuMemPrefetchAsync(p, BYTES, rig.dev, s));
#endif
    cr_assert_eq(range_says(last, p, BYTES), rig.dev);
    OK(cuStreamSynchronize(s));
    OK(cuMemFree(p));
}

/* "The base address must be the same one specified to ::cuMemHostRegister()" (cuda.h); NVIDIA's
 * cuda-python expects this error in its tests. */
Test(memory, unregister_refuses_inner_address)
{
    static char page[2 * PAGE_BYTES] __attribute__((aligned(PAGE_BYTES)));
    OK(cuMemHostRegister(page, sizeof(page), 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(page + PAGE_BYTES));
    OK(cuMemHostUnregister(page));
    FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(page));
}
