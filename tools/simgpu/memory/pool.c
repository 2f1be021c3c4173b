/*
 * pool.c - see pool.h. One lock for all pools: it is held for table work only, never while waiting.
 * Pools are never freed, so that a stale handle is recognised; a destroyed one lives on in name until
 * its last block is gone.
 */
#include "tools/simgpu/memory/pool.h"
#include "tools/simgpu/graph/graph.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/memory/peer.h"
#include "tools/simgpu/memory/space.h"
#include "tools/simgpu/face/variants.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { DEVICES_MAX = 64 };

enum block_state {
    BLOCK_LIVE,    /* the application's */
    BLOCK_FREEING, /* freed by a call, not yet in stream order: its own stream may have it again */
    BLOCK_FREE,    /* kept for reuse; not in the memory table */
};

struct block {
    CUdeviceptr base;
    size_t whole;
    enum block_state state;
    uint32_t stream; /* number of the stream it was freed in */
    bool in_use;     /* a graph's: allocated by a launch, not freed since */
    uint64_t ticket; /* of the free under way; a reuse takes a new one, so that the free misses */
    struct block *prev, *next;
};

struct sim_pool {
    int ordinal;
    bool fixed; /* the device's default pool and its graph pool: not to be destroyed */
    bool destroyed;
    _Atomic bool peers[DEVICES_MAX]; /* devices that were given access, beside its own */
    uint64_t threshold;
    int reuse[4]; /* by CUmemPool_attribute 1..3 */
    uint64_t reserved, reserved_high, used, used_high;
    struct block *blocks;
    struct sim_pool *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_pool *pools; /* all of them; everything here under lock */
static struct sim_pool *defaults[DEVICES_MAX], *currents[DEVICES_MAX], *graphs[DEVICES_MAX];
static uint64_t next_ticket = 1;

/* ---- pools ---------------------------------------------------------------------------------------- */

static struct sim_pool *pool_new(int ordinal, bool fixed)
{
    struct sim_pool *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->ordinal = ordinal;
    p->fixed = fixed;
    for (int i = 1; i < 4; i++)
        p->reuse[i] = 1;
    LL_PREPEND(pools, p);
    return p;
}

static struct sim_pool *pool_default(int ordinal)
{
    if (defaults[ordinal] == NULL)
        defaults[ordinal] = pool_new(ordinal, true);
    return defaults[ordinal];
}

static struct sim_pool *pool_current(int ordinal)
{
    if (currents[ordinal] == NULL)
        currents[ordinal] = pool_default(ordinal);
    return currents[ordinal];
}

static struct sim_pool *pool_find(CUmemoryPool handle)
{
    struct sim_pool *p = pools;
    while (p != NULL && (void *)p != (void *)handle)
        p = p->next;
    return p != NULL && !p->destroyed ? p : NULL;
}

CUmemoryPool pool_handle(void *owner)
{
    return (CUmemoryPool)owner;
}

/* ---- blocks: all under lock ------------------------------------------------------------------------- */

/* Back to the device for good. */
static void block_release(struct sim_pool *p, struct block *b)
{
    if (b->state != BLOCK_FREE)
        memory_remove(b->base, NULL);
    space_give(b->base, b->whole);
    memory_uncharge(p->ordinal, b->whole);
    p->reserved -= b->whole;
    DL_DELETE(p->blocks, b);
    free(b);
}

/* Gives up free blocks until at most `keep` bytes are reserved. */
static void pool_trim(struct sim_pool *p, uint64_t keep)
{
    struct block *b, *next;
    DL_FOREACH_SAFE(p->blocks, b, next)
    {
        if (p->reserved <= keep)
            break;
        if (b->state == BLOCK_FREE)
            block_release(p, b);
    }
}

void pools_trim(int ordinal)
{
    pthread_mutex_lock(&lock);
    struct sim_pool *p;
    LL_FOREACH (pools, p) {
        if (p->ordinal == ordinal)
            pool_trim(p, 0);
    }
    pthread_mutex_unlock(&lock);
}

static bool block_list(struct sim_pool *p, struct block *b)
{
    struct memory m = {.base = b->base,
                       .bytes = b->whole,
                       .kind = MEMORY_POOL,
                       .ordinal = p->ordinal,
                       .id = memory_next_id(),
                       .owner = p};
    return memory_add(&m) == 0;
}

/* The smallest block that fits without wasting more than half of it. */
static struct block *block_reuse(struct sim_pool *p, size_t whole, uint32_t stream)
{
    struct block *best = NULL, *b;
    DL_FOREACH (p->blocks, b) {
        bool usable = b->state == BLOCK_FREE || (b->state == BLOCK_FREEING && b->stream == stream);
        if (usable && b->whole >= whole && b->whole / 2 <= whole &&
            (best == NULL || b->whole < best->whole))
            best = b;
    }
    if (best != NULL && best->state == BLOCK_FREE && !block_list(p, best))
        return NULL;
    return best;
}

static bool pool_charge(struct sim_pool *p, size_t whole)
{
    if (memory_charge(p->ordinal, whole))
        return true;
    struct sim_pool *other;
    LL_FOREACH (pools, other) {
        if (other->ordinal == p->ordinal)
            pool_trim(other, 0);
    }
    return memory_charge(p->ordinal, whole);
}

static struct block *block_new(struct sim_pool *p, size_t whole)
{
    struct block *b = calloc(1, sizeof *b);
    if (b == NULL || !pool_charge(p, whole)) {
        free(b);
        return NULL;
    }
    b->whole = whole;
    b->base = space_take(whole, SPACE_GRAIN);
    if (b->base != 0 && block_list(p, b)) {
        p->reserved += whole;
        DL_APPEND(p->blocks, b);
        return b;
    }
    if (b->base != 0)
        space_give(b->base, whole);
    memory_uncharge(p->ordinal, whole);
    free(b);
    return NULL;
}

static CUdeviceptr block_take(struct sim_pool *p, size_t bytes, uint32_t stream)
{
    size_t whole = (bytes + SPACE_GRAIN - 1) / SPACE_GRAIN * SPACE_GRAIN;
    struct block *b = whole >= bytes ? block_reuse(p, whole, stream) : NULL;
    if (b == NULL && whole >= bytes)
        b = block_new(p, whole);
    if (b == NULL)
        return 0;
    if (b->state != BLOCK_FREEING)
        p->used += b->whole; /* a block being freed still counts as used: no change */
    b->state = BLOCK_LIVE;
    b->ticket = 0;
    p->used_high = p->used > p->used_high ? p->used : p->used_high;
    p->reserved_high = p->reserved > p->reserved_high ? p->reserved : p->reserved_high;
    return b->base;
}

static struct block *block_find(CUdeviceptr base, struct sim_pool **owner)
{
    struct memory m;
    if (!memory_find_base(base, &m) || m.kind != MEMORY_POOL)
        return NULL;
    *owner = m.owner;
    struct block *b;
    DL_FOREACH ((*owner)->blocks, b) {
        if (b->base == base)
            return b;
    }
    return NULL;
}

/* In stream order now: the block is anybody's again. */
static void block_freed(struct sim_pool *p, struct block *b)
{
    memory_remove(b->base, NULL);
    b->state = BLOCK_FREE;
    p->used -= b->whole;
    pool_trim(p, p->destroyed ? 0 : p->threshold);
}

/* ---- allocation in stream order --------------------------------------------------------------------- */

static CUresult pool_alloc(CUdeviceptr *out, size_t bytes, struct sim_pool *p,
                           struct sim_stream *stream)
{
    pthread_mutex_lock(&lock);
    *out = block_take(p, bytes, stream_tail(stream).stream);
    pthread_mutex_unlock(&lock);
    return *out != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The free's effect: args.u64[0] the block's address, [1] the ticket. */
static CUresult free_effect(struct work *w)
{
    pthread_mutex_lock(&lock);
    struct sim_pool *p;
    struct block *b = block_find(w->args.u64[0], &p);
    if (b != NULL && b->state == BLOCK_FREEING && b->ticket == w->args.u64[1])
        block_freed(p, b);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult alloc_async(CUdeviceptr *out, size_t bytes, CUmemoryPool handle, bool from_pool,
                            CUstream hstream, bool ptds)
{
    struct sim_context *ctx;
    struct sim_stream *stream;
    CUresult rc = stream_enter(hstream, ptds, &ctx, &stream);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct sim_pool *p = from_pool ? pool_find(handle) : pool_current(ctx->ordinal);
    pthread_mutex_unlock(&lock);
    if (p == NULL)
        return from_pool ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    struct work w = {.kind = WORK_MARK, .name = "alloc"};
    if (capture_active(stream))
        rc = graph_alloc_work(ctx, bytes, &w, out);
    else
        rc = pool_alloc(out, bytes, p, stream);
    return rc == CUDA_SUCCESS ? work_submit(hstream, ptds, &w) : rc;
}

/* Marks the block as being freed and says under which ticket; false: not a live block of a pool. */
static bool free_begin(CUdeviceptr ptr, uint32_t stream, uint64_t *ticket)
{
    pthread_mutex_lock(&lock);
    struct sim_pool *p;
    struct block *b = block_find(ptr, &p);
    bool of_graph = b != NULL && p == graphs[p->ordinal];
    bool live = b != NULL && b->state == BLOCK_LIVE && (!of_graph || b->in_use);
    if (live && of_graph) {
        b->in_use = false; /* the address stays the graph's */
    } else if (live) {
        b->state = BLOCK_FREEING;
        b->stream = stream;
        b->ticket = next_ticket++;
    }
    *ticket = live ? b->ticket : 0;
    pthread_mutex_unlock(&lock);
    return live;
}

static void free_undo(CUdeviceptr ptr)
{
    pthread_mutex_lock(&lock);
    struct sim_pool *p;
    struct block *b = block_find(ptr, &p);
    if (b != NULL && b->state == BLOCK_FREEING)
        b->state = BLOCK_LIVE;
    pthread_mutex_unlock(&lock);
}

static CUresult free_async(CUdeviceptr ptr, CUstream hstream, bool ptds)
{
    struct sim_context *ctx;
    struct sim_stream *stream;
    CUresult rc = stream_enter(hstream, ptds, &ctx, &stream);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct work w = {.kind = WORK_MARK, .name = "free", .effect = free_effect};
    if (capture_active(stream)) {
        rc = graph_free_work(ptr, &w);
        return rc == CUDA_SUCCESS ? work_submit(hstream, ptds, &w) : rc;
    }
    w.args.u64[0] = ptr;
    if (!free_begin(ptr, stream_tail(stream).stream, &w.args.u64[1]))
        return CUDA_ERROR_INVALID_VALUE;
    rc = work_submit(hstream, ptds, &w);
    if (rc != CUDA_SUCCESS)
        free_undo(ptr);
    return rc;
}

STREAM_API(cuMemAllocAsync, (CUdeviceptr * out, size_t bytes, CUstream s),
           alloc_async(out, bytes, NULL, false, s, ptds))
STREAM_API(cuMemAllocFromPoolAsync,
           (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream s),
           alloc_async(out, bytes, pool, true, s, ptds))
STREAM_API(cuMemFreeAsync, (CUdeviceptr ptr, CUstream s), free_async(ptr, s, ptds))

CUresult pool_free_now(CUdeviceptr ptr)
{
    struct sim_context *ctx;
    uint64_t ticket;
    CUresult rc = context_current(&ctx);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!free_begin(ptr, 0, &ticket))
        return CUDA_ERROR_INVALID_VALUE;
    struct work w = {.kind = WORK_MARK};
    w.args.u64[0] = ptr;
    w.args.u64[1] = ticket;
    return free_effect(&w);
}

/* ---- graphs' memory --------------------------------------------------------------------------------- */

CUdeviceptr pool_graph_take(struct sim_context *ctx, size_t bytes)
{
    CUdeviceptr ptr = 0;
    pthread_mutex_lock(&lock);
    if (graphs[ctx->ordinal] == NULL)
        graphs[ctx->ordinal] = pool_new(ctx->ordinal, true);
    if (graphs[ctx->ordinal] != NULL)
        ptr = block_take(graphs[ctx->ordinal], bytes, 0);
    pthread_mutex_unlock(&lock);
    return ptr;
}

void pool_graph_give(CUdeviceptr ptr)
{
    pthread_mutex_lock(&lock);
    struct sim_pool *p;
    struct block *b = block_find(ptr, &p);
    if (b != NULL)
        block_freed(p, b);
    pthread_mutex_unlock(&lock);
}

/* The graph's block at ptr, or NULL. Under lock. */
static struct block *graph_block(CUdeviceptr ptr)
{
    struct sim_pool *p;
    struct block *b = block_find(ptr, &p);
    return b != NULL && p == graphs[p->ordinal] ? b : NULL;
}

bool pool_graph_owns(CUdeviceptr ptr)
{
    pthread_mutex_lock(&lock);
    bool owns = graph_block(ptr) != NULL;
    pthread_mutex_unlock(&lock);
    return owns;
}

void pool_graph_mark(CUdeviceptr ptr, bool in_use)
{
    pthread_mutex_lock(&lock);
    struct block *b = graph_block(ptr);
    if (b != NULL)
        b->in_use = in_use;
    pthread_mutex_unlock(&lock);
}

bool pool_graph_in_use(CUdeviceptr ptr)
{
    pthread_mutex_lock(&lock);
    const struct block *b = graph_block(ptr);
    bool in_use = b != NULL && b->in_use;
    pthread_mutex_unlock(&lock);
    return in_use;
}

SIM_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
    return device_check(dev); /* given back with the graphs already */
}

SIM_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute,
                                                 void *value)
{
    CUresult rc = device_check(dev);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (value == NULL || (unsigned)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    const struct sim_pool *p = graphs[dev];
    const uint64_t values[] = {p ? p->used : 0, p ? p->used_high : 0, p ? p->reserved : 0,
                               p ? p->reserved_high : 0};
    memcpy(value, &values[attribute], sizeof values[0]);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* Only the high-water marks can be set, and only to zero. */
SIM_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute,
                                                 void *value)
{
    CUresult rc = device_check(dev);
    if (rc != CUDA_SUCCESS)
        return rc;
    bool used = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
    if (value == NULL || *(uint64_t *)value != 0 ||
        (!used && attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct sim_pool *p = graphs[dev];
    if (p != NULL && used)
        p->used_high = p->used;
    else if (p != NULL)
        p->reserved_high = p->reserved;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* ---- pools by handle -------------------------------------------------------------------------------- */

SIM_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL || props == NULL || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    rc = device_check(props->location.id);
    if (rc != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct sim_pool *p = pool_new(props->location.id, false);
    pthread_mutex_unlock(&lock);
    *out = (CUmemoryPool)(void *)p;
    return p != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The device falls back to its default pool; live blocks stay until they are freed. */
SIM_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&lock);
    struct sim_pool *p = pool_find(handle);
    bool ours = p != NULL && !p->fixed;
    if (ours) {
        p->destroyed = true;
        if (currents[p->ordinal] == p)
            currents[p->ordinal] = NULL;
        pool_trim(p, 0);
    }
    pthread_mutex_unlock(&lock);
    return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&lock);
    struct sim_pool *p = pool_find(handle);
    if (p != NULL)
        pool_trim(p, keep);
    pthread_mutex_unlock(&lock);
    return p != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Under lock. Integers for the reuse rules, 64 bits for amounts. */
static CUresult attribute_read(const struct sim_pool *p, CUmemPool_attribute attribute, void *value)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        memcpy(value, &p->reuse[attribute], sizeof(int));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(value, &p->threshold, sizeof(uint64_t));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        memcpy(value, &p->reserved, sizeof(uint64_t));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        memcpy(value, &p->reserved_high, sizeof(uint64_t));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        memcpy(value, &p->used, sizeof(uint64_t));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        memcpy(value, &p->used_high, sizeof(uint64_t));
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
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
        memcpy(&amount, value, sizeof amount);
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
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&lock);
    const struct sim_pool *p = pool_find(handle);
    rc =
        p != NULL && value != NULL ? attribute_read(p, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&lock);
    return rc;
}

SIM_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                          void *value)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&lock);
    struct sim_pool *p = pool_find(handle);
    rc = p != NULL && value != NULL ? attribute_write(p, attribute, value)
                                    : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&lock);
    return rc;
}

