/*
 * pool.c - pools by handle and a device's pools: made, destroyed, their attributes, and whom they
 * let in.
 */
#include "tools/simgpu/memory/block.h"
#include "tools/simgpu/memory/peer.h"
#include "tools/simgpu/memory/space.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct sim_pool *defaults[POOL_DEVICES], *currents[POOL_DEVICES]; /* under pool_lock */

static struct sim_pool *pool_default(int ordinal)
{
    if (!defaults[ordinal])
        defaults[ordinal] = pool_new(ordinal, true);
    return defaults[ordinal];
}

struct sim_pool *pool_current(int ordinal)
{
    if (!currents[ordinal])
        currents[ordinal] = pool_default(ordinal);
    return currents[ordinal];
}

CUmemoryPool pool_handle(void *owner)
{
    return (CUmemoryPool)owner;
}

/* ---- pools by handle ------------------------------------------------------------------------- */

SIM_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    TRY(driver_ready());
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (props->handleTypes & ~(unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult rc = device_check(props->location.id);
    if (rc != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p = pool_new(props->location.id, false);
    if (p)
        p->shared = props->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
    pthread_mutex_unlock(&pool_lock);
    *out = (CUmemoryPool)(void *)p;
    return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The device falls back to its default pool; live blocks stay until they are freed. */
SIM_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    TRY(driver_ready());
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p = pool_find(handle);
    bool ours = p && !p->fixed;
    if (ours) {
        p->destroyed = true;
        if (currents[p->ordinal] == p)
            currents[p->ordinal] = NULL;
        pool_trim(p, 0);
    }
    pthread_mutex_unlock(&pool_lock);
    return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    TRY(driver_ready());
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p = pool_find(handle);
    if (p)
        pool_trim(p, keep);
    pthread_mutex_unlock(&pool_lock);
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Under lock. Integers for the reuse rules, 64 bits for amounts. */
static CUresult attribute_read(const struct sim_pool *p, CUmemPool_attribute attribute, void *value)
{
    const uint64_t *const amounts[] = {
        [CU_MEMPOOL_ATTR_RELEASE_THRESHOLD] = &p->threshold,
        [CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT] = &p->reserved,
        [CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH] = &p->reserved_high,
        [CU_MEMPOOL_ATTR_USED_MEM_CURRENT] = &p->used,
        [CU_MEMPOOL_ATTR_USED_MEM_HIGH] = &p->used_high,
    };
    if (attribute < 1 || attribute >= sizeof(amounts) / sizeof(*amounts))
        return CUDA_ERROR_INVALID_VALUE;
    if (amounts[attribute])
        memcpy(value, amounts[attribute], sizeof(uint64_t));
    else
        memcpy(value, &p->reuse[attribute], sizeof(int));
    return CUDA_SUCCESS;
}

static CUresult attribute_write(struct sim_pool *p, CUmemPool_attribute attribute,
                                const void *value)
{
    uint64_t amount = 0;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        memcpy(&p->reuse[attribute], value, sizeof(int));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(&p->threshold, value, sizeof(uint64_t));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        memcpy(&amount, value, sizeof(amount));
        if (amount != 0)
            return CUDA_ERROR_INVALID_VALUE; /* a high-water mark can only be reset */
        if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
            p->used_high = p->used;
        else
            p->reserved_high = p->reserved;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                          void *value)
{
    TRY(driver_ready());
    pthread_mutex_lock(&pool_lock);
    const struct sim_pool *p = pool_find(handle);
    CUresult rc = p && value ? attribute_read(p, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&pool_lock);
    return rc;
}

SIM_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                          void *value)
{
    TRY(driver_ready());
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p = pool_find(handle);
    CUresult rc = p && value ? attribute_write(p, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&pool_lock);
    return rc;
}

bool pool_reaches(void *owner, int ordinal)
{
    const struct sim_pool *p = owner;
    return ordinal == p->ordinal || atomic_load(&p->peers[ordinal]);
}

static CUresult access_check(CUmemoryPool handle, const CUmemLocation *location, int *ordinal)
{
    TRY(driver_ready());
    pthread_mutex_lock(&pool_lock);
    const struct sim_pool *p = pool_find(handle);
    *ordinal = p ? p->ordinal : -1;
    pthread_mutex_unlock(&pool_lock);
    if (!p || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return device_check(location->id);
}

static void access_store(CUmemoryPool handle, const CUmemAccessDesc *map, size_t n)
{
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p = pool_find(handle);
    for (size_t i = 0; i < n && p; i++)
        p->peers[map[i].location.id] = map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    pthread_mutex_unlock(&pool_lock);
}

SIM_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t n)
{
    if (!map && n != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        int ordinal;
        TRY(access_check(handle, &map[i].location, &ordinal));
        if (map[i].location.id != ordinal && !devices_are_peers(map[i].location.id, ordinal))
            return CUDA_ERROR_INVALID_DEVICE;
        if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
            (map[i].location.id == ordinal || map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE))
            return CUDA_ERROR_NOT_SUPPORTED; /* the owner always has all, a peer all or none */
    }
    access_store(handle, map, n);
    return CUDA_SUCCESS;
}

static bool pool_allows(CUmemoryPool handle, int ordinal)
{
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p = pool_find(handle);
    bool allows = p && pool_reaches(p, ordinal);
    pthread_mutex_unlock(&pool_lock);
    return allows;
}

SIM_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *out, CUmemoryPool handle,
                                       CUmemLocation *location)
{
    if (!out || !location)
        return CUDA_ERROR_INVALID_VALUE;
    int ordinal;
    TRY(access_check(handle, location, &ordinal));
    *out = pool_allows(handle, location->id) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                             : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

/* ---- between processes: a file that says whose memory the pool has ------------------------- */

struct shared_pool {
    char name[8];
    struct ipc_file whose;
    int32_t ordinal;
};
static const char SHARED_NAME[8] = "simpool";

bool pool_shared(void *owner)
{
    return ((const struct sim_pool *)owner)->shared;
}

bool pool_imports(CUmemoryPool handle, uint64_t file_number)
{
    pthread_mutex_lock(&pool_lock);
    const struct sim_pool *p = pool_find(handle);
    bool imports = p && file_number != 0 && p->whose.number == file_number;
    pthread_mutex_unlock(&pool_lock);
    return imports;
}

static CUresult shared_write(const struct shared_pool *content, int *out)
{
    int fd = memfd_create("simgpu-pool", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, content, sizeof(*content)) != (ssize_t)sizeof(*content)) {
        close(fd);
        fd = -1;
    }
    *out = fd;
    return fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

SIM_EXPORT CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool handle,
                                                     CUmemAllocationHandleType type,
                                                     unsigned long long flags)
{
    TRY(driver_ready());
    pthread_mutex_lock(&pool_lock);
    const struct sim_pool *p = pool_find(handle);
    bool allowed = p && p->shared;
    struct shared_pool content = {.ordinal = p ? p->ordinal : 0};
    pthread_mutex_unlock(&pool_lock);
    if (!out || flags != 0 || !allowed || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(content.name, SHARED_NAME, sizeof(content.name));
    uint64_t offset;
    uintptr_t any = space_take(SPACE_GRAIN, SPACE_GRAIN); /* the file is made for the first one */
    bool there = any != 0 && space_file(any, &content.whose, &offset);
    if (any != 0)
        space_give(any, SPACE_GRAIN);
    return there ? shared_write(&content, out) : CUDA_ERROR_NOT_SUPPORTED;
}

/* The file stays the caller's. */
SIM_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *shared,
                                                       CUmemAllocationHandleType type,
                                                       unsigned long long flags)
{
    struct shared_pool content;
    TRY(driver_ready());
    if (!out || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        pread((int)(intptr_t)shared, &content, sizeof(content), 0) != (ssize_t)sizeof(content) ||
        memcmp(content.name, SHARED_NAME, sizeof(content.name)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(device_check(content.ordinal));
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p = pool_new(content.ordinal, false);
    if (p)
        p->whose = content.whose;
    pthread_mutex_unlock(&pool_lock);
    *out = pool_handle(p);
    return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- a device's pools ------------------------------------------------------------------------ */

static CUresult pool_of_device(CUmemoryPool *out, CUdevice dev, struct sim_pool *(*which)(int))
{
    TRY(device_check(dev));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&pool_lock);
    *out = (CUmemoryPool)(void *)which(dev);
    pthread_mutex_unlock(&pool_lock);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice dev)
{
    return pool_of_device(out, dev, pool_default);
}

SIM_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice dev)
{
    return pool_of_device(out, dev, pool_current);
}

SIM_EXPORT CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle)
{
    TRY(device_check(dev));
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p = pool_find(handle);
    bool fits = p && p->ordinal == dev && p->whose.number == 0;
    if (fits)
        currents[dev] = p;
    pthread_mutex_unlock(&pool_lock);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#if CUDA_VERSION >= 13000
/* The 13.0 calls name a place instead of a device; only pinned memory of a device has pools
 * here. */
static CUresult place_check(const CUmemLocation *where, CUmemAllocationType type)
{
    if (!where)
        return CUDA_ERROR_INVALID_VALUE;
    return where->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *where,
                                           CUmemAllocationType type)
{
    TRY(place_check(where, type));
    return cuDeviceGetDefaultMemPool(out, where->id);
}

SIM_EXPORT CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *where,
                                    CUmemAllocationType type)
{
    TRY(place_check(where, type));
    return cuDeviceGetMemPool(out, where->id);
}

SIM_EXPORT CUresult cuMemSetMemPool(CUmemLocation *where, CUmemAllocationType type,
                                    CUmemoryPool pool)
{
    TRY(place_check(where, type));
    return cuDeviceSetMemPool(where->id, pool);
}
#endif
