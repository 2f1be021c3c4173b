/*
 * textures.c - texture and surface objects: what may be one, and what it says about itself. What a
 * kernel reads from them is not tested.
 */
#include "rig.h"

TestSuite(textures, .init = rig_open);

static CUarray array_new(void)
{
    CUDA_ARRAY_DESCRIPTOR desc = {
        .Width = 32, .Height = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUarray array;
    OK(cuArrayCreate(&array, &desc));
    return array;
}

static CUDA_RESOURCE_DESC linear(CUdeviceptr p)
{
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_LINEAR};
    r.res.linear.devPtr = p;
    r.res.linear.format = CU_AD_FORMAT_FLOAT;
    r.res.linear.numChannels = 1;
    r.res.linear.sizeInBytes = BYTES;
    return r;
}

static CUDA_RESOURCE_DESC of_array(CUarray array)
{
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY};
    r.res.array.hArray = array;
    return r;
}

static const CUDA_TEXTURE_DESC clamped = {
    .addressMode = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP},
    .filterMode = CU_TR_FILTER_MODE_POINT};

/* "pResDesc describes the data to texture from." */
Test(textures, linear_texture_returns_its_descriptors)
{
    CUDA_RESOURCE_DESC made = linear(words_new(1)), said = {0};
    CUDA_TEXTURE_DESC sampling;
    CUtexObject t;
    OK(cuTexObjectCreate(&t, &made, &clamped, NULL));
    OK(cuTexObjectGetResourceDesc(&said, t));
    cr_expect_eq(said.resType, CU_RESOURCE_TYPE_LINEAR);
    cr_expect_eq(said.res.linear.devPtr, made.res.linear.devPtr);
    cr_expect_eq(said.res.linear.sizeInBytes, BYTES);
    OK(cuTexObjectGetTextureDesc(&sampling, t));
    cr_expect_eq(sampling.filterMode, CU_TR_FILTER_MODE_POINT);
    OK(cuTexObjectDestroy(t));
}

/* "If no resource view was set for texObject, the CUDA_ERROR_INVALID_VALUE is returned." */
Test(textures, array_texture_may_have_a_resource_view)
{
    CUDA_RESOURCE_DESC made = of_array(array_new());
    CUDA_RESOURCE_VIEW_DESC view = {
        .format = CU_RES_VIEW_FORMAT_FLOAT_1X32, .width = 32, .height = 8, .depth = 0};
    CUDA_RESOURCE_VIEW_DESC said;
    CUtexObject plain, viewed;
    OK(cuTexObjectCreate(&plain, &made, &clamped, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectGetResourceViewDesc(&said, plain));
    OK(cuTexObjectCreate(&viewed, &made, &clamped, &view));
    OK(cuTexObjectGetResourceViewDesc(&said, viewed));
    cr_expect_eq(said.width, 32);
    cr_expect_eq(said.height, 8);
    OK(cuTexObjectDestroy(plain));
    OK(cuTexObjectDestroy(viewed));
    OK(cuArrayDestroy(made.res.array.hArray));
}

/* "pResViewDesc can only be specified if the type of resource is a CUDA array or a CUDA mipmapped
 * array"; "flags must be set to zero". */
Test(textures, invalid_arguments_are_refused)
{
    CUdeviceptr p = words_new(1);
    CUDA_RESOURCE_DESC good = linear(p), bad = linear(p);
    CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_FLOAT_1X32, .width = WORDS};
    CUtexObject t;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(NULL, &good, &clamped, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, NULL, &clamped, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &good, NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &good, &clamped, &view));
    bad.flags = 1;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &bad, &clamped, NULL));
}

/* "aligned to CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT"; the total number of elements "cannot exceed
 * CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH". */
Test(textures, linear_texture_respects_alignment_and_width_limits)
{
    CUDA_RESOURCE_DESC r = linear(words_new(1) + 4);
    CUtexObject t;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &r, &clamped, NULL));
    r = linear(r.res.linear.devPtr - 4);
    r.res.linear.sizeInBytes =
        4 * (1 + (size_t)rig_attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &r, &clamped, NULL));
}

/* "resType must be CU_RESOURCE_TYPE_ARRAY". */
Test(textures, surface_requires_an_array)
{
    CUDA_RESOURCE_DESC memory = linear(words_new(1)), said;
    CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 32,
                                    .Height = 8,
                                    .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                    .NumChannels = 1,
                                    .Flags = CUDA_ARRAY3D_SURFACE_LDST};
    CUsurfObject s;
    CUarray array;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(&s, &memory));
    OK(cuArray3DCreate(&array, &desc));
    CUDA_RESOURCE_DESC made = of_array(array);
    OK(cuSurfObjectCreate(&s, &made));
    OK(cuSurfObjectGetResourceDesc(&said, s));
    cr_expect_eq(said.res.array.hArray, array);
    OK(cuSurfObjectDestroy(s));
    OK(cuArrayDestroy(array));
}
