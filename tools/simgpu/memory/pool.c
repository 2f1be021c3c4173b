/*
 * pool.c - pools by handle, and those of a place (a device, the host, a node of it, or none): how
 * they are made and destroyed, their attributes, and which devices they give access to.
 */
#include "tools/simgpu/memory/block.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/memory/space.h"
#include "tools/simgpu/face/simconfig.h"

#include <sys/mman.h>
#include <unistd.h>

/* First index: managed or not; second: the place. Under pool_lock. */
static struct sim_pool *defaults[2][PLACES], *currents[2][PLACES];

static enum memory_kind kind_of(bool managed, int place)
{
    return managed ? MEMORY_MANAGED : place < POOL_DEVICES ? MEMORY_POOL : MEMORY_HOST;
}

static struct sim_pool *pool_default(bool managed, int place)
{
    struct sim_pool **p = &defaults[managed][place];
    if (!*p)
        *p = pool_new(place, kind_of(managed, place), true);
    return *p;
}

struct sim_pool *pool_current(bool managed, int place)
{
    struct sim_pool **p = &currents[managed][place];
    if (!*p)
        *p = pool_default(managed, place);
    return *p;
}

/* Values of 12.2 and 13.0, so that older headers compile. */
enum {
    LOCATION_NONE = 0,
    LOCATION_HOST = 2,
    LOCATION_HOST_NUMA = 3,
    TYPE_MANAGED = 2,
    LOCATION_ID = 11, /* an attribute of 13.5, ... */
    ATTRIBUTES = 16,  /* ... which has so many in all */
};

/* "In all other cases, the call returns ::CUDA_ERROR_INVALID_VALUE" (cuda.h). Only managed memory
 * can be without a place. The host is one node. */
static CUresult place_of(const CUmemLocation *where, CUmemAllocationType type, bool *managed,
                         int *place)
{
    *managed = (int)type == TYPE_MANAGED;
    if (!where || (!*managed && type != CU_MEM_ALLOCATION_TYPE_PINNED))
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)where->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        *place = where->id;
        return device_check(where->id);
    case LOCATION_HOST:
        *place = PLACE_HOST;
        return CUDA_SUCCESS;
    case LOCATION_HOST_NUMA:
        *place = PLACE_HOST_NUMA;
        return where->id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case LOCATION_NONE:
        *place = PLACE_NONE;
        return *managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- pools by handle ------------------------------------------------------------------------- */

/* "Pools created with the type ::CU_MEM_LOCATION_TYPE_HOST are not IPC capable and
 * ::CUmemPoolProps::handleTypes must be 0" (cuda.h). About managed pools and those of a node it
 * says nothing. */
