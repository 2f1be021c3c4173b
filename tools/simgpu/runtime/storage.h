/*
 * storage.h - context local storage: values that the CUDA runtime and its libraries keep in a
 * context under keys of their own, with destructors, which a context's end hands the values to.
 * Thread safe.
 */
#ifndef CUTIN_TOOLS_SIMGPU_RUNTIME_STORAGE_H
#define CUTIN_TOOLS_SIMGPU_RUNTIME_STORAGE_H

#include "tools/simgpu/device/context.h"

typedef void storage_destructor(CUcontext ctx, void *key, void *value);

/* A NULL context is the current one. */
CUresult storage_put(CUcontext ctx, void *key, void *value, storage_destructor *destructor);
CUresult storage_delete(CUcontext ctx, void *key);
/* CUDA_ERROR_INVALID_HANDLE where the key has no value: success without one is fatal to its
 * callers. */
CUresult storage_get(void **value, CUcontext ctx, void *key);

#endif
