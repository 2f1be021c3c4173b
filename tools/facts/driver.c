/*
 * driver.c - finds the CUDA driver at run time, and puts its errors into words.
 */
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#define QUOTE(name) #name

int driver_load(struct driver *driver, void **library, char *why, size_t why_bytes)
{
    const char *absent = NULL;

    *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!*library) {
        snprintf(why, why_bytes, "no CUDA driver (%s); --sim needs none", dlerror());
        return -ENOENT;
    }
#define RESOLVE(name)                                                                              \
    if (!(*(void **)&driver->name = dlsym(*library, QUOTE(name))))                                 \
        absent = QUOTE(name);
    DRIVER_FUNCTIONS(RESOLVE)
#undef RESOLVE
    if (!absent)
        return 0;
    snprintf(why, why_bytes, "libcuda.so.1 has no %s; a driver of CUDA 12.0 or newer is needed",
             absent);
    return -ENOSYS;
}

int driver_check(const struct driver *driver, CUresult result, const char *call, char *why,
                 size_t why_bytes)
{
    const char *text = NULL;

    if (result == CUDA_SUCCESS)
        return 0;
    driver->cuGetErrorString(result, &text);
    snprintf(why, why_bytes, "%s: %s (%d)", call, text ? text : "unknown error", (int)result);
    return -EIO;
}

int driver_open(struct driver *driver, struct device *device, char *why, size_t why_bytes)
{
    void *library;
    int rc = driver_load(driver, &library, why, why_bytes);

#define TRY(name, ...)                                                                             \
    if (rc == 0)                                                                                   \
    rc = driver_check(driver, driver->name(__VA_ARGS__), #name, why, why_bytes)
    TRY(cuInit, 0);
    TRY(cuDriverGetVersion, &device->driver_version);
    TRY(cuDeviceGet, &device->id, 0);
    TRY(cuDeviceGetName, device->name, sizeof(device->name), device->id);
    TRY(cuDeviceGetAttribute, &device->processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        device->id);
    TRY(cuDeviceGetAttribute, &device->threads_per_processor,
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device->id);
    TRY(cuDeviceGetAttribute, &device->blocks_per_processor,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, device->id);
    TRY(cuDevicePrimaryCtxRetain, &device->context, device->id);
    TRY(cuCtxSetCurrent, device->context);
#undef TRY
    return rc;
}
