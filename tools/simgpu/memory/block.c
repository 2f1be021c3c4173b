/*
 * block.c - pools and their blocks; see block.h.
 */
#include "tools/simgpu/memory/block.h"
#include "tools/simgpu/memory/space.h"

#include <utlist.h>

pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_pool *pools; /* all of them */
static _Atomic bool any_pools;

struct sim_pool *pool_new(int place, enum memory_kind kind, bool fixed)
{
    struct sim_pool *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->place = place;
    p->kind = kind;
    p->fixed = fixed;
    for (int i = 1; i < 4; i++)
        p->reuse[i] = 1;
    LL_PREPEND(pools, p);
    any_pools = true;
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

static void pool_uncharge(struct sim_pool *p, size_t whole)
{
    p->reserved -= whole;
    if (p->place < POOL_DEVICES)
        memory_uncharge(p->place, whole);
}

static bool pool_charge(struct sim_pool *p, size_t whole)
{
    if (p->most != 0 && whole > p->most - p->reserved)
        return false;
    if (p->place < POOL_DEVICES && !memory_charge(p->place, whole))
        return false;
    p->reserved += whole;
    return true;
}

/* Gives the block's memory back to the device and forgets the block. */
static void block_release(struct block *b)
{
    if (b->state != BLOCK_FREE)
        memory_remove(b->base, NULL);
    space_give(b->base, b->whole);
    if (!b->promised)
        pool_uncharge(b->pool, b->whole);
    DL_DELETE(b->pool->blocks, b);
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

CUresult pools_trim(CUresult rc)
{
    struct sim_pool *p;
    if (!any_pools)
        return rc;
    SCOPED_LOCK(&pool_lock);
    LL_FOREACH (pools, p) {
        pool_trim(p, p->threshold);
    }
    return rc;
}

static bool block_table_add(const struct block *b)
{
    struct memory m = {.base = b->base,
                       .bytes = b->whole,
                       .kind = b->pool->kind,
                       .flags = b->pool->kind == MEMORY_MANAGED ? CU_MEM_ATTACH_GLOBAL : 0,
                       .ordinal = b->pool->place < POOL_DEVICES ? b->pool->place : CU_DEVICE_CPU,
                       .owner = b->pool};
    return memory_add(&m) == 0;
}

static bool block_usable(const struct block *b, uint32_t stream)
{
    return b->state == BLOCK_FREE ||
           (b->state == BLOCK_FREEING && b->freed.stream == stream && !b->promised);
}

/* Whether the stream could have the block if it waited for the block's free. */
static bool block_awaitable(const struct block *b, uint32_t stream)
{
    return b->state == BLOCK_FREEING && b->freed.stream != stream && b->freed.seq != 0 &&
           !b->promised;
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

/* Charges the pool for new memory. If that fails, the pool first gives up all free blocks. */
static bool pool_grow(struct sim_pool *p, size_t whole)
{
    if (pool_charge(p, whole))
        return true;
    pool_trim(p, 0);
    return pool_charge(p, whole);
}

static struct block *block_new(struct sim_pool *p, size_t whole)
{
    struct block *b = calloc(1, sizeof(*b));
    if (!b || !pool_grow(p, whole)) {
        free(b);
        return NULL;
    }
    b->pool = p;
    b->whole = whole;
    b->base = space_take(whole, SPACE_GRAIN);
    if (b->base != 0 && block_table_add(b)) {
        DL_APPEND(p->blocks, b);
        return b;
    }
    if (b->base != 0)
        space_give(b->base, whole);
    pool_uncharge(p, whole);
    free(b);
    return NULL;
}

/* The CUDA programming guide: if the device has no more memory, the driver looks for memory that
 * another stream will free, and makes the allocating stream wait for that. */
static struct block *block_await(struct sim_pool *p, size_t whole, uint32_t stream,
                                 struct point *after)
{
    if (!after || !p->reuse[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES])
        return NULL;
    struct block *b = block_best(p, whole, stream, block_awaitable), *made = NULL;
    if (b) {
        *after = b->freed;
        return b;
    }
    struct block *promised[AWAITED_MAX]; /* no block fits: memory of several, for a new one */
    size_t n = 0;
    DL_FOREACH (p->blocks, b) {
        if (made || n == AWAITED_MAX)
            break;
        if (b->state != BLOCK_FREEING || b->promised || !b->freed.seq)
            continue;
        pool_uncharge(p, b->whole);
        b->promised = true;
        after[n] = b->freed;
        promised[n++] = b;
        made = block_new(p, whole);
    }
    while (!made && n-- > 0) {
        promised[n]->promised = !pool_charge(p, promised[n]->whole);
        after[n] = (struct point){0, 0};
    }
    return made;
}

CUdeviceptr block_take(struct sim_pool *p, size_t bytes, uint32_t stream, struct point *after)
{
    size_t whole = ((bytes ? bytes : 1) + SPACE_GRAIN - 1) / SPACE_GRAIN * SPACE_GRAIN;
    if (whole < bytes)
        return 0;
    struct block *b = block_best(p, whole, stream, block_usable);
    if (b && b->state == BLOCK_FREE && !block_table_add(b))
        b = NULL;
    if (!b)
        b = block_new(p, whole);
    if (!b)
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
    if (!memory_find_base(base, &m) || !memory_pool(&m))
        return NULL;
    struct block *b;
    DL_FOREACH (memory_pool(&m)->blocks, b) {
        if (b->base == base)
            return b;
    }
    return NULL;
}

void block_make_free(struct block *b)
{
    struct sim_pool *p = b->pool;
    memory_remove(b->base, NULL);
    b->state = BLOCK_FREE;
    p->used -= b->whole;
    if (b->promised)
        block_release(b);
    if (p->destroyed)
        pool_trim(p, 0);
}
