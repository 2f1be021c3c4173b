/*
 * array.c - CUDA arrays and mipmapped arrays: shape, storage, descriptors.
 */
#include "tools/simgpu/memory/array.h"
#include "tools/simgpu/face/handle.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/stream/stream.h"

struct sim_array {
    struct handle handle;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    struct array_view view;
    bool level; /* of a mipmapped array, which destroys it */
};

struct sim_mipmap {
    struct handle handle;
    unsigned int count;
    struct sim_array *levels[32];
};

static struct handle_pool arrays = HANDLE_POOL(struct sim_array, 1 << 20);
static struct handle_pool mipmaps = HANDLE_POOL(struct sim_mipmap, 1 << 16);

/* ---- shape ----------------------------------------------------------------------------------- */

size_t array_element(CUarray_format format, unsigned int channels)
{
    if (channels != 1 && channels != 2 && channels != 4)
        return 0;
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return (size_t)channels * 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return (size_t)channels * 4;
    default:
        return 0; /* packed, planar and block formats are not simulated */
    }
}

static bool desc_valid(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    return d->Width != 0 && array_element(d->Format, d->NumChannels) != 0 &&
           (d->Depth == 0 || d->Height != 0 || (d->Flags & CUDA_ARRAY3D_LAYERED) != 0);
}

static size_t at_least_one(size_t n)
{
    return n != 0 ? n : 1;
}

static struct sim_array *array_new(struct sim_context *ctx, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    struct sim_array *a = handle_take_zero(&arrays);
    if (!a)
        return NULL;
    a->desc = *d;
    struct array_view *v = &a->view;
    v->element = array_element(d->Format, d->NumChannels);
    v->row_bytes = d->Width * v->element;
    v->rows = at_least_one(d->Height);
    v->layers = at_least_one(d->Depth);
    v->pitch = (v->row_bytes + 511) / 512 * 512;
    v->slice = v->pitch * v->rows;
    v->base = memory_take(ctx, v->slice * v->layers);
    if (v->base == 0) {
        handle_give(&arrays, a);
        return NULL;
    }
    handle_publish(a);
    return a;
}

CUresult array_find(CUarray handle, struct array_view *out)
{
    const struct sim_array *a = handle_find(&arrays, handle);
    if (a)
        *out = a->view;
    return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- life ------------------------------------------------------------------------------------ */

SIM_EXPORT CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    struct sim_context *ctx;
    TRY(memory_call_check(&ctx));
    if (!out || !d || !desc_valid(d))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_array *a = array_new(ctx, d);
    *out = (CUarray)(void *)a;
    return a ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d)
{
    if (!d)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR full = {
        .Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
    return cuArray3DCreate_v2(out, &full);
}

static void array_end(struct sim_array *a)
{
    handle_retire(a);
    memory_give(a->view.base);
    handle_give(&arrays, a);
}

/* Waits for the work of the array's context, which may still use it, as freeing memory does. */
static void array_wait(CUdeviceptr base)
{
    struct memory m;
    if (memory_find(base, &m))
        context_wait_idle(m.ctx);
}

SIM_EXPORT CUresult cuArrayDestroy(CUarray handle)
{
    TRY(memory_call_check(NULL));
    struct sim_array *a = handle_find(&arrays, handle);
    if (!a || a->level || !handle_retire(a))
        return CUDA_ERROR_INVALID_HANDLE;
    array_wait(a->view.base);
    array_end(a);
    return CUDA_SUCCESS;
}

static CUresult array_arg(CUarray handle, const struct sim_array **a)
{
    TRY(driver_ready());
    *a = handle_find(&arrays, handle);
    return *a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_GETTER(cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR * out, CUarray handle), out, a->desc,
           const struct sim_array *a;
           TRY(array_arg(handle, &a)))
SIM_GETTER(cuArrayGetDescriptor_v2, (CUDA_ARRAY_DESCRIPTOR * out, CUarray handle), out,
           ((CUDA_ARRAY_DESCRIPTOR){a->desc.Width, a->desc.Height, a->desc.Format,
                                    a->desc.NumChannels}),
           const struct sim_array *a;
           TRY(array_arg(handle, &a)))

SIM_EXPORT CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out,
                                                 CUarray handle, CUdevice dev)
{
    struct array_view view;
    TRY(array_find(handle, &view));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    memset(out, 0, sizeof(*out));
    out->size = view.slice * view.layers;
    out->alignment = 512;
    return CUDA_SUCCESS;
}

/* ---- mipmapped: each level is an array of half the size -------------------------------------- */

static size_t halved(size_t n, unsigned int times)
{
    return n == 0 ? 0 : at_least_one(n >> times);
}

static void mipmap_end(struct sim_mipmap *m)
{
    for (unsigned int i = 0; i < m->count; i++)
        array_end(m->levels[i]);
    handle_give(&mipmaps, m);
}

SIM_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d,
                                           unsigned int count)
{
    struct sim_context *ctx;
    TRY(memory_call_check(&ctx));
    if (!out || !d || !desc_valid(d) || count == 0 || count > 32)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_mipmap *m = handle_take_zero(&mipmaps);
    for (; m && m->count < count; m->count++) {
        unsigned int i = m->count;
        CUDA_ARRAY3D_DESCRIPTOR level = *d;
        level.Width = halved(d->Width, i);
        level.Height = halved(d->Height, i);
        level.Depth = (d->Flags & CUDA_ARRAY3D_LAYERED) != 0 ? d->Depth : halved(d->Depth, i);
        m->levels[i] = array_new(ctx, &level);
        if (!m->levels[i]) {
            mipmap_end(m);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        m->levels[i]->level = true;
    }
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    handle_publish(m);
    *out = (CUmipmappedArray)(void *)m;
    return CUDA_SUCCESS;
}

bool mipmap_find(CUmipmappedArray handle)
{
    return handle_find(&mipmaps, handle);
}

SIM_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray handle,
                                             unsigned int level)
{
    const struct sim_mipmap *m = handle_find(&mipmaps, handle);
    if (out && !m)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || level >= m->count)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUarray)(void *)m->levels[level];
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
    TRY(memory_call_check(NULL));
    struct sim_mipmap *m = handle_find(&mipmaps, handle);
    if (!m || !handle_retire(m))
        return CUDA_ERROR_INVALID_HANDLE;
    array_wait(m->levels[0]->view.base);
    mipmap_end(m);
    return CUDA_SUCCESS;
}
