/*
 * nvml.c - the simulated NVML: it has every name, its devices are those of the driver, and memory
 * and processes are what the driver counts.
 */
#include "tools/simgpu/nvml/nvml.h"

#include <criterion/criterion.h>
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static void *library;
static nvmlReturn_t before_start[2]; /* what calls gave */

static void *find(const char *name)
{
    void *at = dlsym(library, name);
    cr_assert_not_null(at, "%s is missing", name);
    return at;
}

#define CALL(name, ...) ((nvmlReturn_t (*)())find(#name))(__VA_ARGS__)

static void open_library(void)
{
    char id[32];
    snprintf(id, sizeof(id), "nvml%d", (int)getpid()); /* a device of its own */
    setenv("SIMGPU_ID", id, 1);
    library = dlopen(LIB_DIR "/simgpu/libnvidia-ml.so.1", RTLD_NOW);
    cr_assert_not_null(library, "%s", dlerror());
    before_start[0] = CALL(nvmlDeviceGetCount_v2, &(unsigned int){0});
    before_start[1] = CALL(nvmlShutdown);
    cr_assert_eq(CALL(nvmlInit_v2), NVML_SUCCESS);
}

TestSuite(nvml, .init = open_library);

Test(nvml, library_exports_every_name)
{
#define NVML(name) find(#name);
#include "tools/simgpu/nvml/names.def"
#undef NVML
}

Test(nvml, compute_capability_follows_simgpu_compute)
{
    setenv("SIMGPU_COMPUTE", "8.6", 1); /* read at the first call that needs it */
    int major = 0, minor = 0;
    void *device;
    cr_assert_eq(CALL(nvmlDeviceGetHandleByIndex_v2, 0, &device), NVML_SUCCESS);
    cr_assert_eq(CALL(nvmlDeviceGetCudaComputeCapability, device, &major, &minor), NVML_SUCCESS);
    cr_expect_eq(major * 10 + minor, 86);
}

Test(nvml, serial_number_is_not_supported)
{
    char serial[64];
    cr_expect_eq(CALL(nvmlDeviceGetSerial, (void *)1, serial, 64), NVML_ERROR_NOT_SUPPORTED);
}

Test(nvml, event_wait_times_out)
{
    unsigned long long types = 0, data[4];
    void *device, *set;
    cr_assert_eq(CALL(nvmlDeviceGetHandleByIndex_v2, 0, &device), NVML_SUCCESS);
    cr_assert_eq(CALL(nvmlDeviceGetSupportedEventTypes, device, &types), NVML_SUCCESS);
    cr_assert_neq(types, 0);
    cr_assert_eq(CALL(nvmlEventSetCreate, &set), NVML_SUCCESS);
    cr_expect_eq(CALL(nvmlDeviceRegisterEvents, device, types, set), NVML_SUCCESS);
    cr_expect_eq(CALL(nvmlDeviceRegisterEvents, device, ~0ull, set), NVML_ERROR_NOT_SUPPORTED);
    cr_expect_eq(CALL(nvmlEventSetWait, set, data, 0u), NVML_ERROR_TIMEOUT);
    cr_expect_eq(CALL(nvmlEventSetWait_v2, set, data, 20u), NVML_ERROR_TIMEOUT);
    cr_expect_eq(CALL(nvmlEventSetWait, NULL, data, 0u), NVML_ERROR_INVALID_ARGUMENT);
    cr_expect_eq(CALL(nvmlEventSetFree, set), NVML_SUCCESS);
}

Test(nvml, calls_fail_before_init_and_after_shutdown)
{
    unsigned int count;
    cr_expect_eq(before_start[0], NVML_ERROR_UNINITIALIZED);
    cr_expect_eq(before_start[1], NVML_ERROR_UNINITIALIZED);
    cr_expect_eq(CALL(nvmlDeviceGetCount_v2, &count), NVML_SUCCESS);
    cr_expect_eq(CALL(nvmlShutdown), NVML_SUCCESS);
    cr_expect_eq(CALL(nvmlShutdown), NVML_ERROR_UNINITIALIZED);
    cr_expect_eq(CALL(nvmlDeviceGetCount_v2, &count), NVML_ERROR_UNINITIALIZED);
}

