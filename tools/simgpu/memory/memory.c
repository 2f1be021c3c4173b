/*
 * memory.c - device and pinned memory: the table of all ranges, and the calls that allocate,
 * register, free and ask about them.
 */
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/stream/late.h"
#include "tools/simgpu/stream/engine.h"
#include "tools/simgpu/memory/pool.h"
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/memory/space.h"
#include "tools/simgpu/stream/capture.h"

#include <errno.h>
#include <sys/mman.h>

/* ---- the table: sorted by base; many readers (every copy and kernel checks), few writers ----- */

static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct memory *table;
static size_t count;

/* The index of the first range with base > ptr. Under the lock. */
static size_t table_above(uintptr_t ptr)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (table[mid].base <= ptr)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The range that holds ptr, or NULL. Under the lock. */
static struct memory *table_at(uintptr_t ptr)
{
    size_t above = table_above(ptr);
    if (above == 0)
        return NULL;
    struct memory *m = &table[above - 1];
    return ptr - m->base < m->bytes ? m : NULL;
}

static int table_insert(const struct memory *m)
{
    static unsigned long long ids;
    size_t at = table_above(m->base);
    if ((at > 0 && m->base - table[at - 1].base < table[at - 1].bytes) ||
        (at < count && table[at].base - m->base < m->bytes))
        return -EEXIST;
    struct memory *bigger = array_grow(table, count, sizeof(*table));
    if (!bigger)
        return -ENOMEM;
    table = bigger;
    memmove(&table[at + 1], &table[at], (count++ - at) * sizeof(*table));
    table[at] = *m;
    table[at].id = ++ids;
    return 0;
}

int memory_add(const struct memory *m)
{
    pthread_rwlock_wrlock(&table_lock);
    int rc = table_insert(m);
    pthread_rwlock_unlock(&table_lock);
    return rc;
}

bool memory_remove(CUdeviceptr base, struct memory *out)
{
    late_flush(UINT64_MAX);
    pthread_rwlock_wrlock(&table_lock);
    struct memory *m = table_at(base);
    bool found = m && m->base == base;
    if (found) {
        if (out)
            *out = *m;
        size_t at = (size_t)(m - table);
        count--;
        memmove(&table[at], &table[at + 1], (count - at) * sizeof(*table));
    }
    pthread_rwlock_unlock(&table_lock);
    return found;
}

bool memory_find(CUdeviceptr ptr, struct memory *out)
{
    pthread_rwlock_rdlock(&table_lock);
    const struct memory *m = table_at(ptr);
    if (m)
        *out = *m;
    pthread_rwlock_unlock(&table_lock);
    return m;
}

bool memory_find_base(CUdeviceptr base, struct memory *out)
{
    return memory_find(base, out) && out->base == base;
}

/* Ranges that touch count as one, such as mappings of one reservation and registered pages. */
bool memory_contains(CUdeviceptr ptr, size_t bytes)
{
    bool inside = true;
    pthread_rwlock_rdlock(&table_lock);
    do {
        const struct memory *m = table_at(ptr);
        size_t here = m ? m->base + m->bytes - ptr : 0;
        inside = m;
        if (here >= bytes)
            break;
        ptr += here;
        bytes -= here;
    } while (inside);
    pthread_rwlock_unlock(&table_lock);
    return inside;
}

bool memory_reachable(CUdeviceptr ptr, size_t bytes, const struct sim_context *ctx)
{
    struct memory m;
    return memory_contains(ptr, bytes) && memory_find(ptr, &m) && peer_reachable(ctx, &m);
}

bool memory_change(const struct memory *to)
{
    pthread_rwlock_wrlock(&table_lock);
    struct memory *m = table_at(to->base);
    bool same = m && m->id == to->id;
    if (same) {
        m->sync_memops = to->sync_memops;
        m->flags = to->flags;
    }
    pthread_rwlock_unlock(&table_lock);
    return same;
}

/* ---- taking and giving ----------------------------------------------------------------------- */

