/*
 * gpu_device.c - device facts (see gpu_device.h). Devices are few and live for ever: a fixed array,
 * filled under a lock and read without one.
 */
#include "shim/objects/gpu_device.h"

#include <pthread.h>
#include <string.h>

#include "scheduler/client/client.h"

enum { GPU_DEVICES = 64 };

static struct gpu_device devices[GPU_DEVICES];
static _Atomic int known;
_Atomic int gpu_device_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int attribute(CUdevice device, CUdevice_attribute which, int otherwise)
{
    int value = otherwise;
    return REAL(cuDeviceGetAttribute)(&value, which, device) == CUDA_SUCCESS ? value : otherwise;
}

/* MIG instances have a UUID of their own, which only version 2 (11.4) answers. */
static int device_uuid(CUdevice device, CUuuid *uuid)
{
    if (REAL(cuDeviceGetUuid_v2)(uuid, device) == CUDA_SUCCESS)
        return 0;
    return REAL(cuDeviceGetUuid)(uuid, device) == CUDA_SUCCESS ? 0 : -1;
}

static void device_fill(struct gpu_device *d, CUdevice device)
{
    CUuuid uuid = {{0}};
    int count = 1;
    REAL(cuDeviceGetCount)(&count);
    atomic_store_explicit(&gpu_device_count, count, memory_order_relaxed);
    d->handle = device;
    d->index = device_uuid(device, &uuid) == 0 && client_page()
                   ? client_device((const uint8_t *)uuid.bytes)
                   : -1;
    if (d->index < 0) {
        log_line(LOG_WARN, "scheduling off for device %d: %s", device,
                 client_page() ? "more than 16 devices" : "no page to share with others");
        d->index = -1;
    }
    memcpy(d->uuid, uuid.bytes, sizeof(d->uuid));
    if (REAL(cuDeviceGetName)(d->name, sizeof(d->name), device) != CUDA_SUCCESS)
        d->name[0] = '\0';
    d->processors = (uint32_t)attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
    d->max_grid[0] = (uint32_t)attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff);
    d->max_grid[1] = (uint32_t)attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535);
    d->max_grid[2] = (uint32_t)attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535);
}

static struct gpu_device *device_find(CUdevice device)
{
    int count = atomic_load_explicit(&known, memory_order_acquire);
    for (int i = 0; i < count; i++)
        if (devices[i].handle == device)
            return &devices[i];
    return NULL;
}

const struct gpu_device *gpu_device_current(void)
{
    CUdevice device;
    if (REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS)
        return NULL;
    struct gpu_device *d = device_find(device);
    if (d)
        return d;
    struct gpu_device fresh = {.handle = device};
    if (atomic_load_explicit(&known, memory_order_relaxed) == GPU_DEVICES)
        return NULL;
    device_fill(&fresh, device);
    pthread_mutex_lock(&lock);
    d = device_find(device);
    int count = atomic_load_explicit(&known, memory_order_relaxed);
    if (!d && count < GPU_DEVICES) {
        d = &devices[count];
        *d = fresh;
        atomic_store_explicit(&known, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return d;
}
