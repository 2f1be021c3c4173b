/*
 * copy_sync.c - copies and memsets on the default stream. The calling thread makes them, in their
 * turn: behind what is buffered before them, and not while they are held.
 */
#include "shim/objects/memory.h"
#include "shim/path/op.h"

#define WAITS true
#define GOES  false /* within the device, or not known: the driver need not wait for it */

static bool host_waits(CUdeviceptr dst, const void *src)
{
    return memory_copy_waits(dst, (CUdeviceptr)(uintptr_t)src);
}

OP_SYNC(cuMemcpyHtoD_v2, host_waits(dstDevice, srcHost), OP_UPLOAD(ByteCount),
        (CUdeviceptr, dstDevice), (const void *, srcHost), (size_t, ByteCount))
OP_SYNC(cuMemcpyDtoH_v2, WAITS, OP_COPY(ByteCount, false), (void *, dstHost),
        (CUdeviceptr, srcDevice), (size_t, ByteCount))
OP_SYNC(cuMemcpyDtoD_v2, GOES, OP_COPY(ByteCount, true), (CUdeviceptr, dstDevice),
        (CUdeviceptr, srcDevice), (size_t, ByteCount))
OP_SYNC(cuMemcpy, memory_copy_waits(dst, src), OP_UPLOAD(ByteCount), (CUdeviceptr, dst),
        (CUdeviceptr, src), (size_t, ByteCount))
OP_SYNC(cuMemcpyPeer, GOES, OP_COPY(ByteCount, false), (CUdeviceptr, dstDevice),
        (CUcontext, dstContext), (CUdeviceptr, srcDevice), (CUcontext, srcContext),
        (size_t, ByteCount))
OP_SYNC(cuMemcpyDtoA_v2, GOES, OP_COPY(ByteCount, true), (CUarray, dstArray), (size_t, dstOffset),
        (CUdeviceptr, srcDevice), (size_t, ByteCount))
OP_SYNC(cuMemcpyAtoD_v2, GOES, OP_COPY(ByteCount, true), (CUdeviceptr, dstDevice),
        (CUarray, srcArray), (size_t, srcOffset), (size_t, ByteCount))
OP_SYNC(cuMemcpyHtoA_v2, GOES, OP_UPLOAD(ByteCount), (CUarray, dstArray), (size_t, dstOffset),
        (const void *, srcHost), (size_t, ByteCount))
OP_SYNC(cuMemcpyAtoH_v2, WAITS, OP_COPY(ByteCount, false), (void *, dstHost), (CUarray, srcArray),
        (size_t, srcOffset), (size_t, ByteCount))
OP_SYNC(cuMemcpyAtoA_v2, GOES, OP_COPY(ByteCount, true), (CUarray, dstArray), (size_t, dstOffset),
        (CUarray, srcArray), (size_t, srcOffset), (size_t, ByteCount))

static size_t bytes_2d(const CUDA_MEMCPY2D *c)
{
    return c ? c->WidthInBytes * c->Height : 0;
}

static bool waits_into(CUmemorytype type, CUdeviceptr dst)
{
    return type == CU_MEMORYTYPE_HOST ||
           (type == CU_MEMORYTYPE_UNIFIED && memory_copy_waits(dst, dst));
}
#define WAITS_INTO(c) (c) && waits_into((c)->dstMemoryType, (c)->dstDevice)

OP_SYNC(cuMemcpy2D_v2, WAITS_INTO(pCopy), OP_COPY(bytes_2d(pCopy), false),
        (const CUDA_MEMCPY2D *, pCopy))
OP_SYNC(cuMemcpy2DUnaligned_v2, WAITS_INTO(pCopy), OP_COPY(bytes_2d(pCopy), false),
        (const CUDA_MEMCPY2D *, pCopy))
OP_SYNC(cuMemcpy3D_v2, WAITS_INTO(pCopy),
        pCopy ? OP_COPY(pCopy->WidthInBytes * pCopy->Height * pCopy->Depth, false) : 0,
        (const CUDA_MEMCPY3D *, pCopy))
OP_SYNC(cuMemcpy3DPeer, WAITS_INTO(pCopy),
        pCopy ? OP_COPY(pCopy->WidthInBytes * pCopy->Height * pCopy->Depth, false) : 0,
        (const CUDA_MEMCPY3D_PEER *, pCopy))

#define MEMSET(bits, type)                                                                         \
    OP_SYNC(cuMemsetD##bits##_v2, GOES, OP_COPY(N * sizeof(type), true), (CUdeviceptr, dstDevice), \
            (type, value), (size_t, N))                                                            \
    OP_SYNC(cuMemsetD2D##bits##_v2, GOES, OP_COPY(Width * Height * sizeof(type), true),            \
            (CUdeviceptr, dstDevice), (size_t, dstPitch), (type, value), (size_t, Width),          \
            (size_t, Height))
MEMSET(8, unsigned char)
MEMSET(16, unsigned short)
MEMSET(32, unsigned int)
