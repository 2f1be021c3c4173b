/*
 * array.c - CUDA arrays and their mipmapped kin: shape, storage, descriptors.
 */
#include "tools/simgpu/memory/array.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/stream/capture.h"
#include "tools/simgpu/stream/stream.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct sim_array {
    CUDA_ARRAY3D_DESCRIPTOR desc;
    struct array_view view;
    bool level; /* of a mipmapped array, which destroys it */
    struct sim_array *next;
};

struct sim_mipmap {
    unsigned int count;
    struct sim_array *levels[32];
    struct sim_mipmap *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_array *arrays; /* live ones; under lock */
static struct sim_mipmap *mipmaps;

/* ---- shape ----------------------------------------------------------------------------------- */

static size_t channel_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0; /* packed, planar and block formats are not simulated */
    }
}

size_t array_element(CUarray_format format, unsigned int channels)
{
    return channels == 1 || channels == 2 || channels == 4 ? channel_bytes(format) * channels : 0;
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
    struct sim_array *a = calloc(1, sizeof(*a));
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
        free(a);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    LL_PREPEND(arrays, a);
    pthread_mutex_unlock(&lock);
    return a;
}

/* Under lock. */
static struct sim_array *array_live(CUarray handle)
{
    struct sim_array *a = arrays;
    while (a && (void *)a != (void *)handle)
        a = a->next;
    return a;
}

CUresult array_find(CUarray handle, struct array_view *out)
{
    pthread_mutex_lock(&lock);
    const struct sim_array *a = array_live(handle);
    if (a)
        *out = a->view;
    pthread_mutex_unlock(&lock);
    return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- life ------------------------------------------------------------------------------------ */

SIM_EXPORT CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    struct sim_context *ctx;
    TRY(context_enter(&ctx));
    TRY(capture_forbids_unsafe());
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
    pthread_mutex_lock(&lock);
    LL_DELETE(arrays, a);
    pthread_mutex_unlock(&lock);
    memory_give(a->view.base);
    free(a);
}

static CUresult destroy_begin(void)
{
    struct sim_context *ctx;
    TRY(context_enter(&ctx));
    return capture_forbids_unsafe();
}

/* Like freeing memory: waits for the work of its context, which may still use it. */
static void array_wait(CUdeviceptr base)
{
    struct memory m;
    if (memory_find(base, &m))
        context_wait_idle(m.ctx);
}

SIM_EXPORT CUresult cuArrayDestroy(CUarray handle)
{
    TRY(destroy_begin());
    pthread_mutex_lock(&lock);
    struct sim_array *a = array_live(handle);
    bool ours = a && !a->level;
    pthread_mutex_unlock(&lock);
    if (ours) {
        array_wait(a->view.base);
        array_end(a);
    }
    return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray handle)
{
    TRY(driver_ready());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    const struct sim_array *a = array_live(handle);
    if (a)
        *out = a->desc;
    pthread_mutex_unlock(&lock);
    return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *out, CUarray handle)
{
    CUDA_ARRAY3D_DESCRIPTOR full;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(cuArray3DGetDescriptor_v2(&full, handle));
    *out = (CUDA_ARRAY_DESCRIPTOR){full.Width, full.Height, full.Format, full.NumChannels};
    return CUDA_SUCCESS;
}

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
    free(m);
}

SIM_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d,
                                           unsigned int count)
{
    struct sim_context *ctx;
    TRY(context_enter(&ctx));
    TRY(capture_forbids_unsafe());
    if (!out || !d || !desc_valid(d) || count == 0 || count > 32)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_mipmap *m = calloc(1, sizeof(*m));
    for (unsigned int i = 0; m && i < count; i++) {
        CUDA_ARRAY3D_DESCRIPTOR level = *d;
        level.Width = halved(d->Width, i);
        level.Height = halved(d->Height, i);
        level.Depth = (d->Flags & CUDA_ARRAY3D_LAYERED) != 0 ? d->Depth : halved(d->Depth, i);
        m->levels[i] = array_new(ctx, &level);
        if (!m->levels[i]) {
            mipmap_end(m);
            m = NULL;
            break;
        }
        m->levels[i]->level = true;
        m->count++;
    }
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    LL_PREPEND(mipmaps, m);
    pthread_mutex_unlock(&lock);
    *out = (CUmipmappedArray)(void *)m;
    return CUDA_SUCCESS;
}

/* Under lock. */
static struct sim_mipmap *mipmap_live(CUmipmappedArray handle)
{
    struct sim_mipmap *m = mipmaps;
    while (m && (void *)m != (void *)handle)
        m = m->next;
    return m;
}

bool mipmap_find(CUmipmappedArray handle)
{
    pthread_mutex_lock(&lock);
    bool live = mipmap_live(handle);
    pthread_mutex_unlock(&lock);
    return live;
}

SIM_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray handle,
                                             unsigned int level)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    const struct sim_mipmap *m = mipmap_live(handle);
    if (m) {
        rc = level < m->count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        if (rc == CUDA_SUCCESS)
            *out = (CUarray)(void *)m->levels[level];
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

SIM_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
    TRY(destroy_begin());
    pthread_mutex_lock(&lock);
    struct sim_mipmap *m = mipmap_live(handle);
    if (m)
        LL_DELETE(mipmaps, m);
    pthread_mutex_unlock(&lock);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    array_wait(m->levels[0]->view.base);
    mipmap_end(m);
    return CUDA_SUCCESS;
}
