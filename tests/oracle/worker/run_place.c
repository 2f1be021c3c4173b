/*
 * run_place.c - runs ops about memory while the calling thread may be in another context than the
 * memory's, or in none: freeing, unregistering, mapping.
 */
#include "machine.h"

/* Without a context a driver may refuse. Then the call is made again in its own context. Whether
 * the driver refused is compared. */
static CUresult again_at_home(CUresult r, uint32_t index)
{
    m.out->value[index] = (uint64_t)r;
    return r == CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult memory_free(const struct op *o, CUdeviceptr at)
{
    return o->dst >= PINNED && o->dst < PAGEABLE ? cuMemFreeHost((void *)(uintptr_t)at)
                                                 : cuMemFree_v2(at);
}

static CUresult memory_new(const struct op *o)
{
    if (o->dst >= PINNED && o->dst < PAGEABLE)
        return cuMemAllocHost_v2(&m.pinned[o->dst - PINNED], BYTES);
    return cuMemAlloc_v2(
        o->dst < PINNED ? &m.device_buffer[o->dst] : &m.other_buffer[o->dst - OTHER_DEVICE], BYTES);
}

static CUresult free_there(const struct op *o, CUdeviceptr old, uint32_t index)
{
    struct place at;
    place_enter(&at, o, (enum where)o->where);
    CUresult r = memory_free(o, old);
    place_leave(&at);
    return again_at_home(r, index) ? memory_free(o, old) : r;
}

/* The new memory certainly has another address, or it may have the old one. */
static CUresult renew(const struct op *o, uint32_t index)
{
    CUdeviceptr old = address(o->dst);
    CUresult r = o->variant & 16 ? memory_new(o) : CUDA_SUCCESS;
    r = r ? r : free_there(o, old, index);
    return r || (o->variant & 16) ? r : memory_new(o);
}

/* If registering is not supported, the memory stays pageable. */
static CUresult pin(const struct op *o)
{
    int b = o->dst - PAGEABLE;
    CUresult r = cuMemHostRegister_v2(m.pageable[b], 4096, CU_MEMHOSTREGISTER_PORTABLE);
    m.registered[b] = r == CUDA_SUCCESS;
    return r == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : r;
}

static CUresult unpin(const struct op *o, uint32_t index)
{
    struct place at;
    int b = o->dst - PAGEABLE;
    if (!m.registered[b])
        return CUDA_SUCCESS;
    place_enter(&at, o, (enum where)o->where);
    CUresult r = cuMemHostUnregister(m.pageable[b]);
    place_leave(&at);
    r = again_at_home(r, index) ? cuMemHostUnregister(m.pageable[b]) : r;
    m.registered[b] = r != CUDA_SUCCESS;
    return r;
}

/* Makes a mapping and removes it. */
static CUresult map(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = m.device}};
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle memory = 0;
    CUdeviceptr at = 0;
    size_t bytes = 0;
    CUresult r = cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    r = r ? r : cuMemAddressReserve(&at, bytes, 0, 0, 0);
    r = r ? r : cuMemCreate(&memory, bytes, &prop, 0);
    r = r ? r : cuMemMap(at, bytes, 0, memory, 0);
    r = r ? r : cuMemSetAccess(at, bytes, &access, 1);
    r = r ? r : cuMemUnmap(at, bytes);
    r = r ? r : cuMemRelease(memory);
    return r ? r : cuMemAddressFree(at, bytes);
}

/* Retains the primary context several times, and releases it as often. */
static CUresult retain(const struct op *o)
{
    CUcontext again;
    CUresult r = CUDA_SUCCESS;
    int times = 1 + o->variant % 3;
    for (int i = 0; i < times && !r; i++)
        r = cuDevicePrimaryCtxRetain(&again, m.device);
    for (int i = 0; i < times && !r; i++)
        r = cuDevicePrimaryCtxRelease_v2(m.device);
    return r;
}

static CUresult free_nothing(void)
{
    CUresult r = cuMemFree_v2(0);
    return r ? r : cuMemFreeHost(NULL);
}

CUresult run_place(const struct op *o, uint32_t index)
{
    switch (o->kind) {
    case OP_RETAIN:
        return retain(o);
    case OP_FREE_NOTHING:
        return free_nothing();
    case OP_RENEW:
        return renew(o, index);
    case OP_PIN:
        return pin(o);
    case OP_UNPIN:
        return unpin(o, index);
    default:
        return map();
    }
}
