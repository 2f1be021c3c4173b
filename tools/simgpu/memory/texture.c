/*
 * texture.c - texture and surface objects: what they were made from. Simulated kernels sample
 * nothing, so there is nothing more to them.
 */
#include "tools/simgpu/device/attribute.h"
#include "tools/simgpu/memory/array.h"
#include "tools/simgpu/memory/memory.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct texture {
    bool surface, viewed; /* viewed: it has a view */
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC sampling;
    CUDA_RESOURCE_VIEW_DESC view;
    struct texture *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct texture *textures; /* live ones; under lock */

/* ---- what cuda.h demands of a resource ------------------------------------------------------- */

static size_t limit(const struct sim_context *ctx, CUdevice_attribute attribute)
{
    int value = 0;
    return attribute_get((int)attribute, ctx->ordinal, &value) == 0 ? (size_t)value : 0;
}

static bool at_most(const struct sim_context *ctx, CUdevice_attribute most, size_t n)
{
    return n <= limit(ctx, most);
}

static bool aligned(const struct sim_context *ctx, CUdevice_attribute to, uint64_t n)
{
    return n % limit(ctx, to) == 0;
}

static bool memory_valid(const struct sim_context *ctx, CUdeviceptr p)
{
    struct memory m;
    return memory_find(p, &m) && aligned(ctx, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, p);
}

static bool linear_valid(const struct sim_context *ctx, const CUDA_RESOURCE_DESC *r)
{
    size_t element = array_element(r->res.linear.format, r->res.linear.numChannels);
    return element != 0 && memory_valid(ctx, r->res.linear.devPtr) &&
           at_most(ctx, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH,
                   r->res.linear.sizeInBytes / element);
}

static bool pitch_valid(const struct sim_context *ctx, const CUDA_RESOURCE_DESC *r)
{
    return array_element(r->res.pitch2D.format, r->res.pitch2D.numChannels) != 0 &&
           memory_valid(ctx, r->res.pitch2D.devPtr) &&
           at_most(ctx, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, r->res.pitch2D.width) &&
           at_most(ctx, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT,
                   r->res.pitch2D.height) &&
           at_most(ctx, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH,
                   r->res.pitch2D.pitchInBytes) &&
           aligned(ctx, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, r->res.pitch2D.pitchInBytes);
}

static bool resource_valid(const struct sim_context *ctx, const CUDA_RESOURCE_DESC *r)
{
    struct array_view view;

    if (r->flags != 0)
        return false;
    switch (r->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        return array_find(r->res.array.hArray, &view) == CUDA_SUCCESS;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return mipmap_find(r->res.mipmap.hMipmappedArray);
    case CU_RESOURCE_TYPE_LINEAR:
        return linear_valid(ctx, r);
    case CU_RESOURCE_TYPE_PITCH2D:
        return pitch_valid(ctx, r);
    default:
        return false;
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static CUresult texture_new(const struct texture *like, unsigned long long *out)
{
    struct texture *t = malloc(sizeof(*t));
    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *t = *like;
    pthread_mutex_lock(&lock);
    LL_PREPEND(textures, t);
    pthread_mutex_unlock(&lock);
    *out = (uintptr_t)t;
    return CUDA_SUCCESS;
}

/* Under lock. */
static struct texture *texture_live(unsigned long long handle, bool surface)
{
    struct texture *t = textures;
    while (t && ((uintptr_t)t != handle || t->surface != surface))
        t = t->next;
    return t;
}

static CUresult texture_end(unsigned long long handle, bool surface)
{
    struct sim_context *ctx;
    TRY(context_enter(&ctx));
    pthread_mutex_lock(&lock);
    struct texture *t = texture_live(handle, surface);
    if (t)
        LL_DELETE(textures, t);
    pthread_mutex_unlock(&lock);
    free(t);
    return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult texture_find(unsigned long long handle, bool surface, struct texture *out)
{
    TRY(driver_ready());
    pthread_mutex_lock(&lock);
    const struct texture *t = texture_live(handle, surface);
    if (t)
        *out = *t;
    pthread_mutex_unlock(&lock);
    return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- the calls ------------------------------------------------------------------------------- */

SIM_EXPORT CUresult cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *resource,
                                      const CUDA_TEXTURE_DESC *sampling,
                                      const CUDA_RESOURCE_VIEW_DESC *view)
{
    struct sim_context *ctx;
    TRY(context_enter(&ctx));
    bool arrays = resource && (resource->resType == CU_RESOURCE_TYPE_ARRAY ||
                               resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY);
    if (!out || !resource || !sampling || (view && !arrays) || !resource_valid(ctx, resource))
        return CUDA_ERROR_INVALID_VALUE;
    struct texture t = {.resource = *resource, .sampling = *sampling, .viewed = view};
    if (view)
        t.view = *view;
    return texture_new(&t, out);
}

SIM_EXPORT CUresult cuTexObjectDestroy(CUtexObject handle)
{
    return texture_end(handle, false);
}

SIM_EXPORT CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUtexObject handle)
{
    struct texture t;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(texture_find(handle, false, &t));
    *out = t.resource;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *out, CUtexObject handle)
{
    struct texture t;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(texture_find(handle, false, &t));
    *out = t.sampling;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *out, CUtexObject handle)
{
    struct texture t;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(texture_find(handle, false, &t));
    if (!t.viewed)
        return CUDA_ERROR_INVALID_VALUE;
    *out = t.view;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *resource)
{
    struct sim_context *ctx;
    TRY(context_enter(&ctx));
    if (!out || !resource || resource->resType != CU_RESOURCE_TYPE_ARRAY ||
        !resource_valid(ctx, resource))
        return CUDA_ERROR_INVALID_VALUE;
    return texture_new(&(struct texture){.surface = true, .resource = *resource}, out);
}

SIM_EXPORT CUresult cuSurfObjectDestroy(CUsurfObject handle)
{
    return texture_end(handle, true);
}

SIM_EXPORT CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUsurfObject handle)
{
    struct texture t;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(texture_find(handle, true, &t));
    *out = t.resource;
    return CUDA_SUCCESS;
}
