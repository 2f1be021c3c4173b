/*
 * managed.c - hints about managed memory. Host and device share every page here, so a hint moves
 * nothing; what is left is its place in its stream's order, and the argument checks.
 */
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/face/variants.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/submit.h"

#include <string.h>

static bool managed_range(CUdeviceptr ptr, size_t bytes)
{
    struct memory m;
    return bytes != 0 && memory_find(ptr, &m) && m.kind == MEMORY_MANAGED &&
           ptr - m.base + bytes <= m.bytes;
}

/* A work of no effect, for its place in the order. */
static CUresult hint_submit(const char *name, CUstream s, bool ptds)
{
    struct work w = {.kind = WORK_MARK, .node_type = CU_GRAPH_NODE_TYPE_EMPTY};
    w.name = name;
    return work_submit(s, ptds, &w);
}

static bool device_valid(int ordinal)
{
    return ordinal >= 0 && ordinal < config_get()->devices;
}

static CUresult ranges_hint(const char *name, const CUdeviceptr *ptrs, const size_t *sizes,
                            size_t n, CUstream s, bool ptds)
{
    struct sim_context *ctx;
    TRY(context_enter(&ctx));
    if (!ptrs || !sizes || n == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        if (!managed_range(ptrs[i], sizes[i]))
            return CUDA_ERROR_INVALID_VALUE;
    return hint_submit(name, s, ptds);
}

static CUresult prefetch(CUdeviceptr ptr, size_t bytes, CUdevice dev, CUstream s, bool ptds)
{
    if (dev != CU_DEVICE_CPU && !device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    return ranges_hint("prefetch", &ptr, &bytes, 1, s, ptds);
}

STREAM_API(cuMemPrefetchAsync, (CUdeviceptr ptr, size_t bytes, CUdevice dev, CUstream s),
           prefetch(ptr, bytes, dev, s, ptds))

SIM_EXPORT CUresult cuMemAdvise(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUdevice dev)
{
    struct sim_context *ctx;
    TRY(context_enter(&ctx));
    if ((int)advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY ||
        !managed_range(ptr, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return dev == CU_DEVICE_CPU || device_valid(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

#if CUDA_VERSION >= 12020
static CUresult place_device(CUmemLocation where, CUdevice *dev)
{
    switch ((int)where.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        *dev = where.id;
        return device_valid(where.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        *dev = CU_DEVICE_CPU;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult prefetch_to(CUdeviceptr ptr, size_t bytes, CUmemLocation where, unsigned int flags,
                            CUstream s, bool ptds)
{
    CUdevice dev = 0;
    TRY(flags == 0 ? place_device(where, &dev) : CUDA_ERROR_INVALID_VALUE);
    return prefetch(ptr, bytes, dev, s, ptds);
}

STREAM_API(cuMemPrefetchAsync_v2,
           (CUdeviceptr ptr, size_t bytes, CUmemLocation where, unsigned int flags, CUstream s),
           prefetch_to(ptr, bytes, where, flags, s, ptds))

SIM_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr ptr, size_t bytes, CUmem_advise advice,
                                   CUmemLocation where)
{
    CUdevice dev = 0;
    TRY(place_device(where, &dev));
    return cuMemAdvise(ptr, bytes, advice, dev);
}
#endif

#if CUDA_VERSION >= 13000
static CUresult batch_places(const CUmemLocation *places, const size_t *first, size_t n,
                             size_t count)
{
    if (!places || !first || n == 0 || n > count || first[0] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        CUdevice dev = 0;
        if (first[i] >= count || (i > 0 && first[i] <= first[i - 1]))
            return CUDA_ERROR_INVALID_VALUE;
        TRY(place_device(places[i], &dev));
        if (dev != CU_DEVICE_CPU && !device_valid(dev))
            return CUDA_ERROR_INVALID_DEVICE;
    }
    return CUDA_SUCCESS;
}

/* No batch goes into the legacy stream. */
static CUresult batch_hint(const char *name, const CUdeviceptr *ptrs, const size_t *sizes,
                           size_t count, unsigned long long flags, CUstream handle, bool ptds)
{
    struct sim_context *ctx;
    struct sim_stream *s;
    TRY(stream_enter(handle, ptds, &ctx, &s));
    if (flags != 0 || stream_is_legacy(s))
        return CUDA_ERROR_INVALID_VALUE;
    return ranges_hint(name, ptrs, sizes, count, handle, ptds);
}

static CUresult batch_to(const char *name, const CUdeviceptr *ptrs, const size_t *sizes,
                         size_t count, const CUmemLocation *places, const size_t *first, size_t n,
                         unsigned long long flags, CUstream s, bool ptds)
{
    TRY(batch_places(places, first, n, count));
    return batch_hint(name, ptrs, sizes, count, flags, s, ptds);
}

STREAM_API(cuMemPrefetchBatchAsync,
           (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *places, size_t *first,
            size_t n, unsigned long long flags, CUstream s),
           batch_to("prefetch", ptrs, sizes, count, places, first, n, flags, s, ptds))
STREAM_API(cuMemDiscardBatchAsync,
           (CUdeviceptr * ptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream s),
           batch_hint("discard", ptrs, sizes, count, flags, s, ptds))
STREAM_API(cuMemDiscardAndPrefetchBatchAsync,
           (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *places, size_t *first,
            size_t n, unsigned long long flags, CUstream s),
           batch_to("discard", ptrs, sizes, count, places, first, n, flags, s, ptds))
#endif

static CUresult attach(CUdeviceptr ptr, size_t bytes, unsigned int flags, CUstream s, bool ptds)
{
    struct memory m;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
        flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!memory_find_base(ptr, &m) || m.kind != MEMORY_MANAGED || (bytes != 0 && bytes != m.bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return hint_submit("attach", s, ptds);
}

STREAM_API(cuStreamAttachMemAsync, (CUstream s, CUdeviceptr ptr, size_t bytes, unsigned int flags),
           attach(ptr, bytes, flags, s, ptds))

/* Nothing was ever advised, as far as can be told. */
SIM_EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute which,
                                           CUdeviceptr ptr, size_t bytes)
{
    struct sim_context *ctx;
    TRY(context_enter(&ctx));
    if (!data || size < sizeof(int) || size % sizeof(int) != 0 ||
        (int)which < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY || !managed_range(ptr, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    int *values = data;
    for (size_t i = 0; i < size / sizeof(int); i++)
        values[i] = which == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ? 0 : CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemRangeGetAttributes(void **data, size_t *sizes,
                                            CUmem_range_attribute *which, size_t n, CUdeviceptr ptr,
                                            size_t bytes)
{
    if (!data || !sizes || !which || n == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = CUDA_SUCCESS;
    for (size_t i = 0; i < n && rc == CUDA_SUCCESS; i++)
        rc = cuMemRangeGetAttribute(data[i], sizes[i], which[i], ptr, bytes);
    return rc;
}
