/*
 * copies.c - copies and memsets with drawn arguments (see draw.h).
 */
#include "draw.h"

DRAWN_CALL(cuMemsetD8Async, address(), 1, length(), stream)
DRAWN_CALL(cuMemsetD16Async, address(), 2, length() / 2, stream)
DRAWN_CALL(cuMemsetD32Async, address(), 3, length() / 4, stream)
DRAWN_CALL(cuMemsetD2D8Async, address(), pitch(), 4, length(), draw(4), stream)
DRAWN_CALL(cuMemsetD2D16Async, address(), pitch(), 5, length() / 2, draw(4), stream)
DRAWN_CALL(cuMemsetD2D32Async, address(), pitch(), 6, length() / 4, draw(4), stream)

DRAWN_CALL(cuMemcpyHtoDAsync_v2, address(), host(), host_length(), stream)
DRAWN_CALL(cuMemcpyDtoHAsync_v2, host(), address(), host_length(), stream)
DRAWN_CALL(cuMemcpyDtoDAsync_v2, address(), address(), length(), stream)
DRAWN_CALL(cuMemcpyAsync, address(), address(), host_length(), stream)
DRAWN_CALL(cuMemcpyPeerAsync, address(), any_context(), address(), any_context(), length(), stream)
DRAWN_CALL(cuMemcpyHtoAAsync_v2, any_row(), draw(3) * 32, host(), host_length(), stream)
DRAWN_CALL(cuMemcpyAtoHAsync_v2, host(), any_row(), draw(3) * 32, host_length(), stream)

/* ---- of rectangles and boxes ---------------------------------------------------------------- */

/* Keeps a copy inside its memory: what lies behind it is unmapped, or belongs to a library. */
static void near_by(size_t *at, size_t *rows_apart, size_t *width)
{
    *at %= 64;
    *rows_apart = *rows_apart > 128 ? 128 : *rows_apart;
    *width = *width > 128 ? 64 : *width;
}

#define KEEP_INSIDE(c)                                                                             \
    do {                                                                                           \
        if ((c).srcMemoryType != CU_MEMORYTYPE_DEVICE || is_pinned((c).srcDevice))                 \
            near_by(&(c).srcXInBytes, &(c).srcPitch, &(c).WidthInBytes);                           \
        if ((c).dstMemoryType != CU_MEMORYTYPE_DEVICE || is_pinned((c).dstDevice))                 \
            near_by(&(c).dstXInBytes, &(c).dstPitch, &(c).WidthInBytes);                           \
    } while (0)

static CUmemorytype any_type(CUmemorytype right)
{
    if (odd())
        return (CUmemorytype)draw(6);
    return draw(6) ? right : CU_MEMORYTYPE_ARRAY;
}

static size_t some(void)
{
    return odd() ? draw(4) : 1 + draw(2);
}

static size_t aside(void)
{
    return odd() ? length() : 0;
}

DRAWN(cuMemcpy2DAsync_v2)
{
    CUDA_MEMCPY2D c = {.srcXInBytes = aside(),
                       .srcY = draw(3),
                       .srcMemoryType = any_type(CU_MEMORYTYPE_DEVICE),
                       .srcHost = host(),
                       .srcDevice = address(),
                       .srcArray = any_array(),
                       .srcPitch = pitch(),
                       .dstXInBytes = aside(),
                       .dstY = draw(3),
                       .dstMemoryType =
                           any_type(draw(2) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST),
                       .dstHost = host(),
                       .dstDevice = address(),
                       .dstArray = any_array(),
                       .dstPitch = pitch(),
                       .WidthInBytes = length(),
                       .Height = some()};
    KEEP_INSIDE(c);
    return CALL(cuMemcpy2DAsync_v2, &c, stream);
}