Test(nvml, name_uuid_and_pci_id_match_cuda)
{
    nvmlDevice_t device, same = NULL;
    nvmlPciInfo_t pci;
    CUuuid uuid;
    char name[2][96], text[96], bus[32], bytes[33];
    cr_assert_eq(cuInit(0), CUDA_SUCCESS);
    cr_expect_eq(CALL(nvmlDeviceGetHandleByIndex_v2, 0, &device), NVML_SUCCESS);
    cr_expect_eq(CALL(nvmlDeviceGetHandleByIndex_v2, 1, &same), NVML_ERROR_INVALID_ARGUMENT);
    cr_expect_eq(CALL(nvmlDeviceGetName, device, name[0], 96), NVML_SUCCESS);
    cr_expect_eq(cuDeviceGetName(name[1], 96, 0), CUDA_SUCCESS);
    cr_expect_str_eq(name[0], name[1]);
    cr_expect_eq(CALL(nvmlDeviceGetUUID, device, text, 8), NVML_ERROR_INSUFFICIENT_SIZE);
    cr_expect_eq(CALL(nvmlDeviceGetUUID, device, text, 96), NVML_SUCCESS);
    cr_expect_eq(cuDeviceGetUuid_v2(&uuid, 0), CUDA_SUCCESS);
    snprintf(bytes, sizeof(bytes), "GPU-%02x%02x", uuid.bytes[0] & 0xff, uuid.bytes[1] & 0xff);
    cr_expect_eq(strncmp(text, bytes, 8), 0, "%s, not %s", text, bytes);
    cr_expect_eq(CALL(nvmlDeviceGetHandleByUUID, text, &same), NVML_SUCCESS);
    cr_expect_eq(same, device);
    cr_expect_eq(CALL(nvmlDeviceGetPciInfo_v3, device, &pci), NVML_SUCCESS);
    cr_expect_eq(cuDeviceGetPCIBusId(bus, sizeof(bus), 0), CUDA_SUCCESS);
    cr_expect_eq(strcasecmp(pci.busIdLegacy, bus), 0);
    cr_expect_eq(CALL(nvmlDeviceGetHandleByPciBusId_v2, pci.busId, &same), NVML_SUCCESS);
    cr_expect_eq(same, device);
}

Test(nvml, used_memory_and_running_process_are_reported)
{
    enum { MB = 1 << 20, TAKEN = 64 * MB };
    nvmlMemory_t before, after;
    nvmlProcessInfo_t infos[8];
    unsigned int count = 0;
    nvmlDevice_t device;
    CUcontext ctx;
    CUdeviceptr p;
    cr_assert_eq(cuInit(0), CUDA_SUCCESS);
    cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
    cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
    CALL(nvmlDeviceGetHandleByIndex_v2, 0, &device);
    cr_expect_eq(CALL(nvmlDeviceGetMemoryInfo, device, &before), NVML_SUCCESS);
    cr_assert_eq(cuMemAlloc(&p, TAKEN), CUDA_SUCCESS);
    cr_expect_eq(CALL(nvmlDeviceGetMemoryInfo, device, &after), NVML_SUCCESS);
    cr_expect_eq(after.used - before.used, TAKEN);
    cr_expect_eq(after.free + after.used, after.total);
    cr_expect_eq(CALL(nvmlDeviceGetComputeRunningProcesses_v3, device, &count, NULL),
                 NVML_ERROR_INSUFFICIENT_SIZE);
    cr_expect_eq(count, 1);
    cr_expect_eq(CALL(nvmlDeviceGetComputeRunningProcesses_v3, device, &count, infos),
                 NVML_SUCCESS);
    cr_expect_eq(infos[0].pid, (unsigned int)getpid());
    cr_expect_eq(infos[0].usedGpuMemory, after.used);
}
