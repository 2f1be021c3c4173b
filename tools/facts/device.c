/*
 * device.c - what the device says about itself, as far as the design depends on it.
 */
#include "gpu.h"

#include <dlfcn.h>
#include <link.h>

static const struct {
    const char *key;
    CUdevice_attribute attribute;
} attributes[] = {
    {"compute_capability_major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {"compute_capability_minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {"multiprocessors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {"threads_per_multiprocessor", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {"copy_engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    {"compute_mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE},
    {"compute_preemption", CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
    {"stream_priorities", CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED},
    {"unified_addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
    {"pageable_memory_access", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
    {"memory_pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
    {"host_register", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
    {"host_register_read_only", CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED},
    {"host_register_same_address", CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
    {"memops_64_bit", CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS},
    {"memops_nor", CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR},
    {"memops_flush_remote_writes", CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES},
};

/* The path from which the loader took the driver. */
static const char *library_path(void)
{
    struct link_map *map = NULL;

    return dlinfo(gpu.library, RTLD_DI_LINKMAP, &map) == 0 && map ? map->l_name : "unknown";
}

void fact_device(void)
{
    char name[128] = "";
    size_t bytes = 0;
    int least = 0, greatest = 0;

    gpu_open();
    CU(cuDeviceGetName, name, sizeof(name), gpu.device);
    CU(cuDeviceTotalMem, &bytes, gpu.device);
    CU(cuCtxGetStreamPriorityRange, &least, &greatest);
    fact_text("name", "%s", name);
    fact_text("library", "%s", library_path());
    fact_value("driver_version", json_integer(gpu.version));
    fact_value("memory_mib", json_integer((json_int_t)(bytes >> 20)));
    fact_value("priority_least", json_integer(least));
    fact_value("priority_greatest", json_integer(greatest));
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
        fact_value(attributes[i].key, json_integer(gpu_attribute(attributes[i].attribute)));
    need_memops();
    fact_flag("memops_32_bit", true);
}
