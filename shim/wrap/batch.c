/*
 * batch.c - calls that take arrays: batches of copies, prefetches, discards, decompressions, and of
 * sparse mappings. The arrays are copied, unless the call may read them, or what they point to,
 * only before it returns.
 */
#include <string.h>

#include "shim/wrap/op.h"

enum { BATCH_ARRAYS = 5, BATCH_MAX = 512, PREFER_OVERLAP = 1 /* a flag, 12.8 */ };

struct batch {
    CUstream stream;
    CUresult (*call)(const struct batch *b);
    void *array[BATCH_ARRAYS];
    uint32_t bytes[BATCH_ARRAYS];
    size_t count, extra_count;
    unsigned long long flags;
    const struct gpu_device *gpu; /* the stream's */
    size_t *out; /* index of the operation that failed; written before the call returns */
    _Alignas(16) unsigned char data[];
};

static int batch_run(void *payload)
{
    const struct batch *b = payload;
    return (int)b->call(b);
}

static void batch_pack(void *payload, const void *args)
{
    const struct batch *from = args;
    struct batch *to = payload;
    memcpy(to, from, sizeof(*to));
    unsigned char *at = to->data;
    to->out = NULL;
    for (int i = 0; i < BATCH_ARRAYS; i++) {
        if (!from->bytes[i])
            continue;
        memcpy(at, from->array[i], from->bytes[i]);
        to->array[i] = at;
        at += align16(from->bytes[i]);
    }
}

/* `flags` and `est_ns` are called only if the call goes through a vHQ. */
static CUresult batch_submit(struct batch *b, bool ptds, uint32_t (*flags)(const struct batch *),
                             uint64_t (*est_ns)(const struct batch *))
{
    struct call c = {.now = batch_run, .pack = batch_pack, .args = b};
    struct shim_stream *s = call_stream(&b->stream, ptds);
    if (!s || !s->q)
        return call_on(&c, s);
    b->gpu = s->ctx->gpu;
    c.req.est_ns = est_ns(b);
    /* No batch may go into the legacy stream, as cuda.h says of each kind. */
    c.req.flags = b->count && b->count <= BATCH_MAX && b->stream != CU_STREAM_LEGACY
                      ? flags(b)
                      : VHQ_MUST_INLINE;
    if (!(c.req.flags & VHQ_MUST_INLINE)) {
        c.run = batch_run;
        c.req.bytes = (uint32_t)sizeof(*b);
        for (int i = 0; i < BATCH_ARRAYS; i++)
            c.req.bytes += align16(b->bytes[i]);
    }
    return call_on(&c, s);
}

/* An array of `n` elements; a missing one is for the driver to judge, inline. */
#define ARRAY(b, i, pointer, n)                                                                    \
    ((b)->array[i] = (void *)(pointer),                                                            \
     (b)->bytes[i] = (pointer) && (n) <= BATCH_MAX ? (uint32_t)((n) * sizeof(*(pointer))) : 0)

/* The bytes of the first `most` elements. It is also called for a batch that the driver will
 * refuse, so there may be no sizes. */
static size_t batch_bytes(const struct batch *b, const size_t *sizes, size_t most)
{
    size_t sum = 0;
    for (size_t i = 0; sizes && i < b->count && i < most; i++)
        sum += sizes[i];
    return sum;
}

/* True if each element of the second list begins at an index of the first list, 0 first and then
 * rising. Any other order is an error of the call. */
static bool batch_indexed(const struct batch *b, const size_t *index)
{
    for (size_t i = 0; i < b->extra_count; i++)
        if (index[i] >= b->count || (i ? index[i] <= index[i - 1] : index[0] != 0))
            return false;
    return true;
}

/* ---- copies ------------------------------------------------------------------------------- */

static uint64_t copy_ns(const struct batch *b)
{
    return estimate_upload_ns(batch_bytes(b, b->array[2], SIZE_MAX));
}

static bool attributes_allow(const CUmemcpyAttributes *attrs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        /* DURING_API_CALL: the source may be gone when the call has returned. */
        if (!((attrs[i].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
               attrs[i].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_ANY) &&
              attrs[i].flags <= PREFER_OVERLAP))
            return false;
    return true;
}