bool pool_reaches(void *owner, int ordinal)
{
    const struct sim_pool *p = owner;
    return ordinal == p->ordinal || atomic_load(&p->peers[ordinal]);
}

static CUresult access_check(CUmemoryPool handle, const CUmemLocation *location, int *ordinal)
{
    CUresult rc = driver_ready();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&lock);
    const struct sim_pool *p = pool_find(handle);
    *ordinal = p != NULL ? p->ordinal : -1;
    pthread_mutex_unlock(&lock);
    if (p == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return device_check(location->id);
}

static void access_store(CUmemoryPool handle, const CUmemAccessDesc *map, size_t n)
{
    pthread_mutex_lock(&lock);
    struct sim_pool *p = pool_find(handle);
    for (size_t i = 0; i < n && p != NULL; i++)
        p->peers[map[i].location.id] = map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    pthread_mutex_unlock(&lock);
}

SIM_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t n)
{
    if (map == NULL && n != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        int ordinal;
        CUresult rc = access_check(handle, &map[i].location, &ordinal);
        if (rc != CUDA_SUCCESS)
            return rc;
        if (map[i].location.id != ordinal && !devices_are_peers(map[i].location.id, ordinal))
            return CUDA_ERROR_INVALID_DEVICE;
        if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
            (map[i].location.id == ordinal || map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE))
            return CUDA_ERROR_NOT_SUPPORTED; /* the owner always has all of it, a peer all or none */
    }
    access_store(handle, map, n);
    return CUDA_SUCCESS;
}

