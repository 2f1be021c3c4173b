/*
 * copy.c - copies of a GPU at a distance (see distance.h). A copy to the device becomes as slow as
 * the requests in flight make it: the same bytes are copied several times before, so the link is
 * busy for that long. This cannot be noticed in stream order. What cannot be copied again (pageable
 * memory and rectangles) gets a delay of that length instead.
 */
#include "tools/lab/distance/copy.h"

enum way { WITHIN, TO_DEVICE, TO_HOST };

static bool is_host(CUdeviceptr address, bool *pinned)
{
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    *pinned = DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
              CUDA_SUCCESS;
    return type == CU_MEMORYTYPE_HOST;
}

static enum way way_of(CUdeviceptr dst, CUdeviceptr src)
{
    bool pinned;
    if (is_host(dst, &pinned))
        return TO_HOST;
    return is_host(src, &pinned) ? TO_DEVICE : WITHIN;
}

static enum way way_of_types(CUmemorytype dst, CUdeviceptr dst_unified, CUmemorytype src,
                             CUdeviceptr src_unified)
{
    bool pinned, unified = dst == CU_MEMORYTYPE_UNIFIED;
    if (unified ? is_host(dst_unified, &pinned) : dst == CU_MEMORYTYPE_HOST)
        return TO_HOST;
    unified = src == CU_MEMORYTYPE_UNIFIED;
    return (unified ? is_host(src_unified, &pinned) : src == CU_MEMORYTYPE_HOST) ? TO_DEVICE
                                                                                 : WITHIN;
}

/* Puts a delay only, no copies, before the command. */
static void before(CUstream stream, enum way way, uint64_t bytes)
{
    const struct distance d = distance_get();
    const struct distance_link l = link_get();
    uint64_t delta_ns = distance_delta_ns(&d);
    if (!bytes || !distance_applies(stream))
        return;
    if (way == TO_DEVICE)
        distance_delay(stream, distance_fill(&d, &l, bytes, false).delay_ns);
    else
        distance_delay(stream, way == TO_HOST ? delta_ns / 2 : delta_ns);
}

static void before_upload(CUstream stream, CUdeviceptr dst, const void *src, size_t bytes)
{
    const struct distance d = distance_get();
    bool pinned;
    if (!bytes || !distance_applies(stream))
        return;
    is_host((CUdeviceptr)(uintptr_t)src, &pinned);
    const struct distance_link l = link_get();
    const struct distance_fill fill = distance_fill(&d, &l, bytes, pinned);
    CUresult r = CUDA_SUCCESS;
    distance_delay(stream, fill.delay_ns);
    for (uint32_t i = 0; i < fill.whole && r == CUDA_SUCCESS; i++)
        r = DRIVER(cuMemcpyHtoDAsync_v2)(dst, src, bytes, stream);
    if (fill.part && r == CUDA_SUCCESS)
        DRIVER(cuMemcpyHtoDAsync_v2)(dst, src, fill.part, stream);
}

static void before_unified(CUstream stream, CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    enum way way = way_of(dst, src);
    if (way == TO_DEVICE)
        before_upload(stream, dst, (const void *)(uintptr_t)src, bytes);
    else
        before(stream, way, bytes);
}

static void before_2d(CUstream stream, const CUDA_MEMCPY2D *c)
{
    if (c)
        before(stream, way_of_types(c->dstMemoryType, c->dstDevice, c->srcMemoryType, c->srcDevice),
               c->WidthInBytes * c->Height);
}

#define BEFORE_3D(stream, c)                                                                       \
    if (c)                                                                                         \
    before(stream,                                                                                 \
           way_of_types((c)->dstMemoryType, (c)->dstDevice, (c)->srcMemoryType, (c)->srcDevice),   \
           (c)->WidthInBytes *(c)->Height *(c)->Depth)

/* A batch is one command. It gets a delay for its reads, or else for the kind of its first copy. */
static void before_batch(CUstream stream, const CUdeviceptr *dst, const CUdeviceptr *src,
                         const size_t *bytes, size_t count)
{
    uint64_t read = 0, other = 0;
    if (!dst || !src || !bytes)
        return;
    for (size_t i = 0; i < count; i++)
        *(way_of(dst[i], src[i]) == TO_DEVICE ? &read : &other) += bytes[i];
    before(stream, read ? TO_DEVICE : count ? way_of(dst[0], src[0]) : WITHIN, read ? read : other);
}

/* ---- in front of the driver ------------------------------------------------------------------ */

#define TO_D                                                                                       \
    before_upload(stream, dst, src, n), (CUdeviceptr, dst), (const void *, src), (size_t, n)
#define TO_H   before(stream, TO_HOST, n), (void *, dst), (CUdeviceptr, src), (size_t, n)
#define D_TO_D before(stream, WITHIN, n), (CUdeviceptr, dst), (CUdeviceptr, src), (size_t, n)
#define ANY before_unified(stream, dst, src, n), (CUdeviceptr, dst), (CUdeviceptr, src), (size_t, n)
#define PEER                                                                                       \
    before(stream, WITHIN, n), (CUdeviceptr, dst), (CUcontext, dst_ctx), (CUdeviceptr, src),       \
        (CUcontext, src_ctx), (size_t, n)
