/*
 * graph_memory.c - memory of graphs' allocation nodes; see graph_memory.h.
 */
#include "tools/simgpu/memory/graph_memory.h"
#include "tools/simgpu/memory/block.h"

#include <stdlib.h>
#include <string.h>

static struct sim_pool *graphs[POOL_DEVICES]; /* by ordinal, made when needed; under pool_lock */

bool graph_memory_is(const struct sim_pool *p)
{
    return p == graphs[p->ordinal];
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static CUdeviceptr graph_block_take(struct sim_context *ctx, size_t bytes)
{
    CUdeviceptr ptr = 0;
    pthread_mutex_lock(&pool_lock);
    if (!graphs[ctx->ordinal])
        graphs[ctx->ordinal] = pool_new(ctx->ordinal, true);
    if (graphs[ctx->ordinal])
        ptr = block_take(graphs[ctx->ordinal], bytes, 0, NULL);
    pthread_mutex_unlock(&pool_lock);
    return ptr;
}

static void graph_block_give(CUdeviceptr ptr)
{
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p;
    struct block *b = block_find(ptr, &p);
    if (b)
        block_freed(p, b);
    pthread_mutex_unlock(&pool_lock);
}

/* The graph's block at ptr, or NULL. Under lock. */
static struct block *graph_block(CUdeviceptr ptr)
{
    struct sim_pool *p;
    struct block *b = block_find(ptr, &p);
    return b && graph_memory_is(p) ? b : NULL;
}

bool graph_memory_owns(CUdeviceptr ptr)
{
    pthread_mutex_lock(&pool_lock);
    bool owns = graph_block(ptr);
    pthread_mutex_unlock(&pool_lock);
    return owns;
}

void graph_memory_mark(CUdeviceptr ptr, bool in_use)
{
    pthread_mutex_lock(&pool_lock);
    struct block *b = graph_block(ptr);
    if (b)
        b->in_use = in_use;
    pthread_mutex_unlock(&pool_lock);
}

bool graph_memory_in_use(CUdeviceptr ptr)
{
    pthread_mutex_lock(&pool_lock);
    const struct block *b = graph_block(ptr);
    bool in_use = b && b->in_use;
    pthread_mutex_unlock(&pool_lock);
    return in_use;
}

/* ---- works: the address is taken with the node, and held by every copy of its work ----------- */

struct graph_memory {
    _Atomic int holders;
    CUdeviceptr ptr;
};

static void alloc_hold(struct work *w)
{
    struct graph_memory *m = w->args.ptr[ALLOC_MEMORY];
    atomic_fetch_add(&m->holders, 1);
}

static void alloc_drop(struct work *w)
{
    struct graph_memory *m = w->args.ptr[ALLOC_MEMORY];
    if (atomic_fetch_sub(&m->holders, 1) != 1)
        return;
    graph_block_give(m->ptr);
    free(m);
}

CUresult graph_memory_alloc(struct sim_context *ctx, size_t bytes, struct work *w, CUdeviceptr *out)
{
    struct graph_memory *m = calloc(1, sizeof(*m));
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->ptr = graph_block_take(ctx, bytes);
    if (m->ptr == 0) {
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_store(&m->holders, 1);
    *w = (struct work){.kind = WORK_MARK,
                       .name = "graph_alloc",
                       .hold = alloc_hold,
                       .drop = alloc_drop,
                       .node_type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    w->args.u64[ALLOC_PTR] = *out = m->ptr;
    w->args.u64[ALLOC_BYTES] = bytes;
    w->args.u64[ALLOC_DEVICE] = (uint64_t)ctx->ordinal;
    w->args.ptr[ALLOC_MEMORY] = m;
    return CUDA_SUCCESS;
}

CUresult graph_memory_free(CUdeviceptr ptr, struct work *w)
{
    if (!graph_memory_owns(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    *w = (struct work){
        .kind = WORK_MARK, .name = "graph_free", .node_type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    w->args.u64[ALLOC_PTR] = ptr;
    return CUDA_SUCCESS;
}

/* ---- API ------------------------------------------------------------------------------------- */

SIM_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
    return device_check(dev); /* given back with the graphs already */
}

SIM_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute,
                                                 void *value)
{
    TRY(device_check(dev));
    if (!value || (unsigned)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&pool_lock);
    const struct sim_pool *p = graphs[dev];
    const uint64_t values[] = {p ? p->used : 0, p ? p->used_high : 0, p ? p->reserved : 0,
                               p ? p->reserved_high : 0};
    memcpy(value, &values[attribute], sizeof(values[0]));
    pthread_mutex_unlock(&pool_lock);
    return CUDA_SUCCESS;
}

/* Only the high-water marks can be set, and only to zero. */
SIM_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute,
                                                 void *value)
{
    TRY(device_check(dev));
    bool used = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
    if (!value || *(uint64_t *)value != 0 ||
        (!used && attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p = graphs[dev];
    if (p && used)
        p->used_high = p->used;
    else if (p)
        p->reserved_high = p->reserved;
    pthread_mutex_unlock(&pool_lock);
    return CUDA_SUCCESS;
}
