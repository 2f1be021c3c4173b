/*
 * vmm.c - virtual memory management: addresses, allocations, and mappings between them. A mapping
 * shows the same bytes at any address, so an allocation is a memory file that is really mapped.
 */
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/face/simconfig.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

enum { GRANULARITY = 2 << 20 };

struct allocation {
    unsigned long long handle;
    size_t bytes;
    CUmemAllocationProp prop;
    int fd;
    int handles, mappings; /* the allocation lives while there is either */
    bool imported;         /* the process that made it counts it */
    struct allocation *next;
};

struct reservation {
    uintptr_t base;
    size_t bytes;
    struct reservation *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations; /* everything under lock */
static struct reservation *reservations;
static unsigned long long next_handle = 1;

static bool whole(size_t bytes)
{
    return bytes != 0 && bytes % GRANULARITY == 0;
}

static CUresult prop_check(const CUmemAllocationProp *prop)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (prop->requestedHandleTypes & ~(unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    return device_check(prop->location.id);
}

SIM_GETTER(cuMemGetAllocationGranularity,
           (size_t *out, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option),
           out, GRANULARITY, TRY(driver_ready());
           TRY(prop_check(prop)))

/* ---- addresses ------------------------------------------------------------------------------- */

static void *map_nothing(void *at, size_t bytes, int fixed)
{
    return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
}

/* Reserves an aligned stretch: reserves more, then gives back what is too much. */
static uintptr_t reserve_aligned(size_t bytes, size_t align)
{
    char *p = map_nothing(NULL, bytes + align, 0);
    if (p == MAP_FAILED)
        return 0;
    uintptr_t base = ((uintptr_t)p + align - 1) & ~(uintptr_t)(align - 1);
    size_t before = base - (uintptr_t)p, after = align - before;
    if (before != 0)
        munmap(p, before);
    if (after != 0)
        munmap((char *)base + bytes, after);
    return base;
}

SIM_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align,
                                        CUdeviceptr hint, unsigned long long flags)
{
    TRY(driver_ready());
    if (!out || !whole(bytes) || flags != 0 || (align & (align - 1)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct reservation *r = calloc(1, sizeof(*r));
    if (!r)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r->bytes = bytes;
    r->base = reserve_aligned(bytes, align > GRANULARITY ? align : GRANULARITY);
    if (r->base == 0) {
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    SCOPED_LOCK(&lock);
    LL_PREPEND(reservations, r);
    *out = r->base;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes)
{
    TRY(driver_ready());
    struct memory m;
    SCOPED_LOCK(&lock);
    struct reservation *r = reservations;
    while (r && (r->base != base || r->bytes != bytes))
        r = r->next;
    if (!r)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < bytes; at += GRANULARITY)
        if (memory_find(base + at, &m))
            return CUDA_ERROR_INVALID_VALUE; /* still mapped */
    LL_DELETE(reservations, r);
    munmap((void *)r->base, r->bytes);
    free(r);
    return CUDA_SUCCESS;
}

/* ---- allocations ----------------------------------------------------------------------------- */

/* The name tells an importer that the file is an allocation, and of which device. */
#define FILE_NAME "simgpu-vmm-%d"

/* The allocation owns the file from now on, also on failure. */
static CUresult allocation_add(struct allocation like, CUmemGenericAllocationHandle *out)
{
    struct allocation *a = like.fd >= 0 ? malloc(sizeof(*a)) : NULL;
    if (!a) {
        if (like.fd >= 0)
            close(like.fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    SCOPED_LOCK(&lock);
    *a = like;
    a->handles = 1;
    *out = a->handle = next_handle++;
    LL_PREPEND(allocations, a);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                                const CUmemAllocationProp *prop, unsigned long long flags)
{
    TRY(driver_ready());
    TRY(out && whole(bytes) && flags == 0 ? prop_check(prop) : CUDA_ERROR_INVALID_VALUE);
    if (!memory_charge(prop->location.id, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    char name[32];
    snprintf(name, sizeof(name), FILE_NAME, prop->location.id);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
        close(fd);
        fd = -1;
    }
    CUresult rc = allocation_add((struct allocation){.bytes = bytes, .prop = *prop, .fd = fd}, out);
    if (rc != CUDA_SUCCESS)
        memory_uncharge(prop->location.id, bytes);
    return rc;
}

/* Under lock. A handle without references is not found, even if mappings keep the bytes. */
static struct allocation *allocation_find(CUmemGenericAllocationHandle handle)
{
    struct allocation *a = allocations;
    while (a && (a->handle != handle || a->handles == 0))
        a = a->next;
    return a;
}

/* Under lock. */
static void allocation_release(struct allocation *a)
{
    if (a->handles != 0 || a->mappings != 0)
        return;
    LL_DELETE(allocations, a);
    if (!a->imported)
        memory_uncharge(a->prop.location.id, a->bytes);
    close(a->fd);
    free(a);
}

SIM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    TRY(driver_ready());
    SCOPED_LOCK(&lock);
    struct allocation *a = allocation_find(handle);
    if (!a)
        return CUDA_ERROR_INVALID_VALUE;
    a->handles--;
    allocation_release(a);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *ptr)
{
    struct memory m;
    if (!out || !memory_find((CUdeviceptr)ptr, &m) || m.kind != MEMORY_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    struct allocation *a = m.owner;
    SCOPED_LOCK(&lock);
    a->handles++;
    *out = a->handle;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out,
                                                           CUmemGenericAllocationHandle handle)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&lock);
    const struct allocation *a = allocation_find(handle);
    if (a)
        *out = a->prop;
    return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- between processes ----------------------------------------------------------------------- */

SIM_EXPORT CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                                 CUmemAllocationHandleType type,
                                                 unsigned long long flags)
{
    TRY(driver_ready());
    if (!out || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    SCOPED_LOCK(&lock);
    const struct allocation *a = allocation_find(handle);
    if (!a || (a->prop.requestedHandleTypes & type) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = *(int *)out = fcntl(a->fd, F_DUPFD_CLOEXEC, 0);
    return fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

/* The device whose allocation the file is; -1: it is no allocation. */
static int file_ordinal(int fd)
{
    char path[32], target[64] = "";
    int ordinal = -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (readlink(path, target, sizeof(target) - 1) < 0 ||
        sscanf(target, "/memfd:" FILE_NAME, &ordinal) != 1)
        return -1;
    return ordinal < config_get()->devices ? ordinal : -1;
}

/* The caller keeps its file. */
SIM_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *shared,
                                                   CUmemAllocationHandleType type)
{
    struct stat st;
    TRY(driver_ready());
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    int fd = (int)(intptr_t)shared, ordinal = file_ordinal(fd);
    if (!out || ordinal < 0 || fstat(fd, &st) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct allocation a = {
        .bytes = (size_t)st.st_size,
        .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
        .imported = true,
        .prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                 .requestedHandleTypes = type,
                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal}}};
    return allocation_add(a, out);
}

/* ---- mappings -------------------------------------------------------------------------------- */

/* Under lock. */
static bool reserved(CUdeviceptr ptr, size_t bytes)
{
    const struct reservation *r;
    LL_FOREACH (reservations, r) {
        if (ptr >= r->base && ptr - r->base + bytes <= r->bytes)
            return true;
    }
    return false;
}

/* The pages become accessible at once; cuMemSetAccess only records which devices may use them. */
SIM_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset,
                             CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    TRY(driver_ready());
    if (!whole(bytes) || ptr % GRANULARITY != 0 || offset % GRANULARITY != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&lock);
    struct allocation *a = allocation_find(handle);
    if (!a || offset + bytes > a->bytes || !reserved(ptr, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct memory m = {.base = ptr,
                       .bytes = bytes,
                       .kind = MEMORY_MAPPED,
                       .ordinal = a->prop.location.id,
                       .owner = a};
    if (memory_add(&m) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (mmap((void *)ptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a->fd,
             (off_t)offset) == MAP_FAILED) {
        memory_remove(ptr, NULL);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    a->mappings++;
    return CUDA_SUCCESS;
}

/* Whether [ptr, ptr + bytes) consists of whole mappings. */
static bool whole_mappings(CUdeviceptr ptr, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        struct memory m;
        if (!memory_find_base(ptr + at, &m) || m.kind != MEMORY_MAPPED || m.bytes > bytes - at)
            return false;
        at += m.bytes;
    }
    return true;
}

/* Waits for nothing. PyTorch's allocator found that a driver need not wait, and waits itself before
 * the call. */
SIM_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
    TRY(driver_ready());
    SCOPED_LOCK(&lock);
    if (bytes == 0 || !whole_mappings(ptr, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < bytes;) {
        struct memory m;
        memory_remove(ptr + at, &m);
        map_nothing((void *)m.base, m.bytes, MAP_FIXED);
        struct allocation *a = m.owner;
        a->mappings--;
        allocation_release(a);
        at += m.bytes;
    }
    return CUDA_SUCCESS;
}

static bool is_device(const CUmemLocation *where)
{
    return where->type == CU_MEM_LOCATION_TYPE_DEVICE && device_check(where->id) == CUDA_SUCCESS;
}

/* Checks that each is a mapping and that each device can reach it. With `set` it changes them, so
 * call it without first: then nothing is changed if one is refused. */
static CUresult access_walk(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *descs, size_t n,
                            bool set)
{
    struct memory m;
    for (size_t at = 0; at < bytes; at = m.base + m.bytes - ptr) {
        if (!memory_find(ptr + at, &m) || m.kind != MEMORY_MAPPED)
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < n; i++) {
            int ordinal = descs[i].location.id;
            if (ordinal != m.ordinal && !devices_are_peers(ordinal, m.ordinal))
                return CUDA_ERROR_INVALID_DEVICE;
            unsigned int shift = (unsigned int)(ordinal * ACCESS_BITS);
            m.flags = (m.flags & ~((unsigned int)ACCESS_MASK << shift)) |
                      (unsigned int)descs[i].flags << shift;
        }
        if (set)
            memory_change(&m);
    }
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *descs,
                                   size_t n)
{
    TRY(driver_ready());
    if (!descs || n == 0 || bytes == 0 || !memory_contains(ptr, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        if (!is_device(&descs[i].location) ||
            (descs[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
             descs[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
             descs[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
            return CUDA_ERROR_INVALID_VALUE;
    TRY(access_walk(ptr, bytes, descs, n, false));
    return access_walk(ptr, bytes, descs, n, true);
}

SIM_EXPORT CUresult cuMemGetAccess(unsigned long long *out, const CUmemLocation *where,
                                   CUdeviceptr ptr)
{
    TRY(driver_ready());
    struct memory m;
    if (!out || !where || !is_device(where) || !memory_find(ptr, &m) || m.kind != MEMORY_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    *out = mapping_access(m.flags, where->id);
    return CUDA_SUCCESS;
}
