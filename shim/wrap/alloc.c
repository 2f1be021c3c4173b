/*
 * alloc.c - allocation: in stream order, and calls that are retried once buffered frees were made.
 */
#include <string.h>

#include "shim/objects/block.h"
#include "shim/path/drain.h"
#include "shim/wrap/op.h"

/* True: a second try finds what buffered frees gave back. */
static bool out_of_memory(CUresult r)
{
    if (likely(r != CUDA_ERROR_OUT_OF_MEMORY))
        return false;
    struct shim_context *ctx = thread_bypasses() ? NULL : context_current_known();
    if (ctx)
        drain_context(ctx, false);
    return ctx;
}

struct alloc {
    CUdeviceptr *at;
    size_t bytes;
    bool named; /* the program named the pool; else it is the device's current one */
    CUmemoryPool pool;
    CUstream stream;
};

static CUresult alloc_real(const struct alloc *a)
{
    return a->named ? REAL(cuMemAllocFromPoolAsync)(a->at, a->bytes, a->pool, a->stream)
                    : REAL(cuMemAllocAsync)(a->at, a->bytes, a->stream);
}

/* The program needs the address now, so the allocation goes ahead of what is buffered. That is
 * legal: the pool reuses only what was freed by calls that the driver has seen. Two things might
 * wait for what it has overtaken. In the legacy stream, what one blocking stream has buffered would
 * follow what the driver has of another. And where memory is short the driver lets the allocation
 * wait for a free in another stream (CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES), which may
 * stand behind a wait for a value that the overtaken work writes: see alloc_queued. */
static inline CUresult alloc_ahead(const struct alloc *a, struct shim_stream *s)
{
    if (s && s->kind == VHQ_LEGACY)
        drain_before_legacy(s);
    CUresult r = alloc_real(a);
    return out_of_memory(r) ? alloc_real(a) : r;
}

static CUresult alloc_queued(const struct alloc *a, struct shim_stream *s)
{
    uint64_t freed = MUTANT(allocation_ahead)
                         ? 0
                         : atomic_load_explicit(&block_freed_bytes, memory_order_relaxed);
    /* A freed block is taken up only for a call that the driver would accept. */
    bool right = a->at && (!a->named || a->pool || MUTANT(no_pool_taken_up)) &&
                 !atomic_load_explicit(&s->ctx->error, memory_order_relaxed);
    CUdeviceptr at = freed && right ? block_take(s, a->bytes, a->pool) : 0;
    if (at) {
        *a->at = at;
        return CUDA_SUCCESS;
    }
    if (unlikely(freed > BLOCK_FREED_MOST))
        drain_all_unblocked();
    else if (unlikely(external_wait_ever()) && !MUTANT(allocation_waits_for_itself))
        drain_stream_unblocked(s);
    CUresult r = alloc_ahead(a, s);
    if (r == CUDA_SUCCESS)
        block_add(*a->at, a->bytes, a->pool);
    return r;
}

static CUresult alloc_async(struct alloc *a, bool ptds)
{
    a->stream = stream_normal(a->stream, ptds);
    struct shim_stream *s = thread_bypasses() ? NULL : stream_of(a->stream);
    bool queued = s && s->q && !capture_active(s);
    CUresult r = queued ? alloc_queued(a, s) : alloc_ahead(a, s);
    if (s)
        schedule_end(s, 0, false);
    return r;
}

BOTH(cuMemAllocAsync, (CUdeviceptr *, at), (size_t, bytes), (CUstream, stream))
{
    return alloc_async(&(struct alloc){at, bytes, .stream = stream}, ptds);
}
BOTH(cuMemAllocFromPoolAsync, (CUdeviceptr *, at), (size_t, bytes), (CUmemoryPool, pool),
     (CUstream, stream))
{
    return alloc_async(&(struct alloc){at, bytes, true, pool, stream}, ptds);
}

