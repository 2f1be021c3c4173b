/*
 * run_place.c - running what is about memory while the calling thread may be in another context than the
 * memory's, or in none: freeing, unregistering, mapping.
 */
#include "machine.h"

/* Without any context a driver may refuse: it is asked again, at home. Whether it did is compared. */
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

/* The new memory is certainly elsewhere, or may be where the old one was. */
static CUresult renew(const struct op *o, uint32_t index)
{
    CUdeviceptr old = address(o->dst);
    CUresult r = o->variant & 16 ? memory_new(o) : CUDA_SUCCESS;
    r = r ? r : free_there(o, old, index);
    return r || (o->variant & 16) ? r : memory_new(o);
}

/* Where registering is not supported, the memory stays what it is. */
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

static CUresult map_make(struct mapping *p)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = m.device}};
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult r = cuMemGetAllocationGranularity(&p->bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    r = r ? r : cuMemAddressReserve(&p->at, p->bytes, 0, 0, 0);
    r = r ? r : cuMemCreate(&p->memory, p->bytes, &prop, 0);
    r = r ? r : cuMemMap(p->at, p->bytes, 0, p->memory, 0);
    return r ? r : cuMemSetAccess(p->at, p->bytes, &access, 1);
}

static CUresult map_remove(struct mapping *p)
{
    CUresult r = cuMemUnmap(p->at, p->bytes);
    r = r ? r : cuMemRelease(p->memory);
    return r ? r : cuMemAddressFree(p->at, p->bytes);
}

/* With one thread the mapping goes while the stream still waits. With several it goes afterwards: cutin
 * removes none as long as another thread is inside a call, and that one may wait for the stream. */
static CUresult map(const struct op *o)
{
    struct mapping *p = &m.mapping[o->thread];
    CUresult r = map_make(p);
    return r || m.p->threads > 1 ? r : map_remove(p);
}

static CUresult map_tell(const struct op *o)
{
    m.order[o->flag] = o->a;
    return m.p->threads > 1 ? map_remove(&m.mapping[o->thread]) : CUDA_SUCCESS;
}

CUresult run_place(const struct op *o, uint32_t index)
{
    switch (o->kind) {
    case OP_RENEW:
        return renew(o, index);
    case OP_PIN:
        return pin(o);
    case OP_UNPIN:
        return unpin(o, index);
    case OP_MAP:
        return map(o);
    default:
        return map_tell(o);
    }
}
