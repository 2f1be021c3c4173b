/*
 * copy_api.c - the forms of the copy call. Each turns its arguments into a CUDA_MEMCPY3D and
 * submits that.
 */
#include "tools/simgpu/memory/array.h"
#include "tools/simgpu/memory/copy.h"
#include "tools/simgpu/face/variants.h"
#include "tools/simgpu/stream/stream.h"

#include <assert.h>

/* The ends of a linear copy. */
#define TO_HOST(p)       .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = (p)
#define TO_DEVICE(p)     .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = (p)
#define TO_ANY(p)        .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = (p)
#define TO_ARRAY(a, x)   .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = (a), .dstXInBytes = (x)
#define FROM_HOST(p)     .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = (p)
#define FROM_DEVICE(p)   .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = (p)
#define FROM_ANY(p)      .srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = (p)
#define FROM_ARRAY(a, x) .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = (a), .srcXInBytes = (x)
#define LINEAR(n, ...) (&(CUDA_MEMCPY3D){__VA_ARGS__, .WidthInBytes = (n), .Height = 1, .Depth = 1})

#define COPY_NOW(symbol, params, ...)                                                              \
    SYNC_API(symbol, params, copy_submit(LINEAR(__VA_ARGS__), NULL, ptds, COPY_SYNC))
#define COPY_LATER(symbol, params, ...)                                                            \
    STREAM_API(symbol, params, copy_submit(LINEAR(__VA_ARGS__), s, ptds, COPY_ASYNC))

COPY_NOW(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t n), n, TO_ANY(dst), FROM_ANY(src))
COPY_NOW(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t n), n, TO_DEVICE(dst),
         FROM_HOST(src))
COPY_NOW(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t n), n, TO_HOST(dst), FROM_DEVICE(src))
COPY_NOW(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n), n, TO_DEVICE(dst),
         FROM_DEVICE(src))
COPY_NOW(cuMemcpyDtoA_v2, (CUarray dst, size_t at, CUdeviceptr src, size_t n), n, TO_ARRAY(dst, at),
         FROM_DEVICE(src))
COPY_NOW(cuMemcpyAtoD_v2, (CUdeviceptr dst, CUarray src, size_t at, size_t n), n, TO_DEVICE(dst),
         FROM_ARRAY(src, at))
COPY_NOW(cuMemcpyHtoA_v2, (CUarray dst, size_t at, const void *src, size_t n), n, TO_ARRAY(dst, at),
         FROM_HOST(src))
COPY_NOW(cuMemcpyAtoH_v2, (void *dst, CUarray src, size_t at, size_t n), n, TO_HOST(dst),
         FROM_ARRAY(src, at))
COPY_NOW(cuMemcpyAtoA_v2, (CUarray dst, size_t to, CUarray src, size_t from, size_t n), n,
         TO_ARRAY(dst, to), FROM_ARRAY(src, from))

COPY_LATER(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s), n, TO_ANY(dst),
           FROM_ANY(src))
COPY_LATER(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t n, CUstream s), n,
           TO_DEVICE(dst), FROM_HOST(src))
COPY_LATER(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t n, CUstream s), n,
           TO_HOST(dst), FROM_DEVICE(src))
COPY_LATER(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s), n,
           TO_DEVICE(dst), FROM_DEVICE(src))
COPY_LATER(cuMemcpyHtoAAsync_v2, (CUarray dst, size_t at, const void *src, size_t n, CUstream s), n,
           TO_ARRAY(dst, at), FROM_HOST(src))
COPY_LATER(cuMemcpyAtoHAsync_v2, (void *dst, CUarray src, size_t at, size_t n, CUstream s), n,
           TO_HOST(dst), FROM_ARRAY(src, at))

/* No real driver has this function, so it is in no table. To a library in between it is what a
 * function of a newer driver is. */
COPY_LATER(cuSimgpuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s), n,
           TO_DEVICE(dst), FROM_DEVICE(src))

/* ---- between contexts ------------------------------------------------------------------------ */

