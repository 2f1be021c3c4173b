/*
 * memory.c - address ranges (see memory.h), and allocation.
 */
#include "shim/objects/memory.h"

#include <pthread.h>

#include "shim/path/drain.h"
#include "shim/path/op.h"
#include "vhq/mutant.h"

/* ---- ranges ------------------------------------------------------------------------------- */

struct range {
    uintptr_t start, size;
    bool managed, host;
    uint32_t generation;
};
/* The ranges this thread used last. */
enum { RANGES = 8 };
static _Thread_local struct range ranges[RANGES] __attribute__((tls_model("initial-exec")));

static _Atomic uint32_t generation = 1;

static _Atomic uint32_t io_noted;

/* ---- what the program has registered -------------------------------------------------------- */

enum { REGISTERED = 64 };
static struct {
    uintptr_t start, size; /* 0: free */
} registered[REGISTERED];
static _Atomic uint32_t
    registered_count; /* more than there is room for: all counts as registered */
static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;

void memory_registered_add(void *p, size_t bytes)
{
    CUdeviceptr device = 0;
    if (REAL(cuMemHostGetDevicePointer_v2)(&device, p, 0) != CUDA_SUCCESS)
        device = (CUdeviceptr)(uintptr_t)p;
    pthread_mutex_lock(&registered_lock);
    for (int i = 0; i < REGISTERED; i++)
        if (registered[i].size == 0) {
            registered[i].start = (uintptr_t)device;
            registered[i].size = bytes;
            break;
        }
    atomic_fetch_add_explicit(&registered_count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&registered_lock);
}

/* Once there were too many, nobody knows which are left. */
void memory_registered_remove(CUdeviceptr device)
{
    pthread_mutex_lock(&registered_lock);
    for (int i = 0; i < REGISTERED; i++)
        if (registered[i].size && registered[i].start == (uintptr_t)device) {
            registered[i].size = 0;
            if (atomic_load_explicit(&registered_count, memory_order_relaxed) <= REGISTERED)
                atomic_fetch_sub_explicit(&registered_count, 1, memory_order_relaxed);
            break;
        }
    pthread_mutex_unlock(&registered_lock);
}

bool memory_registered(CUdeviceptr address)
{
    uint32_t count = atomic_load_explicit(&registered_count, memory_order_relaxed);
    bool found = count > REGISTERED;
    if (count == 0)
        return false;
    pthread_mutex_lock(&registered_lock);
    for (int i = 0; i < REGISTERED && !found; i++)
        found =
            address >= registered[i].start && address - registered[i].start < registered[i].size;
    pthread_mutex_unlock(&registered_lock);
    return found;
}

void memory_note_io(void)
{
    atomic_store_explicit(&io_noted, 1, memory_order_relaxed);
}

const _Atomic uint32_t *memory_io_word(void)
{
    return &io_noted;
}

void memory_forget(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
}

static bool range_holds(const struct range *r, uintptr_t at, size_t bytes)
{
    return at >= r->start && at - r->start < r->size && bytes <= r->size - (at - r->start);
}

