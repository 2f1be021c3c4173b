/*
 * pointer.c - what can be asked about a pointer: cuPointerGetAttribute and its kin.
 */
#include "tools/simgpu/memory/ipc_memory.h"
#include "tools/simgpu/memory/memory.h"

#include <string.h>

/* The answer to one attribute, as 64 bits; the caller narrows it to the attribute's type. */
static CUresult attribute_value(const struct memory *m, CUdeviceptr ptr, CUpointer_attribute which,
                                uint64_t *v)
{
    bool host = m->kind == MEMORY_HOST || m->kind == MEMORY_REGISTERED;
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        if (!m->ctx)
            return CUDA_ERROR_INVALID_VALUE; /* a pool's or a mapping's memory is no context's */
        *v = (uint64_t)(uintptr_t)context_handle(m->ctx);
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *v = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *v = ptr;
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host && m->kind != MEMORY_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        *v = ptr;
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *v = m->sync_memops;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *v = m->id;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *v = m->kind == MEMORY_MANAGED;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *v = (uint64_t)m->ordinal;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *v = m->base;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *v = m->bytes;
        break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *v = 1;
        break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *v = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *v = m->kind == MEMORY_IPC ? (uint64_t)(uintptr_t)ipc_memory_pool(m->owner)
                                   : (uint64_t)(uintptr_t)memory_pool(m);
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *v = m->kind == MEMORY_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        *v = 0;
        break;
    default:
        return (int)which == 21 /* IS_HW_DECOMPRESS_CAPABLE, 12.8 */ ? (*v = 0, CUDA_SUCCESS)
                                                                     : CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static size_t attribute_bytes(CUpointer_attribute which)
{
    switch ((int)which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: /* the runtime reads as many */
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case 21:
        return sizeof(bool);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return sizeof(int);
    default:
        return sizeof(uint64_t);
    }
}

SIM_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute which, CUdeviceptr ptr)
{
    TRY(driver_ready());
    struct memory m;
    if (!data || !memory_find(ptr, &m))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t value = 0;
    CUresult rc = attribute_value(&m, ptr, which, &value);
    if (rc == CUDA_SUCCESS)
        memcpy(data, &value, attribute_bytes(which)); /* little endian */
    return rc;
}

/* Unlike the single form, an unknown pointer is no error: every answer is then zero, and -1 or -2
 * for the device's number (no device; cannot be told). */
SIM_EXPORT CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *which, void **data,
                                           CUdeviceptr ptr)
{
    TRY(driver_ready());
    if (n == 0 || !which || !data)
        return CUDA_ERROR_INVALID_VALUE;
    struct memory m;
    bool known = memory_find(ptr, &m);
    for (unsigned int i = 0; i < n; i++) {
        uint64_t value = 0;
        if (!data[i])
            return CUDA_ERROR_INVALID_VALUE;
        if (!known || attribute_value(&m, ptr, which[i], &value) != CUDA_SUCCESS)
            value = which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? (uint64_t)-2 : 0;
        memcpy(data[i], &value, attribute_bytes(which[i]));
    }
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute which,
                                          CUdeviceptr ptr)
{
    TRY(driver_ready());
    if (!value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    int on;
    memcpy(&on, value, sizeof(on));
    return memory_set_sync(ptr, on != 0) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
