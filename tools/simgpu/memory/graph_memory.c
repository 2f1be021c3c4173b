/*
 * graph_memory.c - the memory of graphs' allocation nodes; see graph_memory.h.
 */
#include "tools/simgpu/memory/graph_memory.h"
#include "tools/simgpu/memory/block.h"

static struct sim_pool *graphs[POOL_DEVICES]; /* by ordinal, made when needed; under pool_lock */

bool pool_is_graph_pool(const struct sim_pool *p)
{
    return p->place < POOL_DEVICES && p == graphs[p->place];
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The graph's block at ptr, or NULL. Under lock. */
static struct block *graph_block(CUdeviceptr ptr)
{
    struct block *b = block_find(ptr);
    return b && pool_is_graph_pool(b->pool) ? b : NULL;
}

void graph_block_mark(struct block *b, bool in_use)
{
    b->in_use = in_use;
    if (!in_use && b->refs == 0)
        block_make_free(b);
}

void graph_block_put(struct block *b)
{
    b->refs--;
    graph_block_mark(b, b->in_use);
}

void graph_memory_mark(CUdeviceptr ptr, bool in_use)
{
    SCOPED_LOCK(&pool_lock);
    struct block *b = graph_block(ptr);
    if (b)
        graph_block_mark(b, in_use);
}

bool graph_memory_in_use(CUdeviceptr ptr)
{
    SCOPED_LOCK(&pool_lock);
    const struct block *b = graph_block(ptr);
    return b && b->in_use;
}

/* ---- works: the node takes the address, and each copy of its work holds it ------------------- */

static void memory_retain(struct work *w)
{
    struct block *b = w->args.ptr[ALLOC_MEMORY];
    SCOPED_LOCK(&pool_lock);
    b->refs++;
}

static void memory_drop(struct work *w)
{
    SCOPED_LOCK(&pool_lock);
    graph_block_put(w->args.ptr[ALLOC_MEMORY]);
}

static CUresult memory_work(struct work *w, const char *name, CUgraphNodeType type, struct block *b)
{
    *w = (struct work){.kind = WORK_MARK,
                       .name = name,
                       .retain = memory_retain,
                       .drop = memory_drop,
                       .node_type = type};
    w->args.u64[ALLOC_PTR] = b->base;
    w->args.ptr[ALLOC_MEMORY] = b;
    memory_retain(w);
    return CUDA_SUCCESS;
}

CUresult graph_memory_alloc(struct sim_context *ctx, size_t bytes, struct work *w, CUdeviceptr *out)
{
    pthread_mutex_lock(&pool_lock);
    struct sim_pool **p = &graphs[ctx->ordinal];
    if (!*p)
        *p = pool_new(ctx->ordinal, MEMORY_POOL, true);
    struct block *b = *p ? block_find(block_take(*p, bytes, 0, NULL)) : NULL;
    pthread_mutex_unlock(&pool_lock);
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory_work(w, "graph_alloc", CU_GRAPH_NODE_TYPE_MEM_ALLOC, b);
    *out = b->base;
    w->args.u64[ALLOC_BYTES] = bytes;
    w->args.u64[ALLOC_DEVICE] = (uint64_t)ctx->ordinal;
    return CUDA_SUCCESS;
}

CUresult graph_memory_free(CUdeviceptr ptr, struct work *w)
{
    pthread_mutex_lock(&pool_lock);
    struct block *b = graph_block(ptr);
    pthread_mutex_unlock(&pool_lock);
    return b ? memory_work(w, "graph_free", CU_GRAPH_NODE_TYPE_MEM_FREE, b)
             : CUDA_ERROR_INVALID_VALUE;
}

/* ---- API ------------------------------------------------------------------------------------- */

/* There is nothing to trim: memory is given back with the graphs. */
SIM_CALL(cuDeviceGraphMemTrim, (CUdevice dev), device_check(dev))

SIM_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute,
                                                 void *value)
{
    TRY(device_check(dev));
    if (!value || (unsigned)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&pool_lock);
    const struct sim_pool *p = graphs[dev];
    const uint64_t values[] = {p ? p->used : 0, p ? p->used_high : 0, p ? p->reserved : 0,
                               p ? p->reserved_high : 0};
    memcpy(value, &values[attribute], sizeof(values[0]));
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
    SCOPED_LOCK(&pool_lock);
    struct sim_pool *p = graphs[dev];
    if (p && used)
        p->used_high = p->used;
    else if (p)
        p->reserved_high = p->reserved;
    return CUDA_SUCCESS;
}
