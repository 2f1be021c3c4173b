/*
 * memory.c - address ranges (see memory.h).
 */
#include "shim/objects/memory.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/objects/gpu_device.h"
#include "common/mutant.h"
#include "vhq/vhq.h"

struct range {
    uintptr_t start, size;
    unsigned kinds;       /* MEMORY_* */
    CUdevice pool_device; /* CU_DEVICE_INVALID: in no pool, or the process sees one device */
    uint32_t generation;
};
/* The ranges this thread used last. */
enum { RANGES = 8 };
static _Thread_local struct range ranges[RANGES] __attribute__((tls_model("initial-exec")));

static _Atomic uint32_t generation = 1;

_Atomic uint32_t memory_seen_elsewhere;

enum { REGISTERED = 64 };
static struct registered {
    uintptr_t start, size; /* 0: free */
    uint64_t number;       /* of the registration */
} registered[REGISTERED];
static uint64_t registrations;
static _Atomic uint32_t registered_count; /* beyond REGISTERED all memory counts as registered */
static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;

CUdeviceptr memory_registered_at(void *p)
{
    CUdeviceptr device = 0;
    if (!p || REAL(cuMemHostGetDevicePointer_v2)(&device, p, 0) != CUDA_SUCCESS)
        device = (CUdeviceptr)(uintptr_t)p;
    return device;
}

void memory_registered_add(void *p, size_t bytes)
{
    CUdeviceptr device = memory_registered_at(p);
    pthread_mutex_lock(&registered_lock);
    for (int i = 0; i < REGISTERED; i++)
        if (registered[i].size == 0) {
            registered[i] = (struct registered){(uintptr_t)device, bytes, ++registrations};
            break;
        }
    atomic_fetch_add_explicit(&registered_count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&registered_lock);
}

/* Call with registered_lock. Once there were too many, it is not known which are left. */
static void registered_free(struct registered *r)
{
    r->size = 0;
    if (atomic_load_explicit(&registered_count, memory_order_relaxed) <= REGISTERED)
        atomic_fetch_sub_explicit(&registered_count, 1, memory_order_relaxed);
}

void memory_registered_remove(CUdeviceptr device)
{
    pthread_mutex_lock(&registered_lock);
    for (int i = 0; i < REGISTERED; i++)
        if (registered[i].size && registered[i].start == (uintptr_t)device) {
            registered_free(&registered[i]);
            break;
        }
    pthread_mutex_unlock(&registered_lock);
}

bool memory_registered(CUdeviceptr address)
{
    uint32_t count = atomic_load_explicit(&registered_count, memory_order_relaxed);
    bool found = count > REGISTERED;
    if (count == 0)
        return false;
    pthread_mutex_lock(&registered_lock);
    for (struct registered *r = registered; r < registered + REGISTERED && !found; r++)
        found = address >= r->start && address - r->start < r->size;
    pthread_mutex_unlock(&registered_lock);
    return found;
}

void memory_forget(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
}

static bool range_holds(const struct range *r, uintptr_t at, size_t bytes)
{
    return at >= r->start && at - r->start < r->size && bytes <= r->size - (at - r->start);
}

