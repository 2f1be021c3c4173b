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

int gpu_device_attribute(CUdevice device, CUdevice_attribute which, int otherwise)
{
    int value = otherwise;
    return REAL(cuDeviceGetAttribute)(&value, which, device) == CUDA_SUCCESS ? value : otherwise;
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
    CUuuid uuid = {{0}};
    int count = 1;
    REAL(cuDeviceGetCount)(&count);
    atomic_store_explicit(&gpu_device_count, count, memory_order_relaxed);
    /* MIG instances have a UUID of their own, which only version 2 (CUDA 11.4) returns. */
    bool named = REAL(cuDeviceGetUuid_v2)(&uuid, device) == CUDA_SUCCESS ||
                 REAL(cuDeviceGetUuid)(&uuid, device) == CUDA_SUCCESS;
    fresh.index = named && client_page() ? client_device((const uint8_t *)uuid.bytes) : -1;
    if (fresh.index < 0) {
        log_line(LOG_WARN, "scheduling off for device %d: %s", device,
                 client_page() ? "more than 16 devices" : "no page to share with others");
        fresh.index = -1;
    }
    memcpy(fresh.uuid, uuid.bytes, sizeof(fresh.uuid));
    if (REAL(cuDeviceGetName)(fresh.name, sizeof(fresh.name), device) != CUDA_SUCCESS)
        fresh.name[0] = '\0';
    fresh.processors =
        (uint32_t)gpu_device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
    for (int i = 0; i < 3; i++)
        fresh.max_grid[i] = (uint32_t)gpu_device_attribute(
            device, (CUdevice_attribute)(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i),
            i ? 65535 : 0x7fffffff);
    pthread_mutex_lock(&lock);
    d = device_find(device);
    count = atomic_load_explicit(&known, memory_order_relaxed);
    if (!d && count < GPU_DEVICES) {
        d = &devices[count];
        *d = fresh;
        atomic_store_explicit(&known, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return d;
}
