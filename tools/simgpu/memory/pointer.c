/*
 * pointer.c - what can be asked about a pointer: cuPointerGetAttribute and its kin.
 */
#include "tools/simgpu/memory/memory.h"

/* The answer for an attribute: the size of its type in bytes, and the value. */
struct answer {
    size_t bytes; /* 0: there is none */
    uint64_t value;
};

static struct answer attribute_answer(const struct memory *m, CUdeviceptr ptr, unsigned int which)
{
    enum { BOOL = sizeof(bool), INT = sizeof(int), ADDRESS = sizeof(uint64_t), DECOMPRESS = 21 };
    bool host = m->kind == MEMORY_HOST || m->kind == MEMORY_REGISTERED;
    bool managed = m->kind == MEMORY_MANAGED;
    const void *pool = m->kind == MEMORY_IPC ? (const void *)ipc_memory_pool(m->owner)
                                             : (const void *)memory_pool(m);
    const struct answer answers[] = {
        /* Memory of a pool or a mapping belongs to no context. */
        [CU_POINTER_ATTRIBUTE_CONTEXT] = {m->ctx ? ADDRESS : 0, (uintptr_t)m->ctx},
        [CU_POINTER_ATTRIBUTE_MEMORY_TYPE] = {INT,
                                              host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE},
        [CU_POINTER_ATTRIBUTE_DEVICE_POINTER] = {ADDRESS, ptr},
        [CU_POINTER_ATTRIBUTE_HOST_POINTER] = {host || managed ? ADDRESS : 0, ptr},
        [CU_POINTER_ATTRIBUTE_P2P_TOKENS] = {ADDRESS, 0},
        [CU_POINTER_ATTRIBUTE_SYNC_MEMOPS] = {INT, m->sync_memops},
        [CU_POINTER_ATTRIBUTE_BUFFER_ID] = {ADDRESS, m->id},
        [CU_POINTER_ATTRIBUTE_IS_MANAGED] = {INT, managed}, /* the runtime reads an int */
        [CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL] = {INT, (uint64_t)m->ordinal},
        [CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE] = {BOOL, m->kind == MEMORY_DEVICE},
        [CU_POINTER_ATTRIBUTE_RANGE_START_ADDR] = {ADDRESS, m->base},
        [CU_POINTER_ATTRIBUTE_RANGE_SIZE] = {ADDRESS, m->bytes},
        [CU_POINTER_ATTRIBUTE_MAPPED] = {BOOL, true},
        [CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES] = {INT, 0},
        [CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE] = {BOOL, false},
        [CU_POINTER_ATTRIBUTE_ACCESS_FLAGS] = {INT, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        [CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE] = {ADDRESS, (uintptr_t)pool},
        [CU_POINTER_ATTRIBUTE_MAPPING_SIZE] = {ADDRESS, m->bytes},
        [CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR] = {ADDRESS, m->base},
        [CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID] = {ADDRESS, m->id},
        [DECOMPRESS] = {BOOL, false}, /* IS_HW_DECOMPRESS_CAPABLE, of 12.8 */
    };
    return which < sizeof(answers) / sizeof(*answers) ? answers[which] : (struct answer){0, 0};
}

SIM_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute which, CUdeviceptr ptr)
{
    TRY(driver_ready());
    struct memory m;
    if (!data || !memory_find(ptr, &m))
        return CUDA_ERROR_INVALID_VALUE;
    struct answer a = attribute_answer(&m, ptr, which);
    memcpy(data, &a.value, a.bytes); /* little endian */
    return a.bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Unlike in the single form an unknown pointer is no error. Every answer is then zero, except the
 * ordinal of the device, which is -2: it cannot be told. */
SIM_EXPORT CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *which, void **data,
                                           CUdeviceptr ptr)
{
    TRY(driver_ready());
    if (n == 0 || !which || !data)
        return CUDA_ERROR_INVALID_VALUE;
    struct memory m = {.kind = MEMORY_MANAGED};
    bool known = memory_find(ptr, &m);
    for (unsigned int i = 0; i < n; i++) {
        struct answer a = attribute_answer(&m, ptr, which[i]);
        bool ordinal = which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        if (!data[i])
            return CUDA_ERROR_INVALID_VALUE;
        if (!known || !a.bytes)
            a.value = ordinal ? (uint64_t)-2 : 0;
        memcpy(data[i], &a.value, a.bytes ? a.bytes : sizeof(uint64_t));
    }
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute which,
                                          CUdeviceptr ptr)
{
    TRY(driver_ready());
    struct memory m;
    if (!value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !memory_find(ptr, &m))
        return CUDA_ERROR_INVALID_VALUE;
    m.sync_memops = *(const int *)value != 0;
    return memory_change(&m) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
