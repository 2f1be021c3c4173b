/*
 * storage.h - context local storage. The CUDA runtime and its libraries keep values in a context,
 * under keys of their own. At the end of the context each value goes to its destructor. Thread
 * safe.
 */
#ifndef CUTIN_TOOLS_SIMGPU_RUNTIME_STORAGE_H
#define CUTIN_TOOLS_SIMGPU_RUNTIME_STORAGE_H

#include "tools/simgpu/device/context.h"

typedef void storage_destructor(CUcontext ctx, void *key, void *value);

/* A NULL context means the current one. */
CUresult storage_put(CUcontext ctx, void *key, void *value, storage_destructor *destructor);
CUresult storage_delete(CUcontext ctx, void *key);
/* CUDA_ERROR_INVALID_HANDLE if the key has no value: callers do not survive success without one. */
CUresult storage_get(void **value, CUcontext ctx, void *key);

#endif
