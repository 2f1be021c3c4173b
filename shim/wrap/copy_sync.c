/*
 * copy_sync.c - copies and memsets on the default stream. The calling thread makes them, in their
 * turn: behind what is buffered before them, and not while they are held.
 */
#include "shim/wrap/op.h"
#include "shim/path/pieces.h"

#define NO_WAIT false /* within the device, or not known: the driver need not wait for it */

#define SYNC_PIECE(sym, ...)                                                                       \
    (stream == CU_STREAM_PER_THREAD ? REAL(sym##_ptds)(__VA_ARGS__) : REAL(sym)(__VA_ARGS__))
#define PIECE(sym, to, from)                                                                       \
    static CUresult sym##_piece(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)       \
    {                                                                                              \
        return SYNC_PIECE(sym, (to)dst, (from)src, n);                                             \
    }

PIECE(cuMemcpyHtoD_v2, CUdeviceptr, const void *)
OP_SYNC_CUT(cuMemcpyHtoD_v2, memory_copy_waits(dstDevice, ADDRESS(srcHost)), OP_UPLOAD(ByteCount),
            CUT(cuMemcpyHtoD_v2, COPY_UP, dstDevice, srcHost), (CUdeviceptr, dstDevice),
            (const void *, srcHost), (size_t, ByteCount))
PIECE(cuMemcpyDtoH_v2, void *, CUdeviceptr)
OP_SYNC_CUT(cuMemcpyDtoH_v2, true, OP_COPY(ByteCount, false),
            CUT(cuMemcpyDtoH_v2, COPY_DOWN, dstHost, srcDevice), (void *, dstHost),
            (CUdeviceptr, srcDevice), (size_t, ByteCount))
PIECE(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr)
OP_SYNC_CUT(cuMemcpyDtoD_v2, NO_WAIT, OP_COPY(ByteCount, true),
            CUT(cuMemcpyDtoD_v2, COPY_WITHIN, dstDevice, srcDevice), (CUdeviceptr, dstDevice),
            (CUdeviceptr, srcDevice), (size_t, ByteCount))
PIECE(cuMemcpy, CUdeviceptr, CUdeviceptr)
OP_SYNC_CUT(cuMemcpy, memory_copy_waits(dst, src), OP_UPLOAD(ByteCount),
            CUT(cuMemcpy, copy_way(dst, src), dst, src), (CUdeviceptr, dst), (CUdeviceptr, src),
            (size_t, ByteCount))
OP_SYNC(cuMemcpyPeer, NO_WAIT, OP_COPY(ByteCount, false), (CUdeviceptr, dstDevice),
        (CUcontext, dstContext), (CUdeviceptr, srcDevice), (CUcontext, srcContext),
        (size_t, ByteCount))
OP_SYNC(cuMemcpyDtoA_v2, NO_WAIT, OP_COPY(ByteCount, true), (CUarray, dstArray),
        (size_t, dstOffset), (CUdeviceptr, srcDevice), (size_t, ByteCount))
OP_SYNC(cuMemcpyAtoD_v2, NO_WAIT, OP_COPY(ByteCount, true), (CUdeviceptr, dstDevice),
        (CUarray, srcArray), (size_t, srcOffset), (size_t, ByteCount))
OP_SYNC(cuMemcpyHtoA_v2, NO_WAIT, OP_UPLOAD(ByteCount), (CUarray, dstArray), (size_t, dstOffset),
        (const void *, srcHost), (size_t, ByteCount))
OP_SYNC(cuMemcpyAtoH_v2, true, OP_COPY(ByteCount, false), (void *, dstHost), (CUarray, srcArray),
        (size_t, srcOffset), (size_t, ByteCount))
OP_SYNC(cuMemcpyAtoA_v2, NO_WAIT, OP_COPY(ByteCount, true), (CUarray, dstArray),
        (size_t, dstOffset), (CUarray, srcArray), (size_t, srcOffset), (size_t, ByteCount))

static size_t bytes_2d(const CUDA_MEMCPY2D *c)
{
    return c ? c->WidthInBytes * c->Height : 0;
}

static bool waits_into(CUmemorytype type, CUdeviceptr dst)
{
    return type == CU_MEMORYTYPE_HOST ||
           (type == CU_MEMORYTYPE_UNIFIED && memory_copy_waits(dst, dst));
}
#define WAITS_INTO(c) ((c) && waits_into((c)->dstMemoryType, (c)->dstDevice))

#define bytes_3d(c) ((c) ? (c)->WidthInBytes * (c)->Height * (c)->Depth : 0)

static CUresult box_piece(const CUDA_MEMCPY3D *op, CUstream stream)
{
    return SYNC_PIECE(cuMemcpy3D_v2, op);
}
#define CUT_2D CUT_ROWS(bytes_2d(pCopy), box_of(pCopy))

OP_SYNC_CUT(cuMemcpy2D_v2, WAITS_INTO(pCopy), OP_COPY(bytes_2d(pCopy), false), CUT_2D,
            (const CUDA_MEMCPY2D *, pCopy))
OP_SYNC_CUT(cuMemcpy2DUnaligned_v2, WAITS_INTO(pCopy), OP_COPY(bytes_2d(pCopy), false), CUT_2D,
            (const CUDA_MEMCPY2D *, pCopy))
OP_SYNC_CUT(cuMemcpy3D_v2, WAITS_INTO(pCopy), OP_COPY(bytes_3d(pCopy), false),
            CUT_ROWS(bytes_3d(pCopy), *pCopy), (const CUDA_MEMCPY3D *, pCopy))
OP_SYNC(cuMemcpy3DPeer, WAITS_INTO(pCopy), OP_COPY(bytes_3d(pCopy), false),
        (const CUDA_MEMCPY3D_PEER *, pCopy))

#define MEMSET(bits, type)                                                                         \
    OP_SYNC(cuMemsetD##bits##_v2, NO_WAIT, OP_COPY(N * sizeof(type), true),                        \
            (CUdeviceptr, dstDevice), (type, value), (size_t, N))                                  \
    OP_SYNC(cuMemsetD2D##bits##_v2, NO_WAIT, OP_COPY(Width * Height * sizeof(type), true),         \
            (CUdeviceptr, dstDevice), (size_t, dstPitch), (type, value), (size_t, Width),          \
            (size_t, Height))
MEMSET(8, unsigned char)
MEMSET(16, unsigned short)
MEMSET(32, unsigned int)
