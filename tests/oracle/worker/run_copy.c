/*
 * run_copy.c - runs copies and memsets.
 */
#include "machine.h"

static CUresult copy_2d(const struct op *o)
{
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                       .srcDevice = address(o->src),
                       .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                       .dstDevice = address(o->dst),
                       .srcPitch = BYTES / 4,
                       .dstPitch = BYTES / 4,
                       .WidthInBytes = BYTES / 4,
                       .Height = 4};
    if (o->src >= PAGEABLE && o->src < POOLED) {
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = host_address(o->src);
    }
    CUresult r = CALL(cuMemcpy2DAsync_v2, o, &c, handle(o));
    spoil(&c, sizeof(c));
    return r;
}

static CUresult copy_3d(const struct op *o)
{
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                       .srcDevice = address(o->src),
                       .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                       .dstDevice = address(o->dst),
                       .srcPitch = BYTES / 4,
                       .dstPitch = BYTES / 4,
                       .srcHeight = 2,
                       .dstHeight = 2,
                       .WidthInBytes = BYTES / 4,
                       .Height = 2,
                       .Depth = 2};
    CUresult r = CALL(cuMemcpy3DAsync_v2, o, &c, handle(o));
    spoil(&c, sizeof(c));
    return r;
}

static CUresult copy_3d_peer(const struct op *o)
{
    CUDA_MEMCPY3D_PEER c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                            .srcDevice = address(o->src),
                            .srcContext = buffer_context(o->src),
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = address(o->dst),
                            .dstContext = buffer_context(o->dst),
                            .srcPitch = BYTES / 4,
                            .dstPitch = BYTES / 4,
                            .srcHeight = 2,
                            .dstHeight = 2,
                            .WidthInBytes = BYTES / 4,
                            .Height = 2,
                            .Depth = 2};
    CUresult r = CALL(cuMemcpy3DPeerAsync, o, &c, handle(o));
    spoil(&c, sizeof(c));
    return r;
}

bool copy_batches(const struct op *o)
{
    return CUDA_VERSION >= 13000 && stream_role(o->stream) >= CREATED;
}

static CUresult copy_batch(const struct op *o)
{
    if (!copy_batches(o))
        return CALL(cuMemcpyAsync, o, address(o->dst), address(o->src), BYTES, handle(o));
#if CUDA_VERSION >= 13000
    CUdeviceptr dst[2] = {address(o->dst), address(o->dst) + BYTES / 2};
    CUdeviceptr src[2] = {address(o->src), address(o->src) + BYTES / 2};
    size_t bytes[2] = {BYTES / 2, BYTES / 2}, first = 0;
    CUmemcpyAttributes attribute = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUresult r = cuMemcpyBatchAsync_v2(dst, src, bytes, 2, &attribute, &first, 1, handle(o));
    spoil(dst, sizeof(dst));
    spoil(src, sizeof(src));
    return r;
#else
    return CUDA_ERROR_NOT_SUPPORTED;
#endif
}

CUresult run_copy(const struct op *o, uint32_t index)
{
    (void)index;
    CUdeviceptr dst = address(o->dst), src = address(o->src);
    bool ptds = o->variant & 1;
    switch (o->kind) {
    case OP_H2D:
        return CALL(cuMemcpyHtoDAsync_v2, o, dst, host_address(o->src), BYTES, handle(o));
    case OP_D2H:
        return CALL(cuMemcpyDtoHAsync_v2, o, host_address(o->dst), src, BYTES, handle(o));
    case OP_D2D:
        if (o->variant & 16)
            return CALL(cuMemcpyPeerAsync, o, dst, buffer_context(o->dst), src,
                        buffer_context(o->src), BYTES, handle(o));
        return CALL(cuMemcpyDtoDAsync_v2, o, dst, src, BYTES, handle(o));
    case OP_COPY_ANY:
        return CALL(cuMemcpyAsync, o, dst, src, BYTES, handle(o));
    case OP_COPY_2D:
        return copy_2d(o);
    case OP_COPY_3D:
        return copy_3d(o);
    case OP_COPY_BATCH:
        return copy_batch(o);
    case OP_COPY_PEER:
        return CALL(cuMemcpyPeerAsync, o, dst, buffer_context(o->dst), src, buffer_context(o->src),
                    BYTES, handle(o));
    case OP_COPY_3D_PEER:
        return copy_3d_peer(o);
    case OP_MEMSET8:
        return CALL(cuMemsetD8Async, o, dst, (unsigned char)o->a, BYTES, handle(o));
    case OP_MEMSET16:
        return CALL(cuMemsetD16Async, o, dst, (unsigned short)o->a, BYTES / 2, handle(o));
    case OP_MEMSET32:
        return CALL(cuMemsetD32Async, o, dst, o->a, WORDS, handle(o));
    case OP_MEMSET2D:
        return CALL(cuMemsetD2D32Async, o, dst, BYTES / 4, o->a, WORDS / 4, 4, handle(o));
    case OP_SYNC_H2D:
        return ptds ? cuMemcpyHtoD_v2_ptds(dst, host_address(o->src), BYTES)
                    : cuMemcpyHtoD_v2(dst, host_address(o->src), BYTES);
    case OP_SYNC_D2H:
        return ptds ? cuMemcpyDtoH_v2_ptds(host_address(o->dst), src, BYTES)
                    : cuMemcpyDtoH_v2(host_address(o->dst), src, BYTES);
    case OP_SYNC_D2D:
        return ptds ? cuMemcpyDtoD_v2_ptds(dst, src, BYTES) : cuMemcpyDtoD_v2(dst, src, BYTES);
    case OP_SYNC_ANY:
        return ptds ? cuMemcpy_ptds(dst, src, BYTES) : cuMemcpy(dst, src, BYTES);
    default:
        return ptds ? cuMemsetD32_v2_ptds(dst, o->a, WORDS) : cuMemsetD32_v2(dst, o->a, WORDS);
    }
}

/* In a default stream also by a synchronous call. */
static CUresult copy_nothing_now(const struct op *o, void *at, CUdeviceptr x)
{
    bool ptds = stream_role(o->stream) != LEGACY;
    switch (o->variant >> 2 & 3) {
    case 0:
        return ptds ? cuMemcpyHtoD_v2_ptds(x, at, 0) : cuMemcpyHtoD_v2(x, at, 0);
    case 1:
        return ptds ? cuMemcpy_ptds(x, x, 0) : cuMemcpy(x, x, 0);
    default:
        return ptds ? cuMemcpyDtoH_v2_ptds(at, x, 0) : cuMemcpyDtoH_v2(at, x, 0);
    }
}

CUresult run_nothing(const struct op *o, uint32_t index)
{
    (void)index;
    CUdeviceptr x = stream_base(o->stream) == OTHER ? m.other_buffer[0] : m.device_buffer[0];
    void *at = o->variant & 32 ? m.pinned[0] : m.pageable[0];
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = x,
                          .srcPitch = BYTES,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = at,
                          .dstPitch = BYTES,
                          .WidthInBytes = BYTES};
    if (stream_role(o->stream) < CREATED && (o->variant & 16))
        return copy_nothing_now(o, at, x);
    switch (o->variant >> 2 & 3) {
    case 0:
        return CALL(cuMemcpyHtoDAsync_v2, o, x, at, 0, handle(o));
    case 1:
        return CALL(cuMemcpy2DAsync_v2, o, &flat, handle(o));
    case 2:
        return CALL(cuMemcpyDtoDAsync_v2, o, x, x, 0, handle(o));
    default:
        return CALL(cuMemcpyDtoHAsync_v2, o, at, x, 0, handle(o));
    }
}
