/*
 * copy.c - asynchronous copies and memsets. A host operand in pageable memory makes the copy
 * inline: the driver reads or writes it before the call returns.
 */
#include "shim/wrap/op.h"
#include "shim/path/pieces.h"

/* Larger values are for the driver to judge. No sum of values up to this overflows. */
#define MAX_PITCH ((size_t)1 << 31)

/* If it is not certain that the driver accepts a copy, the calling thread makes it. So the call
 * itself returns the driver's answer, and no later call gets it. */

/* Flags of the target. If it is pageable memory, the driver waits until the copy is complete. */
static uint32_t target_flags(struct call *c, CUdeviceptr dst, size_t bytes)
{
    uint32_t flags = memory_flags(dst, bytes, MEMORY_ANY);
    c->waits = flags;
    return flags;
}

static uint32_t download_flags(struct call *c, void *dst, CUdeviceptr src, size_t bytes)
{
    return target_flags(c, ADDRESS(dst), bytes) | memory_flags(ADDRESS(dst), bytes, MEMORY_HOST) |
           memory_flags(src, bytes, MEMORY_DEVICE);
}

/* Flags for both ends of a copy in stream `s`. */
#define POOLS(a, b)                                                                                \
    (!gpu_device_several() ? 0 : memory_pool_flags(ADDRESS(a), ADDRESS(b), s->ctx->gpu))

/* ---- linear ------------------------------------------------------------------------------- */

#define PIECE(sym, to, from)                                                                       \
    static CUresult sym##_piece(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)       \
    {                                                                                              \
        return REAL(sym)((to)dst, (from)src, n, stream);                                           \
    }

PIECE(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *)
OP_LAST_CUT(cuMemcpyHtoDAsync_v2,
            memory_flags(ADDRESS(srcHost), ByteCount, MEMORY_HOST) |
                memory_flags(dstDevice, ByteCount, MEMORY_DEVICE) | POOLS(dstDevice, srcHost),
            OP_UPLOAD(ByteCount), CUT(cuMemcpyHtoDAsync_v2, COPY_UP, dstDevice, srcHost),
            (CUdeviceptr, dstDevice), (const void *, srcHost), (size_t, ByteCount))
PIECE(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr)
OP_LAST_CUT(cuMemcpyDtoHAsync_v2,
            download_flags(&c, dstHost, srcDevice, ByteCount) | POOLS(dstHost, srcDevice),
            OP_COPY(ByteCount, false), CUT(cuMemcpyDtoHAsync_v2, COPY_DOWN, dstHost, srcDevice),
            (void *, dstHost), (CUdeviceptr, srcDevice), (size_t, ByteCount))
PIECE(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr)
OP_LAST_CUT(cuMemcpyDtoDAsync_v2,
            memory_flags(dstDevice, ByteCount, MEMORY_DEVICE) |
                memory_flags(srcDevice, ByteCount, MEMORY_DEVICE) | POOLS(dstDevice, srcDevice),
            OP_COPY(ByteCount, true), CUT(cuMemcpyDtoDAsync_v2, COPY_WITHIN, dstDevice, srcDevice),
            (CUdeviceptr, dstDevice), (CUdeviceptr, srcDevice), (size_t, ByteCount))
PIECE(cuMemcpyAsync, CUdeviceptr, CUdeviceptr)
OP_LAST_CUT(cuMemcpyAsync,
            target_flags(&c, dst, ByteCount) | memory_flags(src, ByteCount, MEMORY_ANY) |
                POOLS(dst, src),
            OP_UPLOAD(ByteCount), CUT(cuMemcpyAsync, copy_way(dst, src), dst, src),
            (CUdeviceptr, dst), (CUdeviceptr, src), (size_t, ByteCount))
static uint32_t contexts_flags(CUcontext a, CUcontext b)
{
    return context_find(a) && context_find(b) ? 0 : VHQ_MUST_INLINE;
}

OP_LAST(cuMemcpyPeerAsync,
        contexts_flags(dstContext, srcContext) | memory_flags(dstDevice, ByteCount, MEMORY_DEVICE) |
            memory_flags(srcDevice, ByteCount, MEMORY_DEVICE),
        OP_COPY(ByteCount, false), (CUdeviceptr, dstDevice), (CUcontext, dstContext),
        (CUdeviceptr, srcDevice), (CUcontext, srcContext), (size_t, ByteCount))
/* An array's extent is not looked up: the calling thread makes the call, and the driver judges. */
OP_LAST(cuMemcpyHtoAAsync_v2, VHQ_MUST_INLINE, OP_UPLOAD(ByteCount), (CUarray, dstArray),
        (size_t, dstOffset), (const void *, srcHost), (size_t, ByteCount))
OP_LAST(cuMemcpyAtoHAsync_v2, VHQ_MUST_INLINE, OP_COPY(ByteCount, false), (void *, dstHost),
        (CUarray, srcArray), (size_t, srcOffset), (size_t, ByteCount))

/* ---- with a pitch, and in space ----------------------------------------------------------- */

