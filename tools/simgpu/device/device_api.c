/*
 * device_api.c - cuInit and the devices: names, identities, attributes. The model of the device
 * (SMs, time, queues) is in device.c.
 */
#include "tools/simgpu/device/attribute.h"
#include "tools/simgpu/device/context.h"
#include "tools/simgpu/face/simconfig.h"

#include <stdio.h>

enum { STATE_NONE, STATE_READY, STATE_FORKED };

static _Atomic int state = STATE_NONE;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* A child that inherits an initialised driver cannot use it: it has no threads and queues. */
static void child_after_fork(void)
{
    if (atomic_load(&state) == STATE_READY)
        atomic_store(&state, STATE_FORKED);
}

static void fork_watch(void)
{
    pthread_atfork(NULL, NULL, child_after_fork);
}

static pthread_mutex_t full = PTHREAD_MUTEX_INITIALIZER;

void driver_full_begin(void)
{
    if (config_get()->full_locks)
        pthread_mutex_lock(&full);
}

void driver_full_end(void)
{
    if (config_get()->full_locks)
        pthread_mutex_unlock(&full);
}

CUresult driver_ready(void)
{
    if (atomic_load_explicit(&state, memory_order_acquire) != STATE_READY)
        return CUDA_ERROR_NOT_INITIALIZED;
    driver_full_begin();
    driver_full_end();
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuInit(unsigned int flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&state) == STATE_FORKED)
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_once(&fork_once, fork_watch);
    atomic_store_explicit(&state, STATE_READY, memory_order_release);
    return CUDA_SUCCESS;
}

SIM_GETTER(cuDriverGetVersion, (int *version), version, config_get()->driver_version)

/* ---- which devices --------------------------------------------------------------------------- */

CUresult device_check(CUdevice dev)
{
    TRY(driver_ready());
    return dev >= 0 && dev < config_get()->devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* Most calls here begin with this: the device exists, and the other arguments make sense. */
static CUresult asked(CUdevice dev, bool good)
{
    TRY(device_check(dev));
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_GETTER(cuDeviceGetCount, (int *count), count, config_get()->devices, TRY(driver_ready()))
SIM_GETTER(cuDeviceGet, (CUdevice * out, int ordinal), out, ordinal, TRY(device_check(ordinal)))

SIM_EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    TRY(asked(dev, name && len > 0));
    snprintf(name, (size_t)len, DEVICE_NAME);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    TRY(asked(dev, uuid));
    attribute_uuid(dev, (uint8_t *)uuid->bytes);
    return CUDA_SUCCESS;
}
SIM_ALIAS(cuDeviceGetUuid, (CUuuid * uuid, CUdevice dev), cuDeviceGetUuid_v2, uuid, dev)

SIM_EXPORT CUresult cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice dev)
{
    TRY(asked(dev, luid && mask));
    return CUDA_ERROR_NOT_SUPPORTED; /* Windows only */
}

SIM_EXPORT CUresult cuDeviceGetPCIBusId(char *out, int len, CUdevice dev)
{
    TRY(asked(dev, out && len > 0));
    snprintf(out, (size_t)len, "0000:%02x:00.0", dev + 1);
    return CUDA_SUCCESS;
}

/* Takes domain:bus:device.function, domain:bus:device and bus:device.function. */
static bool pci_parse(const char *text, unsigned int *domain, unsigned int *bus,
                      unsigned int *device)
{
    unsigned int function;
    if (sscanf(text, "%x:%x:%x.%x", domain, bus, device, &function) == 4 ||
        sscanf(text, "%x:%x:%x", domain, bus, device) == 3)
        return true;
    *domain = 0;
    return sscanf(text, "%x:%x.%x", bus, device, &function) == 3;
}

SIM_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *out, const char *text)
{
    TRY(driver_ready());
    unsigned int domain, bus, device;
    if (!out || !text || !pci_parse(text, &domain, &bus, &device))
        return CUDA_ERROR_INVALID_VALUE;
    if (domain != 0 || device != 0 || bus == 0 || bus > (unsigned int)config_get()->devices)
        return CUDA_ERROR_INVALID_DEVICE;
    *out = (CUdevice)bus - 1;
    return CUDA_SUCCESS;
}

/* ---- what they are --------------------------------------------------------------------------- */

static size_t memory_bytes(void)
{
    return (size_t)config_get()->mem_mb << 20;
}

SIM_GETTER(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice dev), bytes, memory_bytes(),
           TRY(device_check(dev)))
SIM_GETTER(cuDeviceTotalMem, (unsigned int *bytes, CUdevice dev), bytes,
           memory_bytes() > UINT32_MAX ? UINT32_MAX : (unsigned int)memory_bytes(),
           TRY(device_check(dev)))

SIM_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice dev)
{
    TRY(asked(dev, value));
    return attribute_get((int)attribute, dev, value) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuDeviceGetProperties(CUdevprop *p, CUdevice dev)
{
    TRY(asked(dev, p));
    for (int i = 0; i < 3; i++) {
        p->maxThreadsDim[i] = attribute_or_zero(dev, (int)CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
        p->maxGridSize[i] = attribute_or_zero(dev, (int)CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
    }
    p->maxThreadsPerBlock = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    p->sharedMemPerBlock = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    p->totalConstantMemory = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    p->SIMDWidth = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    p->memPitch = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    p->regsPerBlock = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    p->clockRate = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    p->textureAlign = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    TRY(asked(dev, major && minor));
    *major = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format,
                                                       unsigned channels, CUdevice dev)
{
    TRY(asked(dev, width && (channels == 1 || channels == 2 || channels == 4)));
    *width = (size_t)attribute_or_zero(dev, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
    return CUDA_SUCCESS;
}

SIM_GETTER(cuDeviceGetExecAffinitySupport, (int *supported, CUexecAffinityType type, CUdevice dev),
           supported, 0, TRY(device_check(dev)))

SIM_EXPORT CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                               CUflushGPUDirectRDMAWritesScope scope)
{
    return context_current_ok(NULL);
}
