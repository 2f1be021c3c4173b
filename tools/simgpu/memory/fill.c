/*
 * fill.c - memsets of 8, 16 and 32 bits, linear and 2D. Even the forms without a stream return
 * before the memory is set, unless it is host memory.
 */
#include "tools/simgpu/memory/copy.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/memory/space.h"
#include "tools/simgpu/face/variants.h"
#include "tools/simgpu/stream/submit.h"

/* work.args: the node parameters, one number each. */
enum { ARG_DST, ARG_PITCH, ARG_VALUE, ARG_ELEMENT, ARG_WIDTH, ARG_HEIGHT };

static void row_fill(void *row, uint32_t value, unsigned int element, size_t width)
{
    if (value == 0) {
        space_zero((uintptr_t)row, width * element);
        return;
    }
    switch (element) {
    case 1:
        memset(row, (int)(value & 0xff), width);
        break;
    case 2:
        for (size_t i = 0; i < width; i++)
            ((uint16_t *)row)[i] = (uint16_t)value;
        break;
    default:
        for (size_t i = 0; i < width; i++)
            ((uint32_t *)row)[i] = value;
        break;
    }
}

static CUresult fill_effect(struct work *w)
{
    const uint64_t *a = w->args.u64;
    unsigned int element = (unsigned int)a[ARG_ELEMENT];
    size_t span = (a[ARG_HEIGHT] - 1) * a[ARG_PITCH] + a[ARG_WIDTH] * element;
    if (!memory_contains(a[ARG_DST], span))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t y = 0; y < a[ARG_HEIGHT]; y++)
        row_fill((char *)a[ARG_DST] + y * a[ARG_PITCH], (uint32_t)a[ARG_VALUE], element,
                 a[ARG_WIDTH]);
    return CUDA_SUCCESS;
}

void fill_params(const struct work *w, CUDA_MEMSET_NODE_PARAMS *p)
{
    const uint64_t *a = w->args.u64;
    *p = (CUDA_MEMSET_NODE_PARAMS){
        a[ARG_DST],   a[ARG_PITCH], (unsigned int)a[ARG_VALUE], (unsigned int)a[ARG_ELEMENT],
        a[ARG_WIDTH], a[ARG_HEIGHT]};
}

CUresult fill_work(const CUDA_MEMSET_NODE_PARAMS *p, struct work *w)
{
    if (!p || p->width == 0 || p->height == 0 ||
        (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) ||
        p->dst % p->elementSize != 0 || p->width > SIZE_MAX >> 16 || p->height > 1 << 16)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->height > 1 && p->pitch > SIZE_MAX >> 17) /* so no sum of them overflows */
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = p->width * p->elementSize;
    if (p->height > 1 && (p->pitch < row || p->pitch % p->elementSize != 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (!memory_contains(p->dst, (p->height - 1) * p->pitch + row))
        return CUDA_ERROR_INVALID_VALUE;
    *w = (struct work){.kind = WORK_COPY,
                       .name = "memset",
                       .cost_ns = copy_cost_ns(row * p->height, true),
                       .effect = fill_effect,
                       .node_type = CU_GRAPH_NODE_TYPE_MEMSET};
    const uint64_t args[] = {p->dst, p->pitch, p->value, p->elementSize, p->width, p->height};
    memcpy(w->args.u64, args, sizeof(args));
    return CUDA_SUCCESS;
}

static CUresult fill_submit(const CUDA_MEMSET_NODE_PARAMS *p, CUstream s, bool ptds, bool async)
{
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    if (p->width == 0 || p->height == 0)
        return CUDA_SUCCESS;
    struct work w;
    TRY(fill_work(p, &w));
    struct memory m;
    bool known = memory_find(p->dst, &m);
    bool waits =
        (known && (!memory_is_device_kind(m.kind) || m.sync_memops)) || context_syncs_memops(ctx);
    return work_submit(s, ptds, &w, waits && !async);
}

#define AREA(dst, pitch, value, bits, width, height)                                               \
    (&(CUDA_MEMSET_NODE_PARAMS){dst, pitch, value, (bits) / 8, width, height})

#define FILLS(bits, type)                                                                          \
    SYNC_API(cuMemsetD##bits##_v2, (CUdeviceptr dst, type v, size_t n),                            \
             fill_submit(AREA(dst, 0, v, bits, n, 1), NULL, ptds, false))                          \
    STREAM_API(cuMemsetD##bits##Async, (CUdeviceptr dst, type v, size_t n, CUstream s),            \
               fill_submit(AREA(dst, 0, v, bits, n, 1), s, ptds, true))                            \
    SYNC_API(cuMemsetD2D##bits##_v2,                                                               \
             (CUdeviceptr dst, size_t pitch, type v, size_t width, size_t height),                 \
             fill_submit(AREA(dst, pitch, v, bits, width, height), NULL, ptds, false))             \
    STREAM_API(cuMemsetD2D##bits##Async,                                                           \
               (CUdeviceptr dst, size_t pitch, type v, size_t width, size_t height, CUstream s),   \
               fill_submit(AREA(dst, pitch, v, bits, width, height), s, ptds, true))

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)