/* One side of a copy: rows `pitch` apart. Arrays have bounds that only the driver knows. */
static uint32_t side_flags(CUmemorytype type, const void *host, CUdeviceptr device, size_t x,
                           size_t y, size_t pitch, size_t rows, size_t width)
{
    CUdeviceptr base = type == CU_MEMORYTYPE_HOST ? ADDRESS(host) : device;
    unsigned kinds = type == CU_MEMORYTYPE_HOST      ? MEMORY_HOST
                     : type == CU_MEMORYTYPE_DEVICE  ? MEMORY_DEVICE
                     : type == CU_MEMORYTYPE_UNIFIED ? MEMORY_ANY
                                                     : 0;
    if (!kinds || !rows || !width || pitch < x + width ||
        (x | y | width | rows | pitch) > MAX_PITCH)
        return VHQ_MUST_INLINE;
    return memory_flags(base + y * pitch + x, width + (rows - 1) * pitch, kinds);
}

/* Flags of the target's side. A copy into pageable memory is complete when the call returns. */
static uint32_t into_flags(struct call *c, CUmemorytype type, uint32_t side)
{
    c->waits = side && type == CU_MEMORYTYPE_HOST;
    return side;
}

static uint32_t copy_2d_flags(struct call *c, const CUDA_MEMCPY2D *op)
{
    return side_flags(op->srcMemoryType, op->srcHost, op->srcDevice, op->srcXInBytes, op->srcY,
                      op->srcPitch, op->Height, op->WidthInBytes) |
           into_flags(c, op->dstMemoryType,
                      side_flags(op->dstMemoryType, op->dstHost, op->dstDevice, op->dstXInBytes,
                                 op->dstY, op->dstPitch, op->Height, op->WidthInBytes));
}

/* 0: there are no rows, slices would overlap, or the driver works out how far apart they are. */
static uint64_t copy_3d_rows(size_t height, size_t y, size_t z, size_t rows, size_t depth)
{
    bool apart = height >= y + rows || (depth == 1 && z == 0);
    return depth && rows && apart ? (depth - 1) * height + rows : 0;
}

#define SIDE_3D(c, side)                                                                           \
    side_flags(                                                                                    \
        (c)->side##MemoryType, (c)->side##Host, (c)->side##Device, (c)->side##XInBytes,            \
        (c)->side##Y + (c)->side##Z * (c)->side##Height, (c)->side##Pitch,                         \
        copy_3d_rows((c)->side##Height, (c)->side##Y, (c)->side##Z, (c)->Height, (c)->Depth),      \
        (c)->WidthInBytes)

#define bytes_3d(c) ((c)->WidthInBytes * (c)->Height * (c)->Depth)

static bool on_device(CUmemorytype a, CUmemorytype b)
{
    return a != CU_MEMORYTYPE_HOST && b != CU_MEMORYTYPE_HOST;
}

#define BOX_POOLS(op)                                                                              \
    POOLS((op)->dstMemoryType == CU_MEMORYTYPE_HOST ? 0 : (op)->dstDevice,                         \
          (op)->srcMemoryType == CU_MEMORYTYPE_HOST ? 0 : (op)->srcDevice)

static CUresult box_piece(const CUDA_MEMCPY3D *op, CUstream stream)
{
    return REAL(cuMemcpy3DAsync_v2)(op, stream);
}

OP_STRUCT_CUT(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, copy_2d_flags(&c, op) | BOX_POOLS(op),
              op->srcMemoryType == CU_MEMORYTYPE_HOST
                  ? OP_UPLOAD(op->WidthInBytes * op->Height)
                  : OP_COPY(op->WidthInBytes * op->Height,
                            on_device(op->srcMemoryType, op->dstMemoryType)),
              CUT_ROWS(op->WidthInBytes * op->Height, box_of(op)))
static uint32_t reserved_flags(const void *a, const void *b, size_t lod)
{
    return a || b || lod ? VHQ_MUST_INLINE : 0;
}

OP_STRUCT_CUT(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D,
              reserved_flags(op->reserved0, op->reserved1, op->srcLOD | op->dstLOD) |
                  SIDE_3D(op, src) | into_flags(&c, op->dstMemoryType, SIDE_3D(op, dst)) |
                  BOX_POOLS(op),
              op->srcMemoryType == CU_MEMORYTYPE_HOST
                  ? OP_UPLOAD(bytes_3d(op))
                  : OP_COPY(bytes_3d(op), on_device(op->srcMemoryType, op->dstMemoryType)),
              CUT_ROWS(bytes_3d(op), *op))
OP_STRUCT(cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER,
          contexts_flags(op->dstContext, op->srcContext) |
              reserved_flags(NULL, NULL, op->srcLOD | op->dstLOD) | SIDE_3D(op, src) |
              into_flags(&c, op->dstMemoryType, SIDE_3D(op, dst)),
          OP_COPY(bytes_3d(op), false))

/* ---- memset ------------------------------------------------------------------------------- */

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
    OP_LAST(cuMemsetD##bits##Async, set_flags(dst, 0, sizeof(type), N, 1),                         \
            OP_COPY(N * sizeof(type), true), (CUdeviceptr, dst), (type, value), (size_t, N))       \
    OP_LAST(cuMemsetD2D##bits##Async, set_flags(dst, pitch, sizeof(type), Width, Height),          \
            OP_COPY(Width * Height * sizeof(type), true), (CUdeviceptr, dst), (size_t, pitch),     \
            (type, value), (size_t, Width), (size_t, Height))
MEMSET(8, unsigned char)
MEMSET(16, unsigned short)
MEMSET(32, unsigned int)