DRAWN(cuMemcpy3DAsync_v2)
{
    static int reserved;
    CUDA_MEMCPY3D c = {.srcZ = odd(),
                       .srcLOD = odd(),
                       .srcMemoryType = any_type(CU_MEMORYTYPE_UNIFIED),
                       .srcHost = host(),
                       .srcDevice = address(),
                       .srcArray = any_array(),
                       .srcPitch = pitch(),
                       .srcHeight = 1 + some(),
                       .dstMemoryType = any_type(CU_MEMORYTYPE_DEVICE),
                       .dstHost = host(),
                       .dstDevice = address(),
                       .dstArray = any_array(),
                       .dstPitch = pitch(),
                       .dstHeight = 1 + some(),
                       .reserved1 = odd() ? &reserved : NULL,
                       .WidthInBytes = length(),
                       .Height = some(),
                       .Depth = some()};
    KEEP_INSIDE(c);
    return CALL(cuMemcpy3DAsync_v2, &c, stream);
}

DRAWN(cuMemcpy3DPeerAsync)
{
    CUDA_MEMCPY3D_PEER c = {.srcMemoryType = any_type(CU_MEMORYTYPE_DEVICE),
                            .srcDevice = address(),
                            .srcHost = host(),
                            .srcArray = any_array(),
                            .srcContext = any_context(),
                            .srcPitch = pitch(),
                            .srcHeight = 1 + some(),
                            .dstMemoryType = any_type(CU_MEMORYTYPE_DEVICE),
                            .dstDevice = address(),
                            .dstHost = host(),
                            .dstArray = any_array(),
                            .dstContext = any_context(),
                            .dstPitch = pitch(),
                            .dstHeight = 1 + some(),
                            .WidthInBytes = length(),
                            .Height = some(),
                            .Depth = some()};
    KEEP_INSIDE(c);
    return CALL(cuMemcpy3DPeerAsync, &c, stream);
}

/* ---- in batches ----------------------------------------------------------------------------- */

enum { BATCH = 4 };

static struct {
    CUdeviceptr dst[BATCH], src[BATCH];
    size_t size[BATCH], first[BATCH], failed;
    CUmemcpyAttributes attribute[BATCH];
} batch;

static size_t any_count(void)
{
    return odd() ? draw(BATCH + 1) : 1 + draw(BATCH - 1);
}

static CUmemcpyAttributes any_attributes(void)
{
    const unsigned yes[] = {1, 2, 3}, no[] = {0, 4, ~0u};
    CUmemcpyAttributes a = {.flags = flag()};
    a.srcAccessOrder = (__typeof__(a.srcAccessOrder))EITHER(yes, no);
    return a;
}

static size_t batch_draw(void)
{
    for (int i = 0; i < BATCH; i++) {
        batch.dst[i] = address();
        batch.src[i] = address();
        batch.size[i] = host_length();
        batch.attribute[i] = any_attributes();
        batch.first[i] = odd() ? draw(3) : (size_t)i;
    }
    return any_count();
}

/* As many attributes as copies, or one for all of them. */
static size_t attributes_of(size_t count)
{
    return odd() ? draw(BATCH + 1) : draw(2) ? count : 1;
}

static CUdeviceptr *maybe(CUdeviceptr *array)
{
    return odd() ? NULL : array;
}

DRAWN(cuMemcpyBatchAsync)
{
    size_t n = batch_draw();
    return CALL(cuMemcpyBatchAsync, maybe(batch.dst), maybe(batch.src), batch.size, n,
                batch.attribute, batch.first, attributes_of(n), &batch.failed, stream);
}

DRAWN(cuMemcpyBatchAsync_v2)
{
    size_t n = batch_draw();
    return CALL(cuMemcpyBatchAsync_v2, maybe(batch.dst), maybe(batch.src), batch.size, n,
                batch.attribute, batch.first, attributes_of(n), stream);
}

DRAWN(cuMemcpyWithAttributesAsync)
{
    CUmemcpyAttributes a = any_attributes();
    return CALL(cuMemcpyWithAttributesAsync, address(), address(), host_length(), odd() ? NULL : &a,
                stream);
}

