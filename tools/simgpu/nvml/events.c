/*
 * events.c - NVML's event sets. Nothing ever happens to a simulated device: a thread that waits
 * sleeps, and gets a timeout. DCGM, which Triton Inference Server starts, asks again and again if
 * it is refused a set.
 */
#include "tools/simgpu/nvml/nvml.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { XID_CRITICAL_ERROR = 8 };

typedef struct nvml_event_set {
    unsigned long long types;
} *nvmlEventSet_t;

NVML_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out)
{
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = calloc(1, sizeof(**out));
    return *out ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    free(set);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
                                                          unsigned long long *out)
{
    if (!device || !out)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = XID_CRITICAL_ERROR;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                                  nvmlEventSet_t set)
{
    if (!device || !set)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (types & ~(unsigned long long)XID_CRITICAL_ERROR)
        return NVML_ERROR_NOT_SUPPORTED;
    set->types |= types;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, void *data, unsigned int timeout)
{
    struct timespec left = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000l};
    if (!set || !data)
        return NVML_ERROR_INVALID_ARGUMENT;
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        ;
    return NVML_ERROR_TIMEOUT;
}
NVML_ALIAS(nvmlEventSetWait, nvmlEventSetWait_v2)
