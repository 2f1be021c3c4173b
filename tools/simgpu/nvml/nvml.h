/*
 * nvml.h - the part of NVML's ABI that nvml.c answers. No package that the build needs has the real
 * header. Names and layouts are those that NVIDIA documents.
 */
#ifndef CUTIN_TOOLS_SIMGPU_NVML_NVML_H
#define CUTIN_TOOLS_SIMGPU_NVML_NVML_H

#include <assert.h>
#include <stdint.h>

#define NVML_EXPORT __attribute__((visibility("default")))
/* Another name of a function in the same file. */
#define NVML_ALIAS(name, of) NVML_EXPORT __typeof__(of) name __attribute__((alias(#of)));

typedef enum {
    NVML_SUCCESS,
    NVML_ERROR_UNINITIALIZED,
    NVML_ERROR_INVALID_ARGUMENT,
    NVML_ERROR_NOT_SUPPORTED,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef struct nvml_device *nvmlDevice_t;

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32]; /* since _v3; before it, four words of zero */
} nvmlPciInfo_t;
static_assert(sizeof(nvmlPciInfo_t) == 68, "public ABI");

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
static_assert(sizeof(nvmlMemory_v2_t) == 40, "public ABI");

typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t; /* _v2, _v3 */
static_assert(sizeof(nvmlProcessInfo_t) == 24, "public ABI");

typedef struct {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned int valueType;
    nvmlReturn_t nvmlReturn;
    uint64_t value;
} nvmlFieldValue_t;
static_assert(sizeof(nvmlFieldValue_t) == 40, "public ABI");

#endif
