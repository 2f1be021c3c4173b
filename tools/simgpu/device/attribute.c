/*
 * attribute.c - what a simulated device says about itself. It is a small data-centre GPU of the
 * Ampere generation, with the SM count and the memory that the configuration asks for.
 */
#include "tools/simgpu/device/attribute.h"
#include "tools/simgpu/face/simconfig.h"

#include <stdio.h>

struct row {
    int attribute;
    int value;
};

/* Numbers of attributes that came after CUDA 12.0, so that the table compiles with any header. */
enum {
    IPC_EVENT_SUPPORTED = 125,
    NUMA_ID = 131, /* -1: its memory belongs to no NUMA node of the host */
    GPU_PCI_DEVICE_ID = 139,
    GPU_PCI_SUBSYSTEM_ID = 140,
    HOST_NUMA_MEMORY_POOLS_SUPPORTED = 142,
    HOST_MEMORY_POOLS_SUPPORTED = 144,
    ATTRIBUTE_LAST = 147, /* of CUDA 13.0 */
    ATTRIBUTE_LAST_13_5 = 161,
};

#define A(name) CU_DEVICE_ATTRIBUTE_##name
/* An attribute without a row is 0: the simulated device does not have it. */
static const struct row rows[] = {
    {A(MAX_THREADS_PER_BLOCK), 1024},
    {A(MAX_BLOCK_DIM_X), 1024},
    {A(MAX_BLOCK_DIM_Y), 1024},
    {A(MAX_BLOCK_DIM_Z), 64},
    {A(MAX_GRID_DIM_X), 2147483647},
    {A(MAX_GRID_DIM_Y), 65535},
    {A(MAX_GRID_DIM_Z), 65535},
    {A(MAX_SHARED_MEMORY_PER_BLOCK), 49152},
    {A(TOTAL_CONSTANT_MEMORY), 65536},
    {A(WARP_SIZE), 32},
    {A(MAX_PITCH), 2147483647},
    {A(MAX_REGISTERS_PER_BLOCK), 65536},
    {A(CLOCK_RATE), 1410000},
    {A(TEXTURE_ALIGNMENT), 512},
    {A(GPU_OVERLAP), 1},
    {A(CAN_MAP_HOST_MEMORY), 1},
    {A(COMPUTE_MODE), CU_COMPUTEMODE_DEFAULT},
    {A(MAXIMUM_TEXTURE1D_WIDTH), 131072},
    {A(MAXIMUM_TEXTURE2D_WIDTH), 131072},
    {A(MAXIMUM_TEXTURE2D_HEIGHT), 65536},
    {A(MAXIMUM_TEXTURE3D_WIDTH), 16384},
    {A(MAXIMUM_TEXTURE3D_HEIGHT), 16384},
    {A(MAXIMUM_TEXTURE3D_DEPTH), 16384},
    {A(MAXIMUM_TEXTURE2D_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT), 32768},
    {A(MAXIMUM_TEXTURE2D_LAYERED_LAYERS), 2048},
    {A(SURFACE_ALIGNMENT), 512},
    {A(CONCURRENT_KERNELS), 1},
    {A(MEMORY_CLOCK_RATE), 1215000},
    {A(GLOBAL_MEMORY_BUS_WIDTH), 5120},
    {A(L2_CACHE_SIZE), 41943040},
    {A(ASYNC_ENGINE_COUNT), 3},
    {A(UNIFIED_ADDRESSING), 1},
    {A(MAXIMUM_TEXTURE1D_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_TEXTURE1D_LAYERED_LAYERS), 2048},
    {A(CAN_TEX2D_GATHER), 1},
    {A(MAXIMUM_TEXTURE2D_GATHER_WIDTH), 32768},
    {A(MAXIMUM_TEXTURE2D_GATHER_HEIGHT), 32768},
    {A(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE), 8192},
    {A(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE), 8192},
    {A(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE), 32768},
    {A(TEXTURE_PITCH_ALIGNMENT), 32},
    {A(MAXIMUM_TEXTURECUBEMAP_WIDTH), 32768},
    {A(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS), 2046},
    {A(MAXIMUM_SURFACE1D_WIDTH), 32768},
    {A(MAXIMUM_SURFACE2D_WIDTH), 131072},
    {A(MAXIMUM_SURFACE2D_HEIGHT), 65536},
    {A(MAXIMUM_SURFACE3D_WIDTH), 16384},
    {A(MAXIMUM_SURFACE3D_HEIGHT), 16384},
    {A(MAXIMUM_SURFACE3D_DEPTH), 16384},
    {A(MAXIMUM_SURFACE1D_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_SURFACE1D_LAYERED_LAYERS), 2048},
    {A(MAXIMUM_SURFACE2D_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_SURFACE2D_LAYERED_HEIGHT), 32768},
    {A(MAXIMUM_SURFACE2D_LAYERED_LAYERS), 2048},
    {A(MAXIMUM_SURFACECUBEMAP_WIDTH), 32768},
    {A(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS), 2046},
    {A(MAXIMUM_TEXTURE1D_LINEAR_WIDTH), 268435456},
    {A(MAXIMUM_TEXTURE2D_LINEAR_WIDTH), 131072},
    {A(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT), 65000},
    {A(MAXIMUM_TEXTURE2D_LINEAR_PITCH), 2097120},
    {A(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH), 32768},
    {A(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT), 32768},
    {A(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH), 32768},
    {A(STREAM_PRIORITIES_SUPPORTED), 1},
    {A(GLOBAL_L1_CACHE_SUPPORTED), 1},
    {A(LOCAL_L1_CACHE_SUPPORTED), 1},
    {A(MAX_REGISTERS_PER_MULTIPROCESSOR), 65536},
    {A(MANAGED_MEMORY), 1},
    {A(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO), 2},
    {A(CONCURRENT_MANAGED_ACCESS), 1},
    {A(COMPUTE_PREEMPTION_SUPPORTED), 1},
    {A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM), 1},
    {A(COOPERATIVE_LAUNCH), 1},
    {A(COOPERATIVE_MULTI_DEVICE_LAUNCH), 0},
    {A(CAN_FLUSH_REMOTE_WRITES), 1},
    {A(HOST_REGISTER_SUPPORTED), 1},
    {IPC_EVENT_SUPPORTED, 1},
    {A(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1},
    {A(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED), 1},
    {A(MAX_PERSISTING_L2_CACHE_SIZE), 26214400},
    {A(MAX_ACCESS_POLICY_WINDOW_SIZE), 134213632},
    {A(RESERVED_SHARED_MEMORY_PER_BLOCK), 1024},
    {A(READ_ONLY_HOST_REGISTER_SUPPORTED), 1},
    {A(MEMORY_POOLS_SUPPORTED), 1},
    {A(MEMPOOL_SUPPORTED_HANDLE_TYPES), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
    {A(GPU_DIRECT_RDMA_WRITES_ORDERING), CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE},
    {A(CAN_USE_64_BIT_STREAM_MEM_OPS), 1},
    {A(CAN_USE_STREAM_WAIT_VALUE_NOR), 1},
    {A(MEM_SYNC_DOMAIN_COUNT), 1},
    {A(UNIFIED_FUNCTION_POINTERS), 1},
    {NUMA_ID, -1},
    {GPU_PCI_DEVICE_ID, 0x20b010de},
    {GPU_PCI_SUBSYSTEM_ID, 0x134f10de},
    {HOST_NUMA_MEMORY_POOLS_SUPPORTED, 1},
    {HOST_MEMORY_POOLS_SUPPORTED, 1},
};

static bool row_find(const struct row *from, size_t n, int attribute, int *value)
{
    for (size_t i = 0; i < n; i++)
        if (from[i].attribute == attribute) {
            *value = from[i].value;
            return true;
        }
    return false;
}

int attribute_get(int attribute, int ordinal, int *value)
{
    const struct sim_compute *compute = simconfig_compute();
    const struct row decided[] = {
        /* these depend on the configuration or on the ordinal */
        {A(COMPUTE_CAPABILITY_MAJOR), (int)compute->arch / 10},
        {A(COMPUTE_CAPABILITY_MINOR), (int)compute->arch % 10},
        {A(MAX_THREADS_PER_MULTIPROCESSOR), (int)compute->sm_threads},
        {A(MAX_BLOCKS_PER_MULTIPROCESSOR), (int)compute->sm_blocks},
        {A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR), (int)compute->sm_smem},
        {A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), (int)compute->block_smem},
        {A(MULTIPROCESSOR_COUNT), config_get()->sms},
        {A(PCI_BUS_ID), ordinal + 1},
        {A(MULTI_GPU_BOARD_GROUP_ID), ordinal},
    };
    bool newer = config_get()->driver_version >= 13050;
    if (attribute <= 0 || attribute > (newer ? ATTRIBUTE_LAST_13_5 : ATTRIBUTE_LAST))
        return -1;
    *value = 0;
    if (!row_find(decided, sizeof(decided) / sizeof(*decided), attribute, value))
        row_find(rows, sizeof(rows) / sizeof(*rows), attribute, value);
    return 0;
}

int attribute_or_zero(int ordinal, int attribute)
{
    int value = 0;
    attribute_get(attribute, ordinal, &value);
    return value;
}

/* FNV-1a, twice. */
void attribute_uuid(int ordinal, uint8_t uuid[16])
{
    char text[512];
    int n = snprintf(text, sizeof(text), "%s/%d", config_get()->id, ordinal);
    uint64_t hash[2] = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};
    for (int i = 0; i < n && i < (int)sizeof(text) - 1; i++)
        for (int k = 0; k < 2; k++)
            hash[k] = (hash[k] ^ (uint8_t)(text[i] + k)) * 0x100000001b3u;
    memcpy(uuid, hash, sizeof(hash));
}
