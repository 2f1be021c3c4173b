/*
 * block.c - blocks of memory pools (see block.h).
 */
#include "shim/objects/block.h"

#include <stdlib.h>
#include <utlist.h>

enum { LOOK = 64 }; /* an allocation looks at so many of its stream's newest buffered frees */

struct block {
    struct table_node node; /* by address */
    /* Grows with each change of the block's state and is never reset, so a free from an earlier
     * life of the block is not taken for one of this life. */
    _Atomic uint64_t serial;
    _Atomic(struct shim_stream *) stream; /* where its free is buffered; it is in stream->freed */
    size_t bytes;                         /* as the program asked for */
    CUmemoryPool pool;
    uint32_t pools; /* pools_changed when it was allocated */
    struct block *prev, *next;
};

TABLE(blocks);

/* For the state of blocks. Whether there is one, or its free is buffered, is read without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *spare; /* to be reused, by `next`; never freed, as table.h requires */
static _Atomic uint64_t count;
static uint32_t pools_changed = 1;
_Atomic uint64_t block_freed_bytes;

static struct block *block_find(CUdeviceptr at)
{
    if (likely(!atomic_load_explicit(&count, memory_order_relaxed)))
        return NULL;
    return (struct block *)(void *)table_find(&blocks, (const void *)(uintptr_t)at);
}

static CUdeviceptr block_at(const struct block *b)
{
    return (CUdeviceptr)(uintptr_t)atomic_load_explicit(&b->node.key, memory_order_acquire);
}

static void block_changes(struct block *b)
{
    atomic_fetch_add_explicit(&b->serial, 1, memory_order_release);
}

/* The block's free is no longer buffered. */
static inline void block_unlist(struct block *b)
{
    struct shim_stream *s = atomic_load_explicit(&b->stream, memory_order_relaxed);
    if (!s)
        return;
    DL_DELETE(s->freed, b);
    atomic_fetch_sub_explicit(&block_freed_bytes, b->bytes, memory_order_relaxed);
    atomic_store_explicit(&b->stream, NULL, memory_order_relaxed);
}

/* If the block is known already, the driver got it back by a way that the shim did not see. */
void block_add(CUdeviceptr at, size_t bytes, CUmemoryPool pool)
{
    pthread_mutex_lock(&lock);
    struct block *b = block_find(at);
    if (b) {
        block_unlist(b);
    } else if ((b = spare ? spare : calloc(1, sizeof(*b)))) {
        spare = b->next;
        table_insert(&blocks, &b->node, (const void *)(uintptr_t)at);
        atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    }
    if (b) {
        b->bytes = bytes;
        b->pool = pool;
        b->pools = pools_changed;
        block_changes(b);
    }
    pthread_mutex_unlock(&lock);
}

bool block_free_begin(CUdeviceptr at, struct block_free *f)
{
    struct block *b = block_find(at);
    *f = (struct block_free){0};
    if (!b)
        return true;
    uint64_t serial = atomic_load_explicit(&b->serial, memory_order_acquire);
    bool again = atomic_load_explicit(&b->stream, memory_order_relaxed);
    if (block_at(b) == at && !again)
        *f = (struct block_free){b, serial};
    return !again;
}

static bool block_is(struct block_free f)
{
    return f.block && atomic_load_explicit(&f.block->serial, memory_order_relaxed) == f.serial;
}

bool block_free_end(struct block_free f)
{
    if (!f.block)
        return true;
    pthread_mutex_lock(&lock);
    bool due = block_is(f);
    if (due) {
        block_unlist(f.block);
        table_remove(&blocks, &f.block->node);
        atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
        block_changes(f.block);
        f.block->next = spare;
        spare = f.block;
    }
    pthread_mutex_unlock(&lock);
    return due;
}

void block_forget(CUdeviceptr at)
{
    struct block_free f;
    if (likely(!atomic_load_explicit(&count, memory_order_relaxed)))
        return;
    block_free_begin(at, &f);
    block_free_end(f);
}

void block_free_buffered(struct block_free *f, struct shim_stream *s)
{
    pthread_mutex_lock(&lock);
    if (block_is(*f)) {
        block_changes(f->block);
        f->serial++;
        atomic_store_explicit(&f->block->stream, s, memory_order_relaxed);
        DL_PREPEND(s->freed, f->block);
        atomic_fetch_add_explicit(&block_freed_bytes, f->block->bytes, memory_order_relaxed);
    } else {
        f->block = NULL;
    }
    pthread_mutex_unlock(&lock);
}

/* Of exactly that size: then the driver's answers about the address are those for a new block. */
CUdeviceptr block_take(struct shim_stream *s, size_t bytes, CUmemoryPool pool)
{
    CUdeviceptr at = 0;
    pthread_mutex_lock(&lock);
    struct block *b = s->freed;
    for (int i = 0; b && i <= LOOK && !at; i++, b = b->next)
        if (b->bytes == bytes && b->pool == pool && b->pools == pools_changed) {
            block_unlist(b);
            block_changes(b);
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