SYNC_API(cuMemcpyPeer, (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n),
         copy_peer(LINEAR(n, TO_DEVICE(dst), FROM_DEVICE(src)), to, from, NULL, ptds, COPY_SYNC))
STREAM_API(cuMemcpyPeerAsync,
           (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n, CUstream s),
           copy_peer(LINEAR(n, TO_DEVICE(dst), FROM_DEVICE(src)), to, from, s, ptds, COPY_ASYNC))

/* ---- rectangles and boxes -------------------------------------------------------------------- */

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream s, bool ptds, enum copy_mode mode)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D box = {
        .srcXInBytes = p->srcXInBytes,
        .srcY = p->srcY,
        .srcMemoryType = p->srcMemoryType,
        .srcHost = p->srcHost,
        .srcDevice = p->srcDevice,
        .srcArray = p->srcArray,
        .srcPitch = p->srcPitch,
        .dstXInBytes = p->dstXInBytes,
        .dstY = p->dstY,
        .dstMemoryType = p->dstMemoryType,
        .dstHost = p->dstHost,
        .dstDevice = p->dstDevice,
        .dstArray = p->dstArray,
        .dstPitch = p->dstPitch,
        .WidthInBytes = p->WidthInBytes,
        .Height = p->Height,
        .Depth = 1,
    };
    return copy_submit(&box, s, ptds, mode);
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream s, bool ptds,
                             enum copy_mode mode)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D box; /* its reserved members are where `p` has contexts */
    static_assert(sizeof(box) == sizeof(*p), "alike");
    memcpy(&box, p, sizeof(box));
    box.reserved0 = box.reserved1 = NULL;
    return copy_peer(&box, p->dstContext, p->srcContext, s, ptds, mode);
}

SYNC_API(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *p), copy_2d(p, NULL, ptds, COPY_SYNC))
SYNC_API(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *p), copy_2d(p, NULL, ptds, COPY_SYNC))
STREAM_API(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *p, CUstream s),
           copy_2d(p, s, ptds, COPY_ASYNC))
SYNC_API(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *p), copy_submit(p, NULL, ptds, COPY_SYNC))
STREAM_API(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *p, CUstream s),
           copy_submit(p, s, ptds, COPY_ASYNC))
SYNC_API(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *p), copy_3d_peer(p, NULL, ptds, COPY_SYNC))
STREAM_API(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *p, CUstream s),
           copy_3d_peer(p, s, ptds, COPY_ASYNC))

/* ---- batches (12.8; 13.0 without the index of the failed copy) ------------------------------- */

#if CUDA_VERSION >= 12080
CUresult batch_check(CUstream s, bool ptds, size_t count)
{
    struct sim_stream *stream;
    TRY(stream_arg(s, ptds, NULL, &stream));
    return stream_is_legacy(stream) || count == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

bool batch_runs(const size_t *first, size_t n, size_t count)
{
    bool rising = first && n != 0 && n <= count && first[0] == 0;
    for (size_t i = 1; rising && i < n; i++)
        rising = first[i] < count && first[i] > first[i - 1];
    return rising;
}

static CUresult batch_failed(size_t *failed, size_t index, CUresult rc)
{
    if (failed && rc != CUDA_SUCCESS)
        *failed = index;
    return rc;
}

static bool attributes_valid(const CUmemcpyAttributes *attrs, size_t n)
{
    bool valid = attrs;
    for (size_t i = 0; valid && i < n; i++)
        valid = attrs[i].srcAccessOrder >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
                attrs[i].srcAccessOrder <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    return valid;
}

/* The copies of a batch have no order among each other. Here they run in the order of the
 * arrays. */
static CUresult copy_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                           size_t count, const CUmemcpyAttributes *attrs, const size_t *first,
                           size_t n, size_t *failed, CUstream s, bool ptds)
{
    if (failed)
        *failed = SIZE_MAX;
    CUresult rc = batch_check(s, ptds, count);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!dsts || !srcs || !sizes || !batch_runs(first, n, count) || !attributes_valid(attrs, n))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && rc == CUDA_SUCCESS; i++)
        rc = batch_failed(failed, i,
                          sizes[i] == 0
                              ? CUDA_ERROR_INVALID_VALUE
                              : copy_submit(LINEAR(sizes[i], TO_ANY(dsts[i]), FROM_ANY(srcs[i])), s,
                                            ptds, COPY_ASYNC));
    return rc;
}