static bool range_ask(uintptr_t address, struct range *r)
{
    CUmemorytype type = (CUmemorytype)0;
    CUdeviceptr start = 0;
    size_t size = 0;
    int managed = 0;
    CUpointer_attribute which[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *data[] = {&type, &start, &size, &managed};
    if (REAL(cuPointerGetAttributes)(4, which, data, (CUdeviceptr)address) != CUDA_SUCCESS)
        return false;
    r->start = (uintptr_t)start;
    r->size = size;
    r->managed = managed != 0;
    r->host = type == CU_MEMORYTYPE_HOST && !managed;
    return (unsigned)type != 0 && size != 0;
}

static const struct range *range_of(uintptr_t address, size_t bytes)
{
    uint32_t now = atomic_load_explicit(&generation, memory_order_acquire);
    for (int i = 0; i < RANGES; i++)
        if (ranges[i].generation == now && range_holds(&ranges[i], address, bytes))
            return &ranges[i];
    static _Thread_local unsigned turn __attribute__((tls_model("initial-exec")));
    struct range *r = &ranges[turn++ % RANGES];
    r->generation = range_ask(address, r) ? now : 0;
    return r->generation && range_holds(r, address, bytes) ? r : NULL;
}

uint32_t memory_flags(const void *address, size_t bytes)
{
    bool known = MUTANT(pageable_deferred) || range_of((uintptr_t)address, bytes);
    return known ? 0 : VHQ_MUST_INLINE;
}

uint32_t memory_device_flags(CUdeviceptr address, size_t bytes)
{
    return range_of((uintptr_t)address, bytes) ? 0 : VHQ_MUST_INLINE;
}

bool memory_copy_waits(CUdeviceptr dst, CUdeviceptr src)
{
    const struct range *to = range_of((uintptr_t)dst, 1);
    if (!to || to->host)
        return true;
    const struct range *from = range_of((uintptr_t)src, 1);
    return from && from->host;
}

uint32_t memory_managed_flags(CUdeviceptr address, size_t bytes)
{
    const struct range *r = range_of((uintptr_t)address, bytes);
    return r && r->managed ? 0 : VHQ_MUST_INLINE;
}

uint32_t memory_start_flags(CUdeviceptr address)
{
    const struct range *r = range_of((uintptr_t)address, 1);
    return r && r->start == (uintptr_t)address ? 0 : VHQ_MUST_INLINE;
}

/* ---- stream-ordered allocation ------------------------------------------------------------ */

/* The address is wanted now, so the allocation goes ahead of what is buffered. That is a legal
 * order: the pool reuses only what was freed by calls the driver has seen. Not so in the legacy
 * stream: what is buffered in one blocking stream would follow what the driver has of another,
 * which may wait for just that. */
static bool out_of_memory(CUresult r)
{
    if (r != CUDA_ERROR_OUT_OF_MEMORY || call_native())
        return false;
    struct shim_context *ctx = context_known();
    if (ctx)
        drain_context(ctx); /* frees that are buffered count when we try once more */
    return ctx;
}

static struct shim_stream *alloc_begin(CUstream stream)
{
    struct shim_stream *s = call_native() ? NULL : stream_of(stream);
    if (s && s->kind == VHQ_LEGACY)
        drain_before_legacy(s);
    return s;
}

static void alloc_end(struct shim_stream *s)
{
    if (s)
        schedule_end(s, 0, false);
}

static CUresult alloc_async(CUdeviceptr *dptr, size_t bytes, CUstream stream, bool ptds)
{
    stream = stream_normal(stream, ptds);
    struct shim_stream *s = alloc_begin(stream);
    CUresult r = REAL(cuMemAllocAsync)(dptr, bytes, stream);
    alloc_end(s);
    return out_of_memory(r) ? REAL(cuMemAllocAsync)(dptr, bytes, stream) : r;
}

static CUresult alloc_from_pool(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream,
                                bool ptds)
{
    stream = stream_normal(stream, ptds);
    struct shim_stream *s = alloc_begin(stream);
    CUresult r = REAL(cuMemAllocFromPoolAsync)(dptr, bytes, pool, stream);
    alloc_end(s);
    return out_of_memory(r) ? REAL(cuMemAllocFromPoolAsync)(dptr, bytes, pool, stream) : r;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return alloc_async(dptr, bytesize, hStream, false);
}
EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return alloc_async(dptr, bytesize, hStream, true);
}
EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                        CUstream hStream)
{
    return alloc_from_pool(dptr, bytesize, pool, hStream, false);
}
EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                             CUstream hStream)
{
    return alloc_from_pool(dptr, bytesize, pool, hStream, true);
}

OP_LAST(cuMemFreeAsync, VHQ_UNCOUNTED | memory_start_flags(dptr) | MUTANT_OVERTAKES(free_overtakes),
        0, (CUdeviceptr, dptr))

/* ---- other allocation: once more after a drain -------------------------------------------- */

#define RETRY(sym, PARAMS, ARGS)                                                                   \
    EXPORT CUresult sym PARAMS                                                                     \
    {                                                                                              \
        CUresult r = REAL(sym) ARGS;                                                               \
        return out_of_memory(r) ? REAL(sym) ARGS : r;                                              \
    }
RETRY(cuMemAlloc, (CUdeviceptr_v1 * dptr, unsigned int bytesize), (dptr, bytesize))
RETRY(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytesize), (dptr, bytesize))
RETRY(cuMemAllocPitch,
      (CUdeviceptr_v1 * dptr, unsigned int *pPitch, unsigned int WidthInBytes, unsigned int Height,
       unsigned int ElementSizeBytes),
      (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes))
RETRY(cuMemAllocPitch_v2,
      (CUdeviceptr * dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
       unsigned int ElementSizeBytes),
      (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes))
RETRY(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags),
      (dptr, bytesize, flags))
RETRY(cuArrayCreate, (CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *desc), (pHandle, desc))
RETRY(cuArrayCreate_v2, (CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR *desc), (pHandle, desc))
RETRY(cuArray3DCreate, (CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc), (pHandle, desc))
RETRY(cuArray3DCreate_v2, (CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *desc), (pHandle, desc))
RETRY(cuMipmappedArrayCreate,
      (CUmipmappedArray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels),
      (pHandle, desc, levels))
RETRY(cuMemCreate,
      (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp *prop,
       unsigned long long flags),
      (handle, size, prop, flags))

/* ---- managed memory in stream order ------------------------------------------------------- */

OP_FIRST(cuStreamAttachMemAsync, VHQ_UNCOUNTED | memory_managed_flags(dptr, length), 0,
         (CUdeviceptr, dptr), (size_t, length), (unsigned int, flags))
OP_LAST(cuMemPrefetchAsync, memory_managed_flags(devPtr, count), OP_COPY(count, false),
        (CUdeviceptr, devPtr), (size_t, count), (CUdevice, dstDevice))

/* The node of the calling thread is not the dispatcher's. */
static uint32_t location_flags(CUmemLocation location)
{
    return location.type == LOCATION_HOST_NUMA_CURRENT ? VHQ_MUST_INLINE : 0;
}
OP_LAST(cuMemPrefetchAsync_v2, memory_managed_flags(devPtr, count) | location_flags(location),
        OP_COPY(count, false), (CUdeviceptr, devPtr), (size_t, count), (CUmemLocation, location),
        (unsigned int, flags))