static uint32_t copy_flags(const struct batch *b)
{
    const CUdeviceptr *dst = b->array[0], *src = b->array[1];
    const size_t *sizes = b->array[2];
    uint32_t flags = 0;
    if (!b->bytes[0] || !b->bytes[1] || !b->bytes[2] || !b->bytes[3] || !b->bytes[4] ||
        !attributes_allow(b->array[3], b->extra_count) || !batch_indexed(b, b->array[4]))
        return VHQ_MUST_INLINE;
    for (size_t i = 0; i < b->count && !flags; i++)
        flags = !sizes[i] ? VHQ_MUST_INLINE
                          : memory_flags(dst[i], sizes[i], MEMORY_ANY) |
                                memory_flags(src[i], sizes[i], MEMORY_ANY) |
                                memory_pool_flags(dst[i], src[i], b->gpu);
    return flags;
}

static void copy_fill(struct batch *b, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                      size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs)
{
    b->count = count;
    b->extra_count = numAttrs;
    ARRAY(b, 0, dsts, count);
    ARRAY(b, 1, srcs, count);
    ARRAY(b, 2, sizes, count);
    ARRAY(b, 3, attrs, numAttrs);
    ARRAY(b, 4, attrsIdxs, numAttrs);
}

static CUresult copy_v1(const struct batch *b)
{
    size_t ignored;
    return REAL(cuMemcpyBatchAsync)(b->array[0], b->array[1], b->array[2], b->count, b->array[3],
                                    b->array[4], b->extra_count, b->out ? b->out : &ignored,
                                    b->stream);
}
BOTH(cuMemcpyBatchAsync, (CUdeviceptr *, dsts), (CUdeviceptr *, srcs), (size_t *, sizes),
     (size_t, count), (CUmemcpyAttributes *, attrs), (size_t *, attrsIdxs), (size_t, numAttrs),
     (size_t *, failIdx), (CUstream, stream))
{
    struct batch b = {.stream = stream, .call = copy_v1, .out = failIdx};
    copy_fill(&b, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs);
    return batch_submit(&b, ptds, copy_flags, copy_ns);
}

/* One copy is a batch of one. */
static CUresult copy_one(const struct batch *b)
{
    const CUdeviceptr *dst = b->array[0], *src = b->array[1];
    const size_t *size = b->array[2];
    return REAL(cuMemcpyWithAttributesAsync)(*dst, *src, *size, b->array[3], b->stream);
}
BOTH(cuMemcpyWithAttributesAsync, (CUdeviceptr, dst), (CUdeviceptr, src), (size_t, size),
     (CUmemcpyAttributes *, attr), (CUstream, stream))
{
    size_t first = 0;
    struct batch b = {.stream = stream, .call = copy_one};
    copy_fill(&b, &dst, &src, &size, 1, attr, &first, 1);
    return batch_submit(&b, ptds, copy_flags, copy_ns);
}

/* Each operation names addresses, arrays and pitches. They are not checked, so it goes inline. */
OP_LAST(cuMemcpy3DBatchAsync, VHQ_MUST_INLINE, VHQ_UNKNOWN_NS, (size_t, numOps),
        (CUDA_MEMCPY3D_BATCH_OP *, opList), (size_t *, failIdx), (unsigned long long, flags))
OP_LAST(cuMemcpy3DBatchAsync_v2, VHQ_MUST_INLINE, VHQ_UNKNOWN_NS, (size_t, numOps),
        (CUDA_MEMCPY3D_BATCH_OP *, opList), (unsigned long long, flags))
OP_LAST(cuMemcpy3DWithAttributesAsync, VHQ_MUST_INLINE, VHQ_UNKNOWN_NS,
        (CUDA_MEMCPY3D_BATCH_OP *, op), (unsigned long long, flags))

static CUresult copy_v2(const struct batch *b)
{
    return REAL(cuMemcpyBatchAsync_v2)(b->array[0], b->array[1], b->array[2], b->count, b->array[3],
                                       b->array[4], b->extra_count, b->stream);
}
BOTH(cuMemcpyBatchAsync_v2, (CUdeviceptr *, dsts), (CUdeviceptr *, srcs), (size_t *, sizes),
     (size_t, count), (CUmemcpyAttributes *, attrs), (size_t *, attrsIdxs), (size_t, numAttrs),
     (CUstream, stream))
{
    struct batch b = {.stream = stream, .call = copy_v2};
    copy_fill(&b, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs);
    return batch_submit(&b, ptds, copy_flags, copy_ns);
}

