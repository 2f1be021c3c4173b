/*
 * copy.c - copies and memsets. A host operand in pageable memory makes an asynchronous copy inline:
 * the driver reads or writes it before the call returns. The calling thread makes the synchronous
 * ones, in their turn: behind what is buffered before them, and not while they are held.
 */
#include "shim/wrap/op.h"
#include "shim/path/pieces.h"

/* Larger values are for the driver to judge. No sum of values up to this overflows. */
#define MAX_PITCH ((size_t)1 << 31)

/* If it is not certain that the driver accepts a copy, the calling thread makes it. So the call
 * itself returns the driver's answer, and no later call gets it. */

/* Flags of the target. A copy into pageable memory is complete when the call returns. */
static uint32_t into_flags(struct call *c, bool may_be_pageable, uint32_t flags)
{
    c->waits = flags && may_be_pageable;
    return flags;
}

/* Flags for both ends of a copy in stream `s`. */
#define POOLS(a, b)                                                                                \
    (!gpu_device_several() ? 0 : memory_pool_flags(ADDRESS(a), ADDRESS(b), s->ctx->gpu))

#define NO_WAIT false /* within the device, or not known: the driver need not wait for it */

#define REAL_SYNC(sym, ...)                                                                        \
    (stream == CU_STREAM_PER_THREAD ? REAL(sym##_ptds)(__VA_ARGS__) : REAL(sym)(__VA_ARGS__))
#define PIECE(sym, call)                                                                           \
    static CUresult sym##_piece(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)       \
    {                                                                                              \
        return call;                                                                               \
    }
#define LINEAR(async, sync, to, from, way, est, waits, flags)                                      \
    PIECE(async, REAL(async)((to)dst, (from)src, n, stream))                                       \
    PIECE(sync, REAL_SYNC(sync, (to)dst, (from)src, n))                                            \
    OP_LAST_CUT(async, (flags) | POOLS(dst, src), est, CUT(async, way, dst, src), (to, dst),       \
                (from, src), (size_t, ByteCount))                                                  \
    OP_SYNC_CUT(sync, waits, est, CUT(sync, way, dst, src), (to, dst), (from, src),                \
                (size_t, ByteCount))

LINEAR(cuMemcpyHtoDAsync_v2, cuMemcpyHtoD_v2, CUdeviceptr, const void *, COPY_UP,
       OP_UPLOAD(ByteCount), memory_copy_waits(dst, ADDRESS(src)),
       memory_flags(ADDRESS(src), ByteCount, MEMORY_HOST) |
           memory_flags(dst, ByteCount, MEMORY_DEVICE))
LINEAR(cuMemcpyDtoHAsync_v2, cuMemcpyDtoH_v2, void *, CUdeviceptr, COPY_DOWN,
       OP_COPY(ByteCount, false), true,
       into_flags(&c, true, memory_flags(ADDRESS(dst), ByteCount, MEMORY_ANY)) |
           memory_flags(ADDRESS(dst), ByteCount, MEMORY_HOST) |
           memory_flags(src, ByteCount, MEMORY_DEVICE))
LINEAR(cuMemcpyDtoDAsync_v2, cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr, COPY_WITHIN,
       OP_COPY(ByteCount, true), NO_WAIT,
       memory_flags(dst, ByteCount, MEMORY_DEVICE) | memory_flags(src, ByteCount, MEMORY_DEVICE))
LINEAR(cuMemcpyAsync, cuMemcpy, CUdeviceptr, CUdeviceptr, copy_way(dst, src), OP_UPLOAD(ByteCount),
       memory_copy_waits(dst, src),
       into_flags(&c, true, memory_flags(dst, ByteCount, MEMORY_ANY)) |
           memory_flags(src, ByteCount, MEMORY_ANY))

static uint32_t contexts_flags(CUcontext a, CUcontext b)
{
    return context_find(a) && context_find(b) ? 0 : VHQ_MUST_INLINE;
}

/* The asynchronous and the synchronous function of one kind of call. */
#define PAIR(async, sync, flags, est, waits, ...)                                                  \
    OP_LAST(async, flags, est, __VA_ARGS__)                                                        \
    OP_SYNC(sync, waits, est, __VA_ARGS__)

PAIR(cuMemcpyPeerAsync, cuMemcpyPeer,
     contexts_flags(dstContext, srcContext) | memory_flags(dstDevice, ByteCount, MEMORY_DEVICE) |
         memory_flags(srcDevice, ByteCount, MEMORY_DEVICE),
     OP_COPY(ByteCount, false), NO_WAIT, (CUdeviceptr, dstDevice), (CUcontext, dstContext),
     (CUdeviceptr, srcDevice), (CUcontext, srcContext), (size_t, ByteCount))
/* An array's extent is not looked up: the calling thread makes the call, and the driver judges. */
PAIR(cuMemcpyHtoAAsync_v2, cuMemcpyHtoA_v2, VHQ_MUST_INLINE, OP_UPLOAD(ByteCount), NO_WAIT,
     (CUarray, dstArray), (size_t, dstOffset), (const void *, srcHost), (size_t, ByteCount))
PAIR(cuMemcpyAtoHAsync_v2, cuMemcpyAtoH_v2, VHQ_MUST_INLINE, OP_COPY(ByteCount, false), true,
     (void *, dstHost), (CUarray, srcArray), (size_t, srcOffset), (size_t, ByteCount))
OP_SYNC(cuMemcpyDtoA_v2, NO_WAIT, OP_COPY(ByteCount, true), (CUarray, dstArray),
        (size_t, dstOffset), (CUdeviceptr, srcDevice), (size_t, ByteCount))
OP_SYNC(cuMemcpyAtoD_v2, NO_WAIT, OP_COPY(ByteCount, true), (CUdeviceptr, dstDevice),
        (CUarray, srcArray), (size_t, srcOffset), (size_t, ByteCount))
OP_SYNC(cuMemcpyAtoA_v2, NO_WAIT, OP_COPY(ByteCount, true), (CUarray, dstArray),
        (size_t, dstOffset), (CUarray, srcArray), (size_t, srcOffset), (size_t, ByteCount))

/* One side of a copy. Arrays have bounds that only the driver knows. */
static uint32_t side_flags(struct side s, size_t width, size_t height, size_t depth)
{
    unsigned kinds = s.type == CU_MEMORYTYPE_HOST      ? MEMORY_HOST
                     : s.type == CU_MEMORYTYPE_DEVICE  ? MEMORY_DEVICE
                     : s.type == CU_MEMORYTYPE_UNIFIED ? MEMORY_ANY
                                                       : 0;
    /* Else slices would overlap, or the driver works out how far apart they are. */
    bool apart = s.height >= s.y + height || (depth == 1 && s.z == 0);
    size_t y = s.y + s.z * s.height;
    uint64_t rows = depth && height && apart ? (depth - 1) * s.height + height : 0;
    if (!kinds || !rows || !width || s.pitch < s.x + width ||
        (s.x | y | width | rows | s.pitch) > MAX_PITCH)
        return VHQ_MUST_INLINE;
    return memory_flags(s.base + y * s.pitch + s.x, width + (rows - 1) * s.pitch, kinds);
}

#define SIDE_FLAGS(op, end)                                                                        \
    side_flags((struct side)SIDE(op, end), (op)->WidthInBytes, (op)->Height, (op)->Depth)
#define SIDES(c, op)                                                                               \
    (SIDE_FLAGS(op, src) |                                                                         \
     into_flags(c, (op)->dstMemoryType == CU_MEMORYTYPE_HOST, SIDE_FLAGS(op, dst)))

static uint32_t box_flags(struct call *c, const struct shim_stream *s, CUDA_MEMCPY3D op)
{
    bool reserved = op.reserved0 || op.reserved1 || op.srcLOD || op.dstLOD;
    return (reserved ? VHQ_MUST_INLINE : 0) | SIDES(c, &op) |
           POOLS(op.dstMemoryType == CU_MEMORYTYPE_HOST ? 0 : op.dstDevice,
                 op.srcMemoryType == CU_MEMORYTYPE_HOST ? 0 : op.srcDevice);
}

static uint64_t box_ns(struct call *c, CUmemorytype dst, CUmemorytype src, size_t bytes)
{
    c->bytes = bytes;
    return src == CU_MEMORYTYPE_HOST ? estimate_upload_ns(bytes)
                                     : estimate_copy_ns(bytes, dst != CU_MEMORYTYPE_HOST);
}

/* A call without a description is the driver's to refuse. */
#define BYTES_2D(op) ((op) ? (op)->WidthInBytes * (op)->Height : 0)
#define BYTES_3D(op) ((op) ? (op)->WidthInBytes * (op)->Height * (op)->Depth : 0)

static CUresult cuMemcpy3DAsync_v2_piece(const CUDA_MEMCPY3D *op, CUstream stream)
{
    return REAL(cuMemcpy3DAsync_v2)(op, stream);
}
OP_STRUCT(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, box_flags(&c, s, box_of(op)),
          box_ns(&c, op->dstMemoryType, op->srcMemoryType, BYTES_2D(op)),
          CUT_ROWS(cuMemcpy3DAsync_v2, BYTES_2D(op), box_of(op)))
OP_STRUCT(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, box_flags(&c, s, *op),
          box_ns(&c, op->dstMemoryType, op->srcMemoryType, BYTES_3D(op)),
          CUT_ROWS(cuMemcpy3DAsync_v2, BYTES_3D(op), *op))
OP_STRUCT(cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER,
          contexts_flags(op->dstContext, op->srcContext) |
              (op->srcLOD || op->dstLOD ? VHQ_MUST_INLINE : 0) | SIDES(&c, op),
          OP_COPY(BYTES_3D(op), false), OP_NOTHING)

#define WAITS_INTO(op)                                                                             \
    ((op) && ((op)->dstMemoryType == CU_MEMORYTYPE_HOST ||                                         \
              ((op)->dstMemoryType == CU_MEMORYTYPE_UNIFIED &&                                     \
               memory_copy_waits((op)->dstDevice, (op)->dstDevice))))

static CUresult cuMemcpy3D_v2_piece(const CUDA_MEMCPY3D *op, CUstream stream)
{
    return REAL_SYNC(cuMemcpy3D_v2, op);
}
OP_SYNC_CUT(cuMemcpy2D_v2, WAITS_INTO(pCopy), OP_COPY(BYTES_2D(pCopy), false),
            CUT_ROWS(cuMemcpy3D_v2, BYTES_2D(pCopy), box_of(pCopy)), (const CUDA_MEMCPY2D *, pCopy))
OP_SYNC_CUT(cuMemcpy2DUnaligned_v2, WAITS_INTO(pCopy), OP_COPY(BYTES_2D(pCopy), false),
            CUT_ROWS(cuMemcpy3D_v2, BYTES_2D(pCopy), box_of(pCopy)), (const CUDA_MEMCPY2D *, pCopy))
OP_SYNC_CUT(cuMemcpy3D_v2, WAITS_INTO(pCopy), OP_COPY(BYTES_3D(pCopy), false),
            CUT_ROWS(cuMemcpy3D_v2, BYTES_3D(pCopy), *pCopy), (const CUDA_MEMCPY3D *, pCopy))
OP_SYNC(cuMemcpy3DPeer, WAITS_INTO(pCopy), OP_COPY(BYTES_3D(pCopy), false),
        (const CUDA_MEMCPY3D_PEER *, pCopy))

static uint32_t set_flags(CUdeviceptr dst, size_t pitch, size_t element, size_t width,
                          size_t height)
{
    if (MUTANT(arguments_late))
        return 0;
    if (!width || !height || width > MAX_PITCH || dst % element ||
        (height > 1 && (pitch > MAX_PITCH || pitch % element || pitch < width * element)))
        return VHQ_MUST_INLINE;
    return memory_flags(dst, (height - 1) * pitch + width * element, MEMORY_DEVICE);
}

#define MEMSET(bits, type)                                                                         \
    PAIR(cuMemsetD##bits##Async, cuMemsetD##bits##_v2, set_flags(dst, 0, sizeof(type), N, 1),      \
         OP_COPY(N * sizeof(type), true), NO_WAIT, (CUdeviceptr, dst), (type, value), (size_t, N)) \
    PAIR(cuMemsetD2D##bits##Async, cuMemsetD2D##bits##_v2,                                         \
         set_flags(dst, pitch, sizeof(type), Width, Height),                                       \
         OP_COPY(Width * Height * sizeof(type), true), NO_WAIT, (CUdeviceptr, dst),                \
         (size_t, pitch), (type, value), (size_t, Width), (size_t, Height))
MEMSET(8, unsigned char)
MEMSET(16, unsigned short)
MEMSET(32, unsigned int)