STREAM_API(cuMemcpyBatchAsync,
           (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
            CUmemcpyAttributes *attrs, size_t *first, size_t n, size_t *failed, CUstream s),
           copy_batch(dsts, srcs, sizes, count, attrs, first, n, failed, s, ptds))
#if CUDA_VERSION >= 13000
STREAM_API(cuMemcpyBatchAsync_v2,
           (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
            CUmemcpyAttributes *attrs, size_t *first, size_t n, CUstream s),
           copy_batch(dsts, srcs, sizes, count, attrs, first, n, NULL, s, ptds))
#endif

STREAM_API(cuMemcpyWithAttributesAsync,
           (CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attr, CUstream s),
           attributes_valid(attr, 1)
               ? copy_submit(LINEAR(size, TO_ANY(dst), FROM_ANY(src)), s, ptds, COPY_ASYNC)
               : CUDA_ERROR_INVALID_VALUE)

/* One operand of a 3D batch. Linear memory counts bytes, an array counts elements. */
static CUresult operand_end(const CUmemcpy3DOperand *o, struct copy_end *end, size_t *element)
{
    struct array_view view = {.element = 1};
    if (o->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
        *end = (struct copy_end){.type = CU_MEMORYTYPE_UNIFIED,
                                 .device = o->op.ptr.ptr,
                                 .pitch = o->op.ptr.rowLength,
                                 .height = o->op.ptr.layerHeight};
        return CUDA_SUCCESS;
    }
    if (o->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(array_find(o->op.array.array, &view));
    if (view.element > *element)
        *element = view.element;
    *end = (struct copy_end){.type = CU_MEMORYTYPE_ARRAY,
                             .array = o->op.array.array,
                             .x = o->op.array.offset.x * view.element,
                             .y = o->op.array.offset.y,
                             .z = o->op.array.offset.z};
    return CUDA_SUCCESS;
}

static CUresult copy_3d_op(const CUDA_MEMCPY3D_BATCH_OP *op, CUstream s, bool ptds)
{
    CUDA_MEMCPY3D box = {.Height = op->extent.height, .Depth = op->extent.depth};
    struct copy_end ends[2];
    size_t element = 1;
    TRY(operand_end(&op->dst, &ends[1], &element));
    TRY(operand_end(&op->src, &ends[0], &element));
    memcpy(&box, ends, sizeof(ends));
    box.WidthInBytes = op->extent.width * element;
    box.dstPitch *= element;
    box.srcPitch *= element;
    return copy_submit(&box, s, ptds, COPY_ASYNC);
}

static CUresult copy_3d_batch(size_t count, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed,
                              unsigned long long flags, CUstream s, bool ptds)
{
    if (failed)
        *failed = SIZE_MAX;
    CUresult rc = batch_check(s, ptds, count);
    if (rc == CUDA_SUCCESS && (!ops || flags != 0))
        rc = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && rc == CUDA_SUCCESS; i++)
        rc = batch_failed(failed, i, copy_3d_op(&ops[i], s, ptds));
    return rc;
}

STREAM_API(cuMemcpy3DWithAttributesAsync,
           (CUDA_MEMCPY3D_BATCH_OP * op, unsigned long long flags, CUstream s),
           (op && flags == 0) ? copy_3d_op(op, s, ptds) : CUDA_ERROR_INVALID_VALUE)
STREAM_API(cuMemcpy3DBatchAsync,
           (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed, unsigned long long flags,
            CUstream s),
           copy_3d_batch(count, ops, failed, flags, s, ptds))
#if CUDA_VERSION >= 13000
STREAM_API(cuMemcpy3DBatchAsync_v2,
           (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream s),
           copy_3d_batch(count, ops, NULL, flags, s, ptds))
#endif
#endif
