/*
 * array.h - CUDA arrays: device memory with a shape, reached by copies only.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_ARRAY_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_ARRAY_H

#include "tools/simgpu/device/context.h"

/* Where an array's bytes are. Rows are `pitch` apart, layers `slice`. */
struct array_view {
    CUdeviceptr base;
    size_t pitch, slice;
    size_t row_bytes, rows, layers; /* what lies within bounds */
    size_t element;                 /* bytes */
};

/* CUDA_ERROR_INVALID_HANDLE for anything that is not a live array. */
CUresult array_find(CUarray handle, struct array_view *out);
/* Is it a live one? */
bool mipmap_find(CUmipmappedArray handle);
/* Bytes of an element; 0: no such element is simulated. */
size_t array_element(CUarray_format format, unsigned int channels);

#endif
