/*
 * block.c - pools and their blocks; see block.h.
 */
#include "tools/simgpu/memory/block.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/memory/space.h"

#include <stdlib.h>
#include <utlist.h>

pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_pool *pools; /* all of them */

struct sim_pool *pool_new(int ordinal, bool fixed)
{
    struct sim_pool *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->ordinal = ordinal;
    p->fixed = fixed;
    for (int i = 1; i < 4; i++)
        p->reuse[i] = 1;
    LL_PREPEND(pools, p);
    return p;
}

struct sim_pool *pool_find(CUmemoryPool handle)
{
    struct sim_pool *p = pools;
    while (p && (void *)p != (void *)handle)
        p = p->next;
    return p && !p->destroyed ? p : NULL;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Back to the device for good. */
static void block_release(struct block *b)
{
    struct sim_pool *p = b->pool;
    if (b->state != BLOCK_FREE)
        memory_remove(b->base, NULL);
    space_give(b->base, b->whole);
    memory_uncharge(p->ordinal, b->whole);
    p->reserved -= b->whole;
    DL_DELETE(p->blocks, b);
    free(b);
}

void pool_trim(struct sim_pool *p, uint64_t keep)
{
    struct block *b, *next;
    DL_FOREACH_SAFE(p->blocks, b, next)
    {
        if (p->reserved <= keep)
            break;
        if (b->state == BLOCK_FREE)
            block_release(b);
    }
}

void pools_trim(int ordinal)
{
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p;
    LL_FOREACH (pools, p) {
        if (p->ordinal == ordinal)
            pool_trim(p, 0);
    }
    pthread_mutex_unlock(&pool_lock);
}

static bool block_list(const struct block *b)
{
    struct memory m = {.base = b->base,
                       .bytes = b->whole,
                       .kind = MEMORY_POOL,
                       .ordinal = b->pool->ordinal,
                       .id = memory_next_id(),
                       .owner = b->pool};
    return memory_add(&m) == 0;
}

static bool block_usable(const struct block *b, uint32_t stream)
{
    return b->state == BLOCK_FREE || (b->state == BLOCK_FREEING && b->freed.stream == stream);
}

/* By a stream that waits for its free. */
static bool block_due(const struct block *b, uint32_t stream)
{
    return b->state == BLOCK_FREEING && b->freed.stream != stream && b->freed.seq != 0;
}

/* The smallest block that fits without wasting more than half of it. */
static struct block *block_best(struct sim_pool *p, size_t whole, uint32_t stream,
                                bool (*may)(const struct block *b, uint32_t stream))
{
    struct block *best = NULL, *b;
    DL_FOREACH (p->blocks, b) {
        if (may(b, stream) && b->whole >= whole && b->whole / 2 <= whole &&
            (!best || b->whole < best->whole))
            best = b;
    }
    return best;
}

static struct block *block_reuse(struct sim_pool *p, size_t whole, uint32_t stream)
{
    struct block *best = block_best(p, whole, stream, block_usable);
    if (best && best->state == BLOCK_FREE && !block_list(best))
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
    struct block *b = calloc(1, sizeof(*b));
    if (!b || !pool_charge(p, whole)) {
        free(b);
        return NULL;
    }
    b->pool = p;
    b->whole = whole;
    b->base = space_take(whole, SPACE_GRAIN);
    if (b->base != 0 && block_list(b)) {
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

/* Where the device has no more memory, says the CUDA programming guide, the driver looks for what
 * waits for another stream, and lets the allocating one wait for that. */
static struct block *block_await(struct sim_pool *p, size_t whole, uint32_t stream,
                                 struct point *after)
{
    bool allowed = after && p->reuse[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES];
    struct block *b = allowed ? block_best(p, whole, stream, block_due) : NULL;
    if (b)
        *after = b->freed;
    return b;
}

CUdeviceptr block_take(struct sim_pool *p, size_t bytes, uint32_t stream, struct point *after)
{
    size_t whole = (bytes + SPACE_GRAIN - 1) / SPACE_GRAIN * SPACE_GRAIN;
    struct block *b = whole >= bytes ? block_reuse(p, whole, stream) : NULL;
    if (!b && whole >= bytes)
        b = block_new(p, whole);
    if (!b && whole >= bytes)
        b = block_await(p, whole, stream, after);
    if (!b)
        return 0;
    if (b->state != BLOCK_FREEING)
        p->used += b->whole; /* a block being freed still counts as used: no change */
    b->state = BLOCK_LIVE;
    b->ticket = 0;
    p->used_high = p->used > p->used_high ? p->used : p->used_high;
    p->reserved_high = p->reserved > p->reserved_high ? p->reserved : p->reserved_high;
    return b->base;
}

struct block *block_find(CUdeviceptr base)
{
    struct memory m;
    if (!memory_find_base(base, &m) || m.kind != MEMORY_POOL)
        return NULL;
    struct block *b;
    DL_FOREACH (((struct sim_pool *)m.owner)->blocks, b) {
        if (b->base == base)
            return b;
    }
    return NULL;
}

void block_freed(struct block *b)
{
    struct sim_pool *p = b->pool;
    memory_remove(b->base, NULL);
    b->state = BLOCK_FREE;
    p->used -= b->whole;
    pool_trim(p, p->destroyed ? 0 : p->threshold);
}
