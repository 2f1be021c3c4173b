/*
 * array.h - CUDA arrays: device memory with a shape, which only copies reach.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_ARRAY_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_ARRAY_H

#include "tools/simgpu/device/context.h"

/* Where an array's bytes are. Rows are `pitch` bytes apart, layers `slice` bytes. */
struct array_view {
    CUdeviceptr base;
    size_t pitch, slice;
    size_t row_bytes, rows, layers; /* what lies within bounds */
    size_t element;                 /* bytes */
};

/* CUDA_ERROR_INVALID_HANDLE for anything that is not a live array. */
CUresult array_find(CUarray handle, struct array_view *out);
/* Whether the handle is of a live mipmapped array. */
bool mipmap_find(CUmipmappedArray handle);
/* Bytes of an element; 0: such elements are not simulated. */
size_t array_element(CUarray_format format, unsigned int channels);

#endif