static bool pool_allows(CUmemoryPool handle, int ordinal)
{
    pthread_mutex_lock(&lock);
    struct sim_pool *p = pool_find(handle);
    bool allows = p != NULL && pool_reaches(p, ordinal);
    pthread_mutex_unlock(&lock);
    return allows;
}

SIM_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *out, CUmemoryPool handle,
                                       CUmemLocation *location)
{
    if (out == NULL || location == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    int ordinal;
    CUresult rc = access_check(handle, location, &ordinal);
    if (rc == CUDA_SUCCESS)
        *out = pool_allows(handle, location->id) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return rc;
}

/* ---- a device's pools ------------------------------------------------------------------------------- */

static CUresult pool_of_device(CUmemoryPool *out, CUdevice dev, struct sim_pool *(*which)(int))
{
    CUresult rc = device_check(dev);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    *out = (CUmemoryPool)(void *)which(dev);
    pthread_mutex_unlock(&lock);
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
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
    CUresult rc = device_check(dev);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&lock);
    struct sim_pool *p = pool_find(handle);
    bool fits = p != NULL && p->ordinal == dev;
    if (fits)
        currents[dev] = p;
    pthread_mutex_unlock(&lock);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#if CUDA_VERSION >= 13000
/* The 13.0 calls name a place instead of a device; only pinned memory of a device has pools here. */
static CUresult place_check(const CUmemLocation *where, CUmemAllocationType type)
{
    if (where == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return where->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *where,
                                           CUmemAllocationType type)
{
    CUresult rc = place_check(where, type);
    return rc == CUDA_SUCCESS ? cuDeviceGetDefaultMemPool(out, where->id) : rc;
}

SIM_EXPORT CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *where,
                                    CUmemAllocationType type)
{
    CUresult rc = place_check(where, type);
    return rc == CUDA_SUCCESS ? cuDeviceGetMemPool(out, where->id) : rc;
}

SIM_EXPORT CUresult cuMemSetMemPool(CUmemLocation *where, CUmemAllocationType type,
                                    CUmemoryPool pool)
{
    CUresult rc = place_check(where, type);
    return rc == CUDA_SUCCESS ? cuDeviceSetMemPool(where->id, pool) : rc;
}
#endif