struct freeing {
    CUstream stream;
    CUdeviceptr at;
    struct block_free block;
    struct shim_stream *known;
    bool called;
};

static int free_now(void *args)
{
    struct freeing *f = args;
    f->called = true;
    return (int)op_freed(REAL(cuMemFreeAsync)(f->at, f->stream));
}

static int free_run(void *payload)
{
    const struct freeing *f = payload;
    bool due = block_free_end(f->block) || MUTANT(taken_up_and_freed);
    return due ? free_now(payload) : CUDA_SUCCESS;
}

static void free_drop(void *payload)
{
    block_free_end(((const struct freeing *)payload)->block);
}

static void free_pack(void *payload, const void *args)
{
    struct freeing *f = memcpy(payload, args, sizeof(*f));
    block_free_buffered(&f->block, f->known);
}

BOTH(cuMemFreeAsync, (CUdeviceptr, at), (CUstream, stream))
{
    struct shim_stream *s = call_stream(&stream, ptds);
    struct freeing f = {.stream = stream, .at = at, .known = s};
    bool queued = s && s->q;
    if (!queued) {
        struct call_inline at_once = {.flags = VHQ_MUST_INLINE};
        block_forget(at);
        if (call_inline_begin(&at_once, s))
            return call_inline_end(&at_once, s, op_freed(REAL(cuMemFreeAsync)(at, stream)));
    } else if (!block_free_begin(at, &f.block)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    /* An unknown block may be a graph's, or none, or one whose free the driver has already. No
     * query tells until the device is there, so the driver judges it inline. */
    bool judged = !f.block.block && !MUTANT(free_late);
    struct call c = {.now = free_now,
                     .run = free_run,
                     .drop = free_drop,
                     .pack = free_pack,
                     .args = &f,
                     .req = {.bytes = sizeof(f),
                             .flags = VHQ_UNCOUNTED | (judged ? VHQ_MUST_INLINE : 0) |
                                      MUTANT_OVERTAKES(free_overtakes)},
                     .name = "cuMemFreeAsync"};
    CUresult r = call_on(&c, s);
    if (queued && f.called && r == CUDA_SUCCESS)
        block_free_end(f.block);
    return r;
}

/* ---- what keeps a block from being taken up ----------------------------------------------- */

#define POOLS_CHANGE(sym, ...) WRAPPED(sym, , op_freed(r); block_pools_changed(), __VA_ARGS__)
POOLS_CHANGE(cuMemPoolDestroy, (CUmemoryPool, pool))
POOLS_CHANGE(cuDeviceSetMemPool, (CUdevice, dev), (CUmemoryPool, pool))
POOLS_CHANGE(cuMemSetMemPool, (CUmemLocation *, location), (CUmemAllocationType, type),
             (CUmemoryPool, pool))
WRAPPED(cuMemPoolTrimTo, , op_freed(r), (CUmemoryPool, pool), (size_t, minBytesToKeep))
WRAPPED(cuDeviceGraphMemTrim, , op_freed(r), (CUdevice, device))
WRAPPED(cuMemPoolExportPointer, block_known_elsewhere(ptr), , (CUmemPoolPtrExportData *, data),
        (CUdeviceptr, ptr))
WRAPPED(cuPointerSetAttribute, block_known_elsewhere(ptr), , (const void *, value),
        (CUpointer_attribute, attribute), (CUdeviceptr, ptr))

/* ---- other allocation: once more after a drain -------------------------------------------- */

#define RETRY(sym, ...)                                                                            \
    WRAPPED(sym, , if (out_of_memory(r)) r = REAL(sym)(EACH_VALUE(__VA_ARGS__)), __VA_ARGS__)
RETRY(cuMemAlloc, (CUdeviceptr_v1 *, dptr), (unsigned int, bytesize))
RETRY(cuMemAlloc_v2, (CUdeviceptr *, dptr), (size_t, bytesize))
RETRY(cuMemAllocPitch, (CUdeviceptr_v1 *, dptr), (unsigned int *, pPitch),
      (unsigned int, WidthInBytes), (unsigned int, Height), (unsigned int, ElementSizeBytes))
RETRY(cuMemAllocPitch_v2, (CUdeviceptr *, dptr), (size_t *, pPitch), (size_t, WidthInBytes),
      (size_t, Height), (unsigned int, ElementSizeBytes))
RETRY(cuMemAllocManaged, (CUdeviceptr *, dptr), (size_t, bytesize), (unsigned int, flags))
RETRY(cuArrayCreate, (CUarray *, pHandle), (const CUDA_ARRAY_DESCRIPTOR_v1 *, desc))
RETRY(cuArrayCreate_v2, (CUarray *, pHandle), (const CUDA_ARRAY_DESCRIPTOR *, desc))
RETRY(cuArray3DCreate, (CUarray *, pHandle), (const CUDA_ARRAY3D_DESCRIPTOR_v1 *, desc))
RETRY(cuArray3DCreate_v2, (CUarray *, pHandle), (const CUDA_ARRAY3D_DESCRIPTOR *, desc))
RETRY(cuMipmappedArrayCreate, (CUmipmappedArray *, pHandle),
      (const CUDA_ARRAY3D_DESCRIPTOR *, desc), (unsigned int, levels))
RETRY(cuMemCreate, (CUmemGenericAllocationHandle *, handle), (size_t, size),
      (const CUmemAllocationProp *, prop), (unsigned long long, flags))

/* Deferred only for all of an allocation, and for a way to attach that exists. */
OP_FIRST(cuStreamAttachMemAsync,
         VHQ_UNCOUNTED | (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST
                              ? memory_managed_whole_flags(dptr, length)
                              : VHQ_MUST_INLINE),
         0, (CUdeviceptr, dptr), (size_t, length), (unsigned int, flags))

static uint32_t prefetch_flags(CUdeviceptr at, size_t bytes, CUdevice to)
{
    return bytes ? memory_flags(at, bytes, MEMORY_MANAGED) | memory_target_flags(to)
                 : VHQ_MUST_INLINE;
}
OP_LAST(cuMemPrefetchAsync, prefetch_flags(devPtr, count, dstDevice), OP_COPY(count, false),
        (CUdeviceptr, devPtr), (size_t, count), (CUdevice, dstDevice))

OP_LAST(cuMemPrefetchAsync_v2,
        flags ? VHQ_MUST_INLINE : prefetch_flags(devPtr, count, memory_target(location)),
        OP_COPY(count, false), (CUdeviceptr, devPtr), (size_t, count), (CUmemLocation, location),
        (unsigned int, flags))

/* "It gives no indication as to whether the prefetch operation to that location has completed or
 * even begun" (cuda.h): so a buffered prefetch counts, too. */
static void prefetch_asked(const CUmem_range_attribute *which, size_t n)
{
    enum { LAST_PREFETCH_TYPE = 7, LAST_PREFETCH_ID };
    bool asked = false;
    for (size_t i = 0; which && i < n; i++)
        asked |= which[i] == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION ||
                 (int)which[i] == LAST_PREFETCH_TYPE || (int)which[i] == LAST_PREFETCH_ID;
    if (asked && !thread_bypasses() && !MUTANT(prefetch_unsaid))
        drain_all_unblocked();
}
WRAPPED(cuMemRangeGetAttribute, prefetch_asked(&attribute, 1), , (void *, data), (size_t, dataSize),
        (CUmem_range_attribute, attribute), (CUdeviceptr, devPtr), (size_t, count))
WRAPPED(cuMemRangeGetAttributes, prefetch_asked(attributes, numAttributes), , (void **, data),
        (size_t *, dataSizes), (CUmem_range_attribute *, attributes), (size_t, numAttributes),
        (CUdeviceptr, devPtr), (size_t, count))