static size_t rounded(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* Takes device memory: charges it, finds an address and lists the range. 0: the device is full. */
static CUdeviceptr device_take(struct sim_context *ctx, size_t bytes, enum memory_kind kind,
                               unsigned int flags)
{
    int ordinal = ctx ? ctx->ordinal : 0;
    size_t whole = rounded(bytes, SPACE_GRAIN);
    if (whole < bytes || !memory_charge(ordinal, whole))
        return 0;
    struct memory m = {
        .bytes = bytes, .kind = kind, .flags = flags, .ordinal = ordinal, .ctx = ctx};
    m.base = space_take(whole, SPACE_GRAIN);
    if (m.base != 0 && memory_add(&m) != 0) {
        space_give(m.base, whole);
        m.base = 0;
    }
    if (m.base == 0)
        memory_uncharge(ordinal, whole);
    return m.base;
}

/* Gives back the memory of a range that has left the table. */
static void memory_release(const struct memory *m)
{
    size_t whole = rounded(m->bytes, SPACE_GRAIN);
    switch (m->kind) {
    case MEMORY_DEVICE:
    case MEMORY_MANAGED:
        space_give(m->base, whole);
        memory_uncharge(m->ordinal, whole);
        break;
    case MEMORY_HOST:
        munmap((void *)m->base, m->bytes);
        break;
    case MEMORY_IPC:
        ipc_memory_release(m->owner);
        break;
    case MEMORY_REGISTERED:
    case MEMORY_POOL:
    case MEMORY_MAPPED:
        break;
    }
}

CUdeviceptr memory_take(struct sim_context *ctx, size_t bytes)
{
    return ctx ? device_take(ctx, bytes, MEMORY_DEVICE, 0)
               : device_take(NULL, bytes, MEMORY_MANAGED, CU_MEM_ATTACH_GLOBAL);
}

void memory_give(CUdeviceptr ptr)
{
    struct memory m;
    if (memory_remove(ptr, &m))
        memory_release(&m);
}

/* ---- device memory --------------------------------------------------------------------------- */

CUresult memory_call_check(struct sim_context **ctx)
{
    TRY(context_current_ok(ctx));
    return capture_forbids_unsafe();
}

SIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    struct sim_context *ctx;
    TRY(memory_call_check(&ctx));
    if (!out || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = memory_take(ctx, bytes);
    return *out != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                                       unsigned int element)
{
    if (!out || !pitch || width == 0 || height == 0 ||
        (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = rounded(width, 512), all;
    if (__builtin_mul_overflow(row, height, &all))
        return CUDA_ERROR_OUT_OF_MEMORY;
    TRY(cuMemAlloc_v2(out, all));
    *pitch = row;
    return CUDA_SUCCESS;
}

/* Waits for the context that owns the memory, because queued work may still use it. */
static CUresult free_when_idle(CUdeviceptr ptr)
{
    struct memory m;
    if (!memory_find_base(ptr, &m) || m.kind == MEMORY_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    if (m.kind == MEMORY_IPC)
        return ipc_memory_free(ptr);
    if (memory_pool(&m))
        return pool_free_now(ptr);
    if (!m.ctx)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = context_wait_idle(m.ctx);
    /* If two threads free the same range, one of them finds it gone. */
    if (!memory_remove(ptr, &m))
        return CUDA_ERROR_INVALID_VALUE;
    memory_release(&m);
    return rc;
}

SIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr ptr)
{
    CUresult rc = memory_call_check(NULL);
    if (rc != CUDA_SUCCESS || ptr == 0)
        return rc;
    struct memory m;
    if (memory_find(ptr, &m) &&
        ((m.kind == MEMORY_HOST && !memory_pool(&m)) || m.kind == MEMORY_REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    return free_when_idle(ptr);
}

SIM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr)
{
    TRY(context_current_ok(NULL));
    struct memory m;
    if (!memory_find(ptr, &m))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = m.base;
    if (bytes)
        *bytes = m.bytes;
    return CUDA_SUCCESS;
}

/* ---- pinned host memory ---------------------------------------------------------------------- */

enum {
    HOSTALLOC_FLAGS =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED
};

/* Returns the errors of memory_add. */
static int pinned_add(void *base, size_t bytes, enum memory_kind kind, unsigned int flags,
                      struct sim_context *ctx)
{
    return memory_add(&(struct memory){.base = (uintptr_t)base,
                                       .bytes = bytes,
                                       .kind = kind,
                                       .flags = flags,
                                       .ordinal = ctx->ordinal,
                                       .ctx = ctx});
}

SIM_EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    struct sim_context *ctx;
    TRY(memory_call_check(&ctx));
    if (!out || bytes == 0 || (flags & ~(unsigned int)HOSTALLOC_FLAGS) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (pinned_add(base, bytes, MEMORY_HOST, flags, ctx) != 0) {
        munmap(base, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = base;
    return CUDA_SUCCESS;
}

SIM_CALL(cuMemAllocHost_v2, (void **out, size_t bytes), cuMemHostAlloc(out, bytes, 0))

SIM_EXPORT CUresult cuMemFreeHost(void *ptr)
{
    CUresult rc = memory_call_check(NULL);
    if (rc != CUDA_SUCCESS || !ptr)
        return rc;
    struct memory m;
    if (!memory_find_base((CUdeviceptr)ptr, &m) || m.kind != MEMORY_HOST || memory_pool(&m))
        return CUDA_ERROR_INVALID_VALUE;
    return free_when_idle((CUdeviceptr)ptr);
}

enum {
    REGISTER_FLAGS = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                     CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY
};

SIM_EXPORT CUresult cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags)
{
    struct sim_context *ctx;
    TRY(memory_call_check(&ctx));
    if (!config_get()->host_register)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!ptr || bytes == 0 || (flags & ~(unsigned int)REGISTER_FLAGS) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY && !config_get()->io_memory)
        return CUDA_ERROR_NOT_PERMITTED;
    int rc = pinned_add(ptr, bytes, MEMORY_REGISTERED, flags, ctx);
    return rc == 0         ? CUDA_SUCCESS
           : rc == -EEXIST ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                           : CUDA_ERROR_OUT_OF_MEMORY;
}
SIM_ALIAS(cuMemHostRegister, (void *ptr, size_t bytes, unsigned int flags), cuMemHostRegister_v2,
          ptr, bytes, flags)

SIM_EXPORT CUresult cuMemHostUnregister(void *ptr)
{
    TRY(memory_call_check(NULL));
    struct memory m;
    if (!ptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!memory_find((CUdeviceptr)ptr, &m) || m.kind != MEMORY_REGISTERED)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (m.base != (uintptr_t)ptr) /* NVIDIA's own cuda-python expects this in its tests */
        return CUDA_ERROR_INVALID_VALUE;
    return free_when_idle((CUdeviceptr)ptr);
}

static CUresult pinned_arg(void *ptr, struct memory *m)
{
    TRY(context_current_ok(NULL));
    return memory_find((CUdeviceptr)ptr, m) &&
                   (m->kind == MEMORY_HOST || m->kind == MEMORY_REGISTERED)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* With unified addressing the address is the same, and the memory is always mapped. */
SIM_GETTER(cuMemHostGetDevicePointer_v2, (CUdeviceptr * out, void *ptr, unsigned int flags), out,
           (CUdeviceptr)ptr, struct memory m;
           TRY(flags == 0 ? pinned_arg(ptr, &m) : CUDA_ERROR_INVALID_VALUE))
SIM_GETTER(cuMemHostGetFlags, (unsigned int *out, void *ptr), out,
           m.flags | CU_MEMHOSTALLOC_DEVICEMAP, struct memory m;
           TRY(pinned_arg(ptr, &m)))

/* ---- managed memory: allocation (managed.c has the rest) ------------------------------------- */

SIM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    struct sim_context *ctx;
    TRY(memory_call_check(&ctx));
    if (!out || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    *out = device_take(ctx, bytes, MEMORY_MANAGED, flags);
    return *out != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- how full the device is ------------------------------------------------------------------ */

/* The device counts the memory of all its processes. The process's own count decides alone before
 * it has joined the device, in null mode, and once it is leaving. */
enum { DEVICES_MAX = 64 };
static _Atomic size_t charged[DEVICES_MAX]; /* by this process */
static _Atomic bool joined;

static bool counted_by_device(void)
{
    return atomic_load(&joined) && !engine_stopped();
}

static size_t memory_limit(void)
{
    return (size_t)config_get()->mem_mb << 20;
}

/* The process has joined the devices, which count its memory from now on. This tells them what it
 * has taken before. A process joins once, and stays so. */
static CUresult memory_join_device(struct sim_context *ctx)
{
    if (config_get()->null_mode || atomic_exchange(&joined, true))
        return CUDA_SUCCESS;
    for (int i = 0; i < config_get()->devices; i++) {
        size_t before = atomic_load(&charged[i]);
        if (before != 0)
            device_memory_take(engine_device(), (uint32_t)i, before, UINT64_MAX);
    }
    return CUDA_SUCCESS;
}

/* The context is being destroyed, and its own memory with it. */
static void memory_context_gone(struct sim_context *ctx)
{
    for (;;) {
        struct memory m = {.base = 0};
        pthread_rwlock_rdlock(&table_lock);
        for (size_t i = 0; i < count && m.base == 0; i++)
            if (table[i].ctx == ctx)
                m = table[i];
        pthread_rwlock_unlock(&table_lock);
        if (m.base == 0)
            return;
        memory_give(m.base);
    }
}
CONTEXT_PART(CONTEXT_MEMORY, memory_join_device, memory_context_gone)

bool memory_charge(int ordinal, size_t bytes)
{
    size_t all = memory_limit(), now = atomic_load(&charged[ordinal]);
    do {
        if (bytes > all || now > all - bytes)
            return false;
    } while (!atomic_compare_exchange_weak(&charged[ordinal], &now, now + bytes));
    if (!counted_by_device() || device_memory_take(engine_device(), (uint32_t)ordinal, bytes, all))
        return true;
    atomic_fetch_sub(&charged[ordinal], bytes);
    return false;
}

void memory_uncharge(int ordinal, size_t bytes)
{
    atomic_fetch_sub(&charged[ordinal], bytes);
    if (counted_by_device())
        device_memory_give(engine_device(), (uint32_t)ordinal, bytes);
}

SIM_EXPORT CUresult cuMemGetInfo_v2(size_t *left, size_t *all)
{
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    if (!left || !all)
        return CUDA_ERROR_INVALID_VALUE;
    size_t taken = counted_by_device() ? device_memory_used(engine_device(), (uint32_t)ctx->ordinal)
                                       : atomic_load(&charged[ctx->ordinal]);
    *all = memory_limit();
    *left = taken < *all ? *all - taken : 0;
    return CUDA_SUCCESS;
}
