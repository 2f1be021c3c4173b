/*
 * batch.c - calls that take arrays: batches of copies, prefetches, discards, decompressions, of
 * sparse mappings, and of what other APIs share. The arrays are copied, unless the call may read
 * them, or what they point to, only before it returns.
 */
#include <string.h>

#include "shim/wrap/op.h"

enum { BATCH_MAX = 512, PREFER_OVERLAP = 1 /* a flag, 12.8 */ };
/* The first arrays have `count` elements. The last two are a list of its own: what is said of
 * operations, and the index of the first of which it is said. */
enum { TO, FROM, SIZES, EXTRA, INDEX, BATCH_ARRAYS };
static_assert(sizeof(CUdeviceptr) == sizeof(size_t), "elements of all but one have one size");

struct batch {
    CUstream stream;
    CUresult (*call)(const struct batch *b);
    void *array[BATCH_ARRAYS];
    uint32_t bytes[BATCH_ARRAYS]; /* 0: it is missing or too long */
    size_t count, extra_count;
    size_t extra_size; /* of an element; 0: the call has no such list */
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

/* True if each element of the second list begins at an index of the first list, 0 first and then
 * rising. Any other order is an error of the call. */
static bool batch_indexed(const struct batch *b)
{
    const size_t *index = b->array[INDEX];
    for (size_t i = 0; i < b->extra_count; i++)
        if (index[i] >= b->count || (i ? index[i] <= index[i - 1] : index[0] != 0))
            return false;
    return true;
}

static uint32_t copy_flags(const struct batch *b)
{
    const CUdeviceptr *dst = b->array[TO], *src = b->array[FROM];
    const size_t *sizes = b->array[SIZES];
    const CUmemcpyAttributes *attrs = b->array[EXTRA];
    for (int i = 0; i < BATCH_ARRAYS; i++)
        if (!b->bytes[i])
            return VHQ_MUST_INLINE;
    uint32_t flags = batch_indexed(b) ? 0 : VHQ_MUST_INLINE;
    for (size_t i = 0; i < b->extra_count && !flags; i++)
        /* DURING_API_CALL: the source may be gone when the call has returned. */
        if ((attrs[i].srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
             attrs[i].srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_ANY) ||
            attrs[i].flags > PREFER_OVERLAP)
            flags = VHQ_MUST_INLINE;
    for (size_t i = 0; i < b->count && !flags; i++)
        flags = !sizes[i] ? VHQ_MUST_INLINE
                          : memory_flags(dst[i], sizes[i], MEMORY_ANY) |
                                memory_flags(src[i], sizes[i], MEMORY_ANY) |
                                memory_pool_flags(dst[i], src[i], b->gpu);
    return flags;
}

static uint32_t managed_flags(const struct batch *b)
{
    const CUdeviceptr *at = b->array[TO];
    const size_t *sizes = b->array[SIZES];
    const CUmemLocation *where = b->array[EXTRA];
    if (b->extra_size && !b->extra_count) /* each range needs a location */
        return VHQ_MUST_INLINE;
    uint32_t flags = b->bytes[TO] && b->bytes[SIZES] && !b->flags ? 0 : VHQ_MUST_INLINE;
    if (MUTANT(batch_late) && b->bytes[TO] && b->bytes[SIZES])
        return 0;
    if (b->extra_count && (!b->bytes[EXTRA] || !b->bytes[INDEX] || !batch_indexed(b)))
        return VHQ_MUST_INLINE;
    for (size_t i = 0; !flags && i < b->count; i++)
        flags = sizes[i] ? memory_flags(at[i], sizes[i], MEMORY_MANAGED) : VHQ_MUST_INLINE;
    for (size_t i = 0; !flags && i < b->extra_count; i++)
        flags = memory_target_flags(memory_target(where[i]));
    return flags;
}

/* `copies`: they are copies, else they move or discard managed memory. */
static CUresult batch_submit(struct batch *b, bool ptds, bool copies)
{
    struct call c = {.now = batch_run, .pack = batch_pack, .args = b};
    struct shim_stream *s = call_stream(&b->stream, ptds);
    if (!s || !s->q)
        return call_on(&c, s);
    b->gpu = s->ctx->gpu;
    for (int i = 0; i < BATCH_ARRAYS; i++) {
        size_t n = i < EXTRA ? b->count : b->extra_count;
        size_t each = i == EXTRA ? b->extra_size : sizeof(size_t);
        b->bytes[i] = b->array[i] && n <= BATCH_MAX ? (uint32_t)(n * each) : 0;
    }
    /* It may be a batch that the driver will refuse, so there may be no sizes. */
    const size_t *sizes = b->array[SIZES];
    size_t bytes = 0;
    for (size_t i = 0; sizes && i < b->count && (copies || i < BATCH_MAX); i++)
        bytes += sizes[i];
    c.req.est_ns = copies ? estimate_upload_ns(bytes) : estimate_copy_ns(bytes, false);
    /* No batch may go into the legacy stream, as cuda.h says of each kind. */
    if (!b->count || b->count > BATCH_MAX || b->stream == CU_STREAM_LEGACY)
        c.req.flags = VHQ_MUST_INLINE;
    else
        c.req.flags = copies ? copy_flags(b) : managed_flags(b);
    if (!(c.req.flags & VHQ_MUST_INLINE)) {
        c.run = batch_run;
        c.req.bytes = (uint32_t)sizeof(*b);
        for (int i = 0; i < BATCH_ARRAYS; i++)
            c.req.bytes += align16(b->bytes[i]);
    }
    return call_on(&c, s);
}

#define COPIES(real, dsts, srcs, sizes, n, attrs, indices, m)                                      \
    .stream = stream, .call = real, .count = n, .extra_count = m,                                  \
    .extra_size = sizeof(CUmemcpyAttributes), .array = {dsts, srcs, sizes, attrs, indices}

static CUresult copy_v1(const struct batch *b)
{
    size_t ignored;
    return REAL(cuMemcpyBatchAsync)(b->array[TO], b->array[FROM], b->array[SIZES], b->count,
                                    b->array[EXTRA], b->array[INDEX], b->extra_count,
                                    b->out ? b->out : &ignored, b->stream);
}
BOTH(cuMemcpyBatchAsync, (CUdeviceptr *, dsts), (CUdeviceptr *, srcs), (size_t *, sizes),
     (size_t, count), (CUmemcpyAttributes *, attrs), (size_t *, attrsIdxs), (size_t, numAttrs),
     (size_t *, failIdx), (CUstream, stream))
{
    struct batch b = {COPIES(copy_v1, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs),
                      .out = failIdx};
    return batch_submit(&b, ptds, true);
}

/* One copy is a batch of one. */
static CUresult copy_one(const struct batch *b)
{
    const CUdeviceptr *dst = b->array[TO], *src = b->array[FROM];
    const size_t *size = b->array[SIZES];
    return REAL(cuMemcpyWithAttributesAsync)(*dst, *src, *size, b->array[EXTRA], b->stream);
}
BOTH(cuMemcpyWithAttributesAsync, (CUdeviceptr, dst), (CUdeviceptr, src), (size_t, size),
     (CUmemcpyAttributes *, attr), (CUstream, stream))
{
    size_t first = 0;
    struct batch b = {COPIES(copy_one, &dst, &src, &size, 1, attr, &first, 1)};
    return batch_submit(&b, ptds, true);
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
    return REAL(cuMemcpyBatchAsync_v2)(b->array[TO], b->array[FROM], b->array[SIZES], b->count,
                                       b->array[EXTRA], b->array[INDEX], b->extra_count, b->stream);
}
BOTH(cuMemcpyBatchAsync_v2, (CUdeviceptr *, dsts), (CUdeviceptr *, srcs), (size_t *, sizes),
     (size_t, count), (CUmemcpyAttributes *, attrs), (size_t *, attrsIdxs), (size_t, numAttrs),
     (CUstream, stream))
{
    struct batch b = {COPIES(copy_v2, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs)};
    return batch_submit(&b, ptds, true);
}

#define RANGES(real, extra, indices)                                                               \
    .stream = stream, .call = real, .count = count, .flags = flags,                                \
    .array = {dptrs, NULL, sizes, extra, indices}

#define LOCATED(sym, name)                                                                         \
    static CUresult name(const struct batch *b)                                                    \
    {                                                                                              \
        return REAL(sym)(b->array[TO], b->array[SIZES], b->count, b->array[EXTRA],                 \
                         b->array[INDEX], b->extra_count, b->flags, b->stream);                    \
    }                                                                                              \
    BOTH(sym, (CUdeviceptr *, dptrs), (size_t *, sizes), (size_t, count), (CUmemLocation *, locs), \
         (size_t *, locIdxs), (size_t, numLocs), (unsigned long long, flags), (CUstream, stream))  \
    {                                                                                              \
        struct batch b = {RANGES(name, locs, locIdxs), .extra_count = numLocs,                     \
                          .extra_size = sizeof(*locs)};                                            \
        return batch_submit(&b, ptds, false);                                                      \
    }
LOCATED(cuMemPrefetchBatchAsync, prefetch)
LOCATED(cuMemDiscardAndPrefetchBatchAsync, discard_and_prefetch)

static CUresult discard(const struct batch *b)
{
    return REAL(cuMemDiscardBatchAsync)(b->array[TO], b->array[SIZES], b->count, b->flags,
                                        b->stream);
}
BOTH(cuMemDiscardBatchAsync, (CUdeviceptr *, dptrs), (size_t *, sizes), (size_t, count),
     (unsigned long long, flags), (CUstream, stream))
{
    struct batch b = {RANGES(discard, NULL, NULL)};
    return batch_submit(&b, ptds, false);
}

/* ---- inline: rare calls, not worth a check of all that they name ----------------------------- */

OP_LAST(cuMemBatchDecompressAsync, VHQ_MUST_INLINE, VHQ_UNKNOWN_NS,
        (CUmemDecompressParams *, params), (size_t, count), (unsigned int, flags),
        (size_t *, errorIndex))
OP_LAST(cuMemMapArrayAsync, VHQ_UNCOUNTED | VHQ_MUST_INLINE, VHQ_UNKNOWN_NS,
        (CUarrayMapInfo *, list), (unsigned int, count))

/* Semaphores and resources that other APIs share: only the other API knows what such calls mean.
 * They come behind what their own stream has buffered, whichever context is current. */
OP_LAST(cuSignalExternalSemaphoresAsync, VHQ_UNCOUNTED | VHQ_MUST_INLINE, 0,
        (const CUexternalSemaphore *, semaphores),
        (const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *, params), (unsigned int, count))
OP_LAST(cuGraphicsMapResources, VHQ_UNCOUNTED | VHQ_MUST_INLINE, 0, (unsigned int, count),
        (CUgraphicsResource *, resources))
OP_LAST(cuGraphicsUnmapResources, VHQ_UNCOUNTED | VHQ_MUST_INLINE, 0, (unsigned int, count),
        (CUgraphicsResource *, resources))

/* The signaller may wait for any stream of the context, as with values in memory (memop.c). */
OP_RUN_WATCHED(cuWaitExternalSemaphoresAsync, true,
               REAL(cuWaitExternalSemaphoresAsync)(a->semaphores, a->params, a->count, a->stream),
               (const CUexternalSemaphore *, semaphores),
               (const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *, params), (unsigned int, count))
BOTH(cuWaitExternalSemaphoresAsync, (const CUexternalSemaphore *, semaphores),
     (const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *, params), (unsigned int, count),
     (CUstream, stream))
{
    struct cuWaitExternalSemaphoresAsync_args a = {stream, semaphores, params, count};
    return op_turn(cuWaitExternalSemaphoresAsync_run, &a, VHQ_AFTER_ALL, ptds);
}