#if CUDA_VERSION >= 12080
static CUmemcpy3DOperand operand(void)
{
    CUmemcpy3DOperand o = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER};
    o.op.ptr.ptr = address();
    o.op.ptr.rowLength = odd() ? length() : 128;
    o.op.ptr.layerHeight = odd() ? draw(3) : 2;
    if (odd())
        o.type = (CUmemcpy3DOperandType)draw(4);
    if (o.type != CU_MEMCPY_OPERAND_TYPE_ARRAY && draw(6))
        return o;
    o.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    o.op.array.array = any_array();
    o.op.array.offset = (CUoffset3D){.x = odd() ? length() : 0, .y = draw(3)};
    return o;
}

static CUDA_MEMCPY3D_BATCH_OP *boxes_draw(void)
{
    static CUDA_MEMCPY3D_BATCH_OP boxes[BATCH];
    const unsigned yes[] = {1, 2, 3}, no[] = {0, 4, ~0u};
    for (int i = 0; i < BATCH; i++) {
        boxes[i] = (CUDA_MEMCPY3D_BATCH_OP){
            .src = operand(),
            .dst = operand(),
            .extent = {.width = odd() ? length() : 16, .height = some(), .depth = odd() ? 2 : 1},
            .flags = flag()};
        boxes[i].srcAccessOrder = (CUmemcpySrcAccessOrder)EITHER(yes, no);
    }
    return odd() ? NULL : boxes;
}
#else
static CUDA_MEMCPY3D_BATCH_OP *boxes_draw(void)
{
    return NULL;
}
#endif

DRAWN_CALL(cuMemcpy3DBatchAsync, any_count(), boxes_draw(), &batch.failed, flag(), stream)
DRAWN_CALL(cuMemcpy3DBatchAsync_v2, any_count(), boxes_draw(), flag(), stream)
DRAWN_CALL(cuMemcpy3DWithAttributesAsync, boxes_draw(), flag(), stream)

/* ---- of managed memory ---------------------------------------------------------------------- */

static CUmemLocation places[BATCH];

static CUdeviceptr managed_address(void)
{
    return odd() ? address() : managed;
}

static size_t managed_length(void)
{
    return odd() ? length() : BYTES;
}

static CUdevice any_device(void)
{
    const CUdevice yes[] = {device, CU_DEVICE_CPU}, no[] = {-2, 99};
    return EITHER(yes, no);
}

static size_t ranges_draw(void)
{
    for (int i = 0; i < BATCH; i++) {
        batch.dst[i] = managed_address();
        batch.size[i] = managed_length();
        batch.first[i] = odd() ? draw(3) : (size_t)i;
        places[i] = place();
    }
    return any_count();
}

DRAWN_CALL(cuMemPrefetchAsync, managed_address(), managed_length(), any_device(), stream)
DRAWN_CALL(cuMemPrefetchAsync_v2, managed_address(), managed_length(), place(), flag(), stream)

DRAWN(cuMemPrefetchBatchAsync)
{
    size_t n = ranges_draw();
    return CALL(cuMemPrefetchBatchAsync, maybe(batch.dst), batch.size, n, places, batch.first,
                attributes_of(n), flag(), stream);
}

DRAWN(cuMemDiscardBatchAsync)
{
    size_t n = ranges_draw();
    return CALL(cuMemDiscardBatchAsync, maybe(batch.dst), batch.size, n, flag(), stream);
}

DRAWN(cuMemDiscardAndPrefetchBatchAsync)
{
    size_t n = ranges_draw();
    return CALL(cuMemDiscardAndPrefetchBatchAsync, maybe(batch.dst), batch.size, n, places,
                batch.first, attributes_of(n), flag(), stream);
}

/* With some flags, memory that is attached to a stream belongs to the host meanwhile. */
DRAWN_CALL(cuStreamAttachMemAsync, stream, managed_address(), draw(2) ? 0 : managed_length(),
           odd() ? flag() : CU_MEM_ATTACH_GLOBAL)
