/*
 * texture.c - texture and surface objects. Simulated kernels sample nothing, so an object only
 * remembers what it was made from.
 */
#include "tools/simgpu/device/attribute.h"
#include "tools/simgpu/face/handle.h"
#include "tools/simgpu/memory/array.h"
#include "tools/simgpu/memory/memory.h"

struct texture {
    struct handle handle;
    bool surface, viewed; /* viewed: it was made with a view */
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC sampling;
    CUDA_RESOURCE_VIEW_DESC view;
};

static struct handle_pool textures = HANDLE_POOL(struct texture, 1 << 20);

/* ---- what cuda.h demands of a resource ------------------------------------------------------- */

static bool at_most(const struct sim_context *ctx, CUdevice_attribute most, size_t n)
{
    return n <= (size_t)attribute_or_zero(ctx->ordinal, (int)most);
}

static bool aligned(const struct sim_context *ctx, CUdevice_attribute to, uint64_t n)
{
    return n % (uint64_t)attribute_or_zero(ctx->ordinal, (int)to) == 0;
}

static bool memory_valid(const struct sim_context *ctx, CUdeviceptr p)
{
    struct memory m;
    return memory_find(p, &m) && aligned(ctx, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, p);
}

static bool resource_valid(const struct sim_context *ctx, const CUDA_RESOURCE_DESC *r)
{
    struct array_view view;
    size_t element;
    if (r->flags != 0)
        return false;
    switch (r->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        return array_find(r->res.array.hArray, &view) == CUDA_SUCCESS;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return mipmap_find(r->res.mipmap.hMipmappedArray);
    case CU_RESOURCE_TYPE_LINEAR:
        element = array_element(r->res.linear.format, r->res.linear.numChannels);
        return element != 0 && memory_valid(ctx, r->res.linear.devPtr) &&
               at_most(ctx, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH,
                       r->res.linear.sizeInBytes / element);
    case CU_RESOURCE_TYPE_PITCH2D:
        return array_element(r->res.pitch2D.format, r->res.pitch2D.numChannels) != 0 &&
               memory_valid(ctx, r->res.pitch2D.devPtr) &&
               at_most(ctx, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH,
                       r->res.pitch2D.width) &&
               at_most(ctx, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT,
                       r->res.pitch2D.height) &&
               at_most(ctx, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH,
                       r->res.pitch2D.pitchInBytes) &&
               aligned(ctx, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT,
                       r->res.pitch2D.pitchInBytes);
    default:
        return false;
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static CUresult texture_new(bool surface, const CUDA_RESOURCE_DESC *resource,
                            const CUDA_TEXTURE_DESC *sampling, const CUDA_RESOURCE_VIEW_DESC *view,
                            unsigned long long *out)
{
    struct texture *t = handle_take_zero(&textures);
    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->surface = surface;
    t->viewed = view;
    t->resource = *resource;
    if (sampling)
        t->sampling = *sampling;
    if (view)
        t->view = *view;
    handle_publish(t);
    *out = (uintptr_t)t;
    return CUDA_SUCCESS;
}

static CUresult texture_find(unsigned long long handle, bool surface, struct texture **out)
{
    TRY(driver_ready());
    *out = handle_find(&textures, (const void *)(uintptr_t)handle);
    return *out && (*out)->surface == surface ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult texture_end(unsigned long long handle, bool surface)
{
    struct texture *t;
    TRY(context_current_ok(NULL));
    TRY(texture_find(handle, surface, &t));
    if (!handle_retire(t))
        return CUDA_ERROR_INVALID_VALUE;
    handle_give(&textures, t);
    return CUDA_SUCCESS;
}

/* ---- the calls ------------------------------------------------------------------------------- */

SIM_EXPORT CUresult cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *resource,
                                      const CUDA_TEXTURE_DESC *sampling,
                                      const CUDA_RESOURCE_VIEW_DESC *view)
{
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    bool arrays = resource && (resource->resType == CU_RESOURCE_TYPE_ARRAY ||
                               resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY);
    if (!out || !resource || !sampling || (view && !arrays) || !resource_valid(ctx, resource))
        return CUDA_ERROR_INVALID_VALUE;
    return texture_new(false, resource, sampling, view, out);
}

SIM_CALL(cuTexObjectDestroy, (CUtexObject handle), texture_end(handle, false))

SIM_GETTER(cuTexObjectGetResourceDesc, (CUDA_RESOURCE_DESC * out, CUtexObject handle), out,
           t->resource, struct texture *t;
           TRY(texture_find(handle, false, &t)))
SIM_GETTER(cuTexObjectGetTextureDesc, (CUDA_TEXTURE_DESC * out, CUtexObject handle), out,
           t->sampling, struct texture *t;
           TRY(texture_find(handle, false, &t)))
SIM_GETTER(cuSurfObjectGetResourceDesc, (CUDA_RESOURCE_DESC * out, CUsurfObject handle), out,
           t->resource, struct texture *t;
           TRY(texture_find(handle, true, &t)))

SIM_EXPORT CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *out, CUtexObject handle)
{
    struct texture *t;
    TRY(texture_find(handle, false, &t));
    if (!out || !t->viewed)
        return CUDA_ERROR_INVALID_VALUE;
    *out = t->view;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *resource)
{
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    if (!out || !resource || resource->resType != CU_RESOURCE_TYPE_ARRAY ||
        !resource_valid(ctx, resource))
        return CUDA_ERROR_INVALID_VALUE;
    return texture_new(true, resource, NULL, NULL, out);
}

SIM_CALL(cuSurfObjectDestroy, (CUsurfObject handle), texture_end(handle, true))