#define H_TO_A                                                                                     \
    before(stream, TO_DEVICE, n), (CUarray, dst), (size_t, at), (const void *, src), (size_t, n)
#define A_TO_H before(stream, TO_HOST, n), (void *, dst), (CUarray, src), (size_t, at), (size_t, n)
#define D_TO_A                                                                                     \
    before(stream, WITHIN, n), (CUarray, dst), (size_t, at), (CUdeviceptr, src), (size_t, n)
#define A_TO_D                                                                                     \
    before(stream, WITHIN, n), (CUdeviceptr, dst), (CUarray, src), (size_t, at), (size_t, n)
#define A_TO_A                                                                                     \
    before(stream, WITHIN, n), (CUarray, dst), (size_t, at), (CUarray, src), (size_t, from),       \
        (size_t, n)
#define RECTANGLE before_2d(stream, c), (const CUDA_MEMCPY2D *, c)
#define BOX       BEFORE_3D(stream, c), (const CUDA_MEMCPY3D *, c)
#define BOX_PEER  BEFORE_3D(stream, c), (const CUDA_MEMCPY3D_PEER *, c)

/* Expands the arguments first, so that a macro such as TO_D becomes several of them. */
#define EXPAND(macro, ...) macro(__VA_ARGS__)
#define COPIES_OF(X_ASYNC, X_SYNC)                                                                 \
    X_ASYNC(cuMemcpyHtoDAsync_v2, TO_D)                                                            \
    X_ASYNC(cuMemcpyDtoHAsync_v2, TO_H)                                                            \
    X_ASYNC(cuMemcpyDtoDAsync_v2, D_TO_D)                                                          \
    X_ASYNC(cuMemcpyAsync, ANY)                                                                    \
    X_ASYNC(cuMemcpyPeerAsync, PEER)                                                               \
    X_ASYNC(cuMemcpyHtoAAsync_v2, H_TO_A)                                                          \
    X_ASYNC(cuMemcpyAtoHAsync_v2, A_TO_H)                                                          \
    X_ASYNC(cuMemcpy2DAsync_v2, RECTANGLE)                                                         \
    X_ASYNC(cuMemcpy3DAsync_v2, BOX)                                                               \
    X_ASYNC(cuMemcpy3DPeerAsync, BOX_PEER)                                                         \
    X_SYNC(cuMemcpyHtoD_v2, TO_D)                                                                  \
    X_SYNC(cuMemcpyDtoH_v2, TO_H)                                                                  \
    X_SYNC(cuMemcpyDtoD_v2, D_TO_D)                                                                \
    X_SYNC(cuMemcpy, ANY)                                                                          \
    X_SYNC(cuMemcpyPeer, PEER)                                                                     \
    X_SYNC(cuMemcpyHtoA_v2, H_TO_A)                                                                \
    X_SYNC(cuMemcpyAtoH_v2, A_TO_H)                                                                \
    X_SYNC(cuMemcpyDtoA_v2, D_TO_A)                                                                \
    X_SYNC(cuMemcpyAtoD_v2, A_TO_D)                                                                \
    X_SYNC(cuMemcpyAtoA_v2, A_TO_A)                                                                \
    X_SYNC(cuMemcpy2D_v2, RECTANGLE)                                                               \
    X_SYNC(cuMemcpy2DUnaligned_v2, RECTANGLE)                                                      \
    X_SYNC(cuMemcpy3D_v2, BOX)                                                                     \
    X_SYNC(cuMemcpy3DPeer, BOX_PEER)

#define MAKE_ASYNC(sym, ...) EXPAND(ASYNC, sym, __VA_ARGS__)
#define MAKE_SYNC(sym, ...)  EXPAND(SYNC, sym, __VA_ARGS__)
COPIES_OF(MAKE_ASYNC, MAKE_SYNC)

ASYNC(cuMemcpyBatchAsync, before_batch(stream, dsts, srcs, sizes, count), (CUdeviceptr *, dsts),
      (CUdeviceptr *, srcs), (size_t *, sizes), (size_t, count), (CUmemcpyAttributes *, attrs),
      (size_t *, idxs), (size_t, n), (size_t *, failed))
ASYNC(cuMemcpyBatchAsync_v2, before_batch(stream, dsts, srcs, sizes, count), (CUdeviceptr *, dsts),
      (CUdeviceptr *, srcs), (size_t *, sizes), (size_t, count), (CUmemcpyAttributes *, attrs),
      (size_t *, idxs), (size_t, n))
ASYNC(cuMemcpyWithAttributesAsync, before(stream, way_of(dst, src), n), (CUdeviceptr, dst),
      (CUdeviceptr, src), (size_t, n), (CUmemcpyAttributes *, attr))

const struct stand_in distance_copies[] = {
    COPIES_OF(ROW_ASYNC, ROW_SYNC)                                 //
    ROW_ASYNC(cuMemcpyBatchAsync) ROW_ASYNC(cuMemcpyBatchAsync_v2) //
    ROW_ASYNC(cuMemcpyWithAttributesAsync)                         //
    {NULL, NULL},
};