static CUresult handle_types_check(const CUmemPoolProps *props, enum memory_kind kind)
{
    const unsigned int fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (props->handleTypes == CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_SUCCESS;
    if (kind == MEMORY_HOST && (int)props->location.type == LOCATION_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return kind == MEMORY_POOL && (props->handleTypes & ~fd) == 0 ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    bool managed;
    int place;
    TRY(driver_ready());
    if (!out || !props ||
        place_of(&props->location, props->allocType, &managed, &place) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(handle_types_check(props, kind_of(managed, place)));
    SCOPED_LOCK(&pool_lock);
    struct sim_pool *p = pool_new(place, kind_of(managed, place), false);
    *out = (CUmemoryPool)(void *)p;
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->shared = props->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
#if CUDA_VERSION >= 13000
    p->most = props->maxSize;
#endif
    return CUDA_SUCCESS;
}

/* The place uses its default pool again. Live blocks stay until they are freed. */
SIM_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    TRY(driver_ready());
    SCOPED_LOCK(&pool_lock);
    struct sim_pool *p = pool_find(handle);
    if (!p || p->fixed)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_pool **current = &currents[p->kind == MEMORY_MANAGED][p->place];
    p->destroyed = true;
    if (*current == p)
        *current = NULL;
    pool_trim(p, 0);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    TRY(driver_ready());
    SCOPED_LOCK(&pool_lock);
    struct sim_pool *p = pool_find(handle);
    if (p)
        pool_trim(p, keep);
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The properties that the pool was made with. */
static int property(const struct sim_pool *p, int attribute)
{
    static const int location_types[] = {LOCATION_HOST, LOCATION_HOST_NUMA, LOCATION_NONE};
    bool device = p->place < POOL_DEVICES;
    const int values[] = {
        p->kind == MEMORY_MANAGED ? TYPE_MANAGED : CU_MEM_ALLOCATION_TYPE_PINNED,
        p->shared ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE,
        device ? p->place : 0,
        device ? CU_MEM_LOCATION_TYPE_DEVICE : location_types[p->place - PLACE_HOST],
        0,  /* its greatest size, which is among the amounts */
        0,  /* no hardware that decompresses */
        -1, /* no locality domain */
    };
    return values[attribute - LOCATION_ID + 2];
}

/* The reuse rules are int, the amounts 64 bits. */
SIM_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                          void *value)
{
    TRY(driver_ready());
    SCOPED_LOCK(&pool_lock);
    const struct sim_pool *p = pool_find(handle);
    if (!p || !value)
        return CUDA_ERROR_INVALID_VALUE;
    const uint64_t *const amounts[ATTRIBUTES] = {
        [CU_MEMPOOL_ATTR_RELEASE_THRESHOLD] = &p->threshold,
        [CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT] = &p->reserved,
        [CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH] = &p->reserved_high,
        [CU_MEMPOOL_ATTR_USED_MEM_CURRENT] = &p->used,
        [CU_MEMPOOL_ATTR_USED_MEM_HIGH] = &p->used_high,
        [LOCATION_ID + 2] = &p->most,
    };
    size_t known = config_get()->driver_version >= 13050 ? ATTRIBUTES : LOCATION_ID - 2;
    if (attribute < 1 || attribute >= known)
        return CUDA_ERROR_INVALID_VALUE;
    if (amounts[attribute])
        memcpy(value, amounts[attribute], sizeof(uint64_t));
    else if (attribute < sizeof(p->reuse) / sizeof(*p->reuse))
        memcpy(value, &p->reuse[attribute], sizeof(int));
    else
        memcpy(value, &(int){property(p, (int)attribute)}, sizeof(int));
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                          void *value)
{
    TRY(driver_ready());
    SCOPED_LOCK(&pool_lock);
    struct sim_pool *p = pool_find(handle);
    uint64_t amount = 0;
    if (!p || !value)
        return CUDA_ERROR_INVALID_VALUE;
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

bool pool_reachable(const struct sim_pool *p, int ordinal)
{
    return p->kind == MEMORY_MANAGED || ordinal == p->place || atomic_load(&p->peers[ordinal]);
}

/* A peer is given all access or none. The owner always has all. */
static CUresult access_check(const struct sim_pool *p, const CUmemAccessDesc *to)
{
    int id = to->location.id;
    if (to->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(device_check(id));
    if (p->place < POOL_DEVICES && id != p->place && !devices_are_peers(id, p->place))
        return CUDA_ERROR_INVALID_DEVICE;
    return to->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
                   (id != p->place && to->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t n)
{
    TRY(driver_ready());
    SCOPED_LOCK(&pool_lock);
    struct sim_pool *p = pool_find(handle);
    if (!p || (!map && n != 0))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        TRY(access_check(p, &map[i]));
    for (size_t i = 0; i < n; i++)
        p->peers[map[i].location.id] = map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *out, CUmemoryPool handle,
                                       CUmemLocation *location)
{
    TRY(driver_ready());
    bool host = location && (int)location->type == LOCATION_HOST;
    if (!out || !location || (!host && location->type != CU_MEM_LOCATION_TYPE_DEVICE))
        return CUDA_ERROR_INVALID_VALUE;
    if (!host)
        TRY(device_check(location->id));
    SCOPED_LOCK(&pool_lock);
    const struct sim_pool *p = pool_find(handle);
    /* "In the case of pools created with ::CU_MEM_LOCATION_TYPE_HOST_NUMA or
     * ::CU_MEM_LOCATION_TYPE_HOST, their default accessibility will be from the host CPU"
     * (cuda.h). */
    bool reaches = p && (host ? p->kind != MEMORY_POOL : pool_reachable(p, location->id));
    *out = reaches ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- between processes: a file that says which memory is the pool's -------------------------- */

struct shared_pool {
    char name[8];
    struct ipc_file whose;
    int32_t ordinal;
};
static const char SHARED_NAME[8] = "simpool";

bool pool_shared(const struct sim_pool *p)
{
    return p->shared;
}

bool pool_imports(CUmemoryPool handle, uint64_t file_number)
{
    SCOPED_LOCK(&pool_lock);
    const struct sim_pool *p = pool_find(handle);
    return p && file_number != 0 && p->whose.number == file_number;
}

SIM_EXPORT CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool handle,
                                                     CUmemAllocationHandleType type,
                                                     unsigned long long flags)
{
    TRY(driver_ready());
    SCOPED_LOCK(&pool_lock);
    const struct sim_pool *p = pool_find(handle);
    if (!out || flags != 0 || !p || !p->shared || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    struct shared_pool content = {.ordinal = p->place};
    memcpy(content.name, SHARED_NAME, sizeof(content.name));
    uint64_t offset;
    uintptr_t any = space_take(SPACE_GRAIN, SPACE_GRAIN); /* the first extent makes the file */
    bool there = any != 0 && space_file(any, &content.whose, &offset);
    if (any != 0)
        space_give(any, SPACE_GRAIN);
    if (!there)
        return CUDA_ERROR_NOT_SUPPORTED;
    int fd = memfd_create("simgpu-pool", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, &content, sizeof(content)) != (ssize_t)sizeof(content)) {
        close(fd);
        fd = -1;
    }
    *(int *)out = fd;
    return fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

/* The caller keeps its file. */
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
    SCOPED_LOCK(&pool_lock);
    struct sim_pool *p = pool_new(content.ordinal, MEMORY_POOL, false);
    if (p)
        p->whose = content.whose;
    *out = (CUmemoryPool)(void *)p;
    return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- a place's pools ------------------------------------------------------------------------- */

typedef struct sim_pool *(*pool_choice)(bool managed, int place);

static CUresult pool_tell(CUmemoryPool *out, const CUmemLocation *where, CUmemAllocationType type,
                          pool_choice which)
{
    bool managed;
    int place;
    TRY(driver_ready());
    TRY(place_of(where, type, &managed, &place));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&pool_lock);
    *out = (CUmemoryPool)(void *)which(managed, place);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult pool_set(const CUmemLocation *where, CUmemAllocationType type, CUmemoryPool handle)
{
    bool managed;
    int place;
    TRY(driver_ready());
    TRY(place_of(where, type, &managed, &place));
    SCOPED_LOCK(&pool_lock);
    struct sim_pool *p = pool_find(handle);
    bool fits =
        p && p->place == place && (p->kind == MEMORY_MANAGED) == managed && p->whose.number == 0;
    if (fits)
        currents[managed][place] = p;
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#define OF_DEVICE(dev)                                                                             \
    &(CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (dev)},                            \
        CU_MEM_ALLOCATION_TYPE_PINNED

SIM_CALL(cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice dev),
         pool_tell(out, OF_DEVICE(dev), pool_default))
SIM_CALL(cuDeviceGetMemPool, (CUmemoryPool * out, CUdevice dev),
         pool_tell(out, OF_DEVICE(dev), pool_current))
SIM_CALL(cuDeviceSetMemPool, (CUdevice dev, CUmemoryPool handle), pool_set(OF_DEVICE(dev), handle))

#if CUDA_VERSION >= 13000
SIM_CALL(cuMemGetDefaultMemPool,
         (CUmemoryPool * out, CUmemLocation *where, CUmemAllocationType type),
         pool_tell(out, where, type, pool_default))
SIM_CALL(cuMemGetMemPool, (CUmemoryPool * out, CUmemLocation *where, CUmemAllocationType type),
         pool_tell(out, where, type, pool_current))
SIM_CALL(cuMemSetMemPool, (CUmemLocation * where, CUmemAllocationType type, CUmemoryPool pool),
         pool_set(where, type, pool))
#endif
