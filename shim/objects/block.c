/*
 * block.c - blocks of memory pools (see block.h).
 */
#include "shim/objects/block.h"

#include <utlist.h>

#include "shim/objects/pool.h"
#include "shim/objects/table.h"

enum {
    BUCKETS = 1024,
    LOOK = 64, /* of a stream's buffered frees, the newest, that an allocation looks at */
};

enum block_state { BLOCK_LIVE, BLOCK_FREEING, BLOCK_BUFFERED };

struct block {
    struct table_node node; /* by address */
    size_t bytes;           /* as asked for */
    CUmemoryPool pool;
    uint64_t serial; /* counts on for ever: a later life of the struct is no earlier free's */
    uint32_t pools;  /* pools_changed when it was allocated */
    enum block_state state;
    struct shim_stream *stream; /* its free is buffered there, one of stream->freed */
    struct block *prev, *next;
    void *free_next;
};

TABLE(blocks, BUCKETS);
POOL(block_pool, struct block, free_next);

/* Everything but the look whether there is such a block. For the work of this file only. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t pools_changed = 1;
static _Atomic uint64_t freed_bytes; /* of blocks whose free is buffered */

uint64_t block_freed_bytes(void)
{
    return atomic_load_explicit(&freed_bytes, memory_order_relaxed);
}

static struct block *block_find(CUdeviceptr at)
{
    return (struct block *)(void *)table_find(&blocks, (const void *)(uintptr_t)at);
}

static CUdeviceptr block_at(const struct block *b)
{
    return (CUdeviceptr)(uintptr_t)atomic_load_explicit(&b->node.key, memory_order_relaxed);
}

static void block_end(struct block *b)
{
    table_remove(&blocks, &b->node);
    b->serial++;
    pool_put(&block_pool, b);
}

static void block_unlist(struct block *b)
{
    DL_DELETE(b->stream->freed, b);
    atomic_fetch_sub_explicit(&freed_bytes, b->bytes, memory_order_relaxed);
}

/* One that is there already went in a way that nobody saw. */
void block_add(CUdeviceptr at, size_t bytes, CUmemoryPool pool)
{
    pthread_mutex_lock(&lock);
    struct block *b = block_find(at);
    bool fresh = !b;
    if (b && b->state == BLOCK_BUFFERED)
        block_unlist(b);
    if (fresh)
        b = pool_get(&block_pool);
    if (b) {
        b->bytes = bytes;
        b->pool = pool;
        b->serial++;
        b->pools = pools_changed;
        b->state = BLOCK_LIVE;
    }
    if (b && fresh)
        table_insert(&blocks, &b->node, (const void *)(uintptr_t)at);
    pthread_mutex_unlock(&lock);
}

void block_forget(CUdeviceptr at)
{
    if (likely(!block_find(at)))
        return;
    pthread_mutex_lock(&lock);
    struct block *b = block_find(at);
    if (b && b->state == BLOCK_LIVE)
        block_end(b);
    pthread_mutex_unlock(&lock);
}

bool block_free_begin(CUdeviceptr at, struct block_free *f)
{
    *f = (struct block_free){0};
    pthread_mutex_lock(&lock);
    struct block *b = block_find(at);
    bool again = b && b->state == BLOCK_BUFFERED;
    if (b && b->state == BLOCK_LIVE) {
        b->state = BLOCK_FREEING;
        *f = (struct block_free){b, ++b->serial};
    }
    pthread_mutex_unlock(&lock);
    return !again;
}

void block_free_buffered(struct block_free f, struct shim_stream *s)
{
    struct block *b = f.block;
    pthread_mutex_lock(&lock);
    if (b->serial == f.serial) {
        b->state = BLOCK_BUFFERED;
        b->stream = s;
        DL_PREPEND(s->freed, b);
        atomic_fetch_add_explicit(&freed_bytes, b->bytes, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
}

void block_free_end(struct block_free f, bool made)
{
    pthread_mutex_lock(&lock);
    if (f.block->serial == f.serial) {
        f.block->state = BLOCK_LIVE;
        if (made)
            block_end(f.block);
    }
    pthread_mutex_unlock(&lock);
}

bool block_free_due(struct block_free f)
{
    if (!f.block)
        return true;
    pthread_mutex_lock(&lock);
    bool due = f.block->serial == f.serial;
    if (due) {
        block_unlist(f.block);
        block_end(f.block);
    }
    pthread_mutex_unlock(&lock);
    return due;
}

/* Its size is exactly the one that is asked for, so whoever asks the driver about the address hears
 * what he would hear of a new block. */
static bool block_serves(const struct block *b, size_t bytes, CUmemoryPool pool)
{
    return b->bytes == bytes && b->pool == pool && b->pools == pools_changed;
}

CUdeviceptr block_take(struct shim_stream *s, size_t bytes, CUmemoryPool pool)
{
    CUdeviceptr at = 0;
    pthread_mutex_lock(&lock);
    struct block *b = s->freed;
    for (int i = 0; b && i < LOOK && !block_serves(b, bytes, pool); i++)
        b = b->next;
    if (b && block_serves(b, bytes, pool)) {
        block_unlist(b);
        b->state = BLOCK_LIVE;
        b->serial++;
        at = block_at(b);
    }
    pthread_mutex_unlock(&lock);
    return at;
}

void block_pools_changed(void)
{
    pthread_mutex_lock(&lock);
    pools_changed++;
    pthread_mutex_unlock(&lock);
}

void block_known_elsewhere(CUdeviceptr at)
{
    pthread_mutex_lock(&lock);
    struct block *b = block_find(at);
    if (b)
        b->pools = 0;
    pthread_mutex_unlock(&lock);
}