/* Devices get access to a host pool one by one. Without it the driver must judge the copy. */
static bool host_pool_open(CUmemoryPool pool)
{
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return MUTANT(host_pool_taken_for_open) ||
           (REAL(cuCtxGetDevice)(&here.id) == CUDA_SUCCESS &&
            REAL(cuMemPoolGetAccess)(&flags, pool, &here) == CUDA_SUCCESS &&
            flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static bool range_ask(uintptr_t address, struct range *r)
{
    CUmemorytype type = (CUmemorytype)0;
    CUdeviceptr start = 0;
    size_t size = 0;
    int managed = 0;
    CUpointer_attribute which[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *data[] = {&type, &start, &size, &managed};
    if (REAL(cuPointerGetAttributes)(4, which, data, (CUdeviceptr)address) != CUDA_SUCCESS)
        return false;
    r->start = (uintptr_t)start;
    r->size = size;
    r->kinds = managed ? MEMORY_ANY : type == CU_MEMORYTYPE_HOST ? MEMORY_HOST : MEMORY_DEVICE;
    CUpointer_attribute of_pool[] = {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    CUmemoryPool pool = NULL;
    void *pool_data[] = {&pool, &r->pool_device};
    bool several = gpu_device_several();
    if (!(several || r->kinds == MEMORY_HOST) ||
        REAL(cuPointerGetAttributes)(2, of_pool, pool_data, (CUdeviceptr)address) != CUDA_SUCCESS)
        pool = NULL;
    if (!pool || !several)
        r->pool_device = CU_DEVICE_INVALID;
    return (unsigned)type != 0 && size != 0 &&
           (!pool || r->kinds != MEMORY_HOST || host_pool_open(pool));
}

void memory_registered_prune(void)
{
    struct range known;
    for (int i = 0; i < REGISTERED; i++) {
        pthread_mutex_lock(&registered_lock);
        struct registered r = registered[i];
        pthread_mutex_unlock(&registered_lock);
        if (!r.size || range_ask(r.start, &known))
            continue;
        pthread_mutex_lock(&registered_lock);
        if (registered[i].size && registered[i].number == r.number)
            registered_free(&registered[i]);
        pthread_mutex_unlock(&registered_lock);
    }
}

static const struct range *range_of(uintptr_t address, size_t bytes)
{
    uint32_t now = atomic_load_explicit(&generation, memory_order_acquire);
    for (int i = 0; i < RANGES; i++)
        if (ranges[i].generation == now && range_holds(&ranges[i], address, bytes))
            return &ranges[i];
    static _Thread_local unsigned turn __attribute__((tls_model("initial-exec")));
    struct range *r = &ranges[turn++ % RANGES];
    r->generation = range_ask(address, r) ? now : 0;
    return r->generation && range_holds(r, address, bytes) ? r : NULL;
}

uint32_t memory_flags(CUdeviceptr address, size_t bytes, unsigned kinds)
{
    const struct range *r = range_of((uintptr_t)address, bytes);
    bool fits = (r && (r->kinds & kinds)) || (kinds == MEMORY_ANY && MUTANT(pageable_deferred));
    return fits ? 0 : VHQ_MUST_INLINE;
}

static bool range_elsewhere(CUdeviceptr address, const struct gpu_device *of_stream)
{
    const struct range *r = range_of((uintptr_t)address, 1);
    if (!r || r->pool_device == CU_DEVICE_INVALID)
        return false;
    return !of_stream || r->pool_device != of_stream->handle || gpu_device_current() != of_stream;
}

uint32_t memory_pool_flags(CUdeviceptr a, CUdeviceptr b, const struct gpu_device *of_stream)
{
    bool elsewhere = !MUTANT(far_pool_deferred) &&
                     (range_elsewhere(a, of_stream) || range_elsewhere(b, of_stream));
    return elsewhere ? VHQ_MUST_INLINE : 0;
}

bool memory_host(CUdeviceptr address)
{
    const struct range *r = range_of((uintptr_t)address, 1);
    return !r || r->kinds == MEMORY_HOST;
}

/* msync fails for pages that are not mapped, and with MS_ASYNC does nothing else. */
bool memory_mapped(const void *address, size_t bytes)
{
    uintptr_t from = (uintptr_t)address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    int keep = errno;
    bool mapped = address && !range_of((uintptr_t)address, 1) &&
                  msync((void *)from, (uintptr_t)address + bytes - from, MS_ASYNC) == 0;
    errno = keep;
    return mapped;
}

bool memory_copy_waits(CUdeviceptr dst, CUdeviceptr src)
{
    if (memory_host(dst))
        return true;
    const struct range *from = range_of((uintptr_t)src, 1);
    return from && from->kinds == MEMORY_HOST;
}

uint32_t memory_managed_whole_flags(CUdeviceptr address, size_t bytes)
{
    const struct range *r = range_of((uintptr_t)address, bytes);
    bool whole = r && r->start == (uintptr_t)address && (!bytes || bytes == r->size);
    return whole && r->kinds == MEMORY_ANY ? 0 : VHQ_MUST_INLINE;
}

/* A NUMA node is no target here: the calling thread's node is not the dispatcher's, and which nodes
 * exist is not known. */
CUdevice memory_target(CUmemLocation to)
{
    bool of_device = to.type == CU_MEM_LOCATION_TYPE_DEVICE && to.id >= 0;
    return of_device ? to.id : to.type == LOCATION_HOST ? CU_DEVICE_CPU : CU_DEVICE_INVALID;
}

uint32_t memory_target_flags(CUdevice target)
{
    const CUdevice_attribute shares = CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
    const struct gpu_device *own = gpu_device_current();
    bool there = target == CU_DEVICE_CPU || gpu_device_attribute(target, shares, 0);
    return there && own && gpu_device_attribute(own->handle, shares, 0) ? 0 : VHQ_MUST_INLINE;
}