/* ---- managed memory ----------------------------------------------------------------------- */

static uint32_t managed_flags(const struct batch *b)
{
    const CUdeviceptr *at = b->array[0];
    const size_t *sizes = b->array[1];
    const CUmemLocation *where = b->array[2];
    uint32_t flags = b->bytes[0] && b->bytes[1] && !b->flags ? 0 : VHQ_MUST_INLINE;
    if (MUTANT(batch_late) && b->bytes[0] && b->bytes[1])
        return 0;
    if (b->extra_count && (!b->bytes[2] || !b->bytes[3] || !batch_indexed(b, b->array[3])))
        return VHQ_MUST_INLINE;
    for (size_t i = 0; !flags && i < b->count; i++)
        flags = sizes[i] ? memory_flags(at[i], sizes[i], MEMORY_MANAGED) : VHQ_MUST_INLINE;
    for (size_t i = 0; !flags && i < b->extra_count; i++)
        flags = memory_target_flags(memory_target(where[i]));
    return flags;
}

/* Each range needs a location. */
static uint32_t located_flags(const struct batch *b)
{
    return b->extra_count ? managed_flags(b) : VHQ_MUST_INLINE;
}

static uint64_t managed_ns(const struct batch *b)
{
    return estimate_copy_ns(batch_bytes(b, b->array[1], BATCH_MAX), false);
}

static void managed_fill(struct batch *b, CUdeviceptr *dptrs, size_t *sizes, size_t count,
                         unsigned long long flags)
{
    b->count = count;
    b->flags = flags;
    ARRAY(b, 0, dptrs, count);
    ARRAY(b, 1, sizes, count);
}

#define LOCATED(sym, name)                                                                         \
    static CUresult name(const struct batch *b)                                                    \
    {                                                                                              \
        return REAL(sym)(b->array[0], b->array[1], b->count, b->array[2], b->array[3],             \
                         b->extra_count, b->flags, b->stream);                                     \
    }                                                                                              \
    BOTH(sym, (CUdeviceptr *, dptrs), (size_t *, sizes), (size_t, count), (CUmemLocation *, locs), \
         (size_t *, locIdxs), (size_t, numLocs), (unsigned long long, flags), (CUstream, stream))  \
    {                                                                                              \
        struct batch b = {.stream = stream, .call = name, .extra_count = numLocs};                 \
        managed_fill(&b, dptrs, sizes, count, flags);                                              \
        ARRAY(&b, 2, locs, numLocs);                                                               \
        ARRAY(&b, 3, locIdxs, numLocs);                                                            \
        return batch_submit(&b, ptds, located_flags, managed_ns);                                  \
    }
LOCATED(cuMemPrefetchBatchAsync, prefetch)
LOCATED(cuMemDiscardAndPrefetchBatchAsync, discard_and_prefetch)

static CUresult discard(const struct batch *b)
{
    return REAL(cuMemDiscardBatchAsync)(b->array[0], b->array[1], b->count, b->flags, b->stream);
}
BOTH(cuMemDiscardBatchAsync, (CUdeviceptr *, dptrs), (size_t *, sizes), (size_t, count),
     (unsigned long long, flags), (CUstream, stream))
{
    struct batch b = {.stream = stream, .call = discard};
    managed_fill(&b, dptrs, sizes, count, flags);
    return batch_submit(&b, ptds, managed_flags, managed_ns);
}

/* ---- inline: rare calls, not worth a check of all that they name ----------------------------- */

OP_LAST(cuMemBatchDecompressAsync, VHQ_MUST_INLINE, VHQ_UNKNOWN_NS,
        (CUmemDecompressParams *, params), (size_t, count), (unsigned int, flags),
        (size_t *, errorIndex))
OP_LAST(cuMemMapArrayAsync, VHQ_UNCOUNTED | VHQ_MUST_INLINE, VHQ_UNKNOWN_NS,
        (CUarrayMapInfo *, list), (unsigned int, count))
