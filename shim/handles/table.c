/*
 * table.c - the handle table that is read without a lock (see table.h).
 */
#include "shim/handles/table.h"

#include <stdlib.h>
#include <string.h>

#include "common/mutant.h"

static uint32_t chain_of(const struct table_buckets *b, const void *key)
{
    /* Handles are addresses: multiply to bring the high bits of the product into the index. */
    uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 40) & b->mask;
}

static inline struct table_node *find(struct table *t, const void *key, table_match is,
                                      const void *user)
{
    for (;;) {
        uint32_t moves = atomic_load_explicit(&t->moves, memory_order_acquire);
        /* pair with the releases in table_grow and table_insert */
        const struct table_buckets *b = atomic_load_explicit(&t->buckets, memory_order_acquire);
        struct table_node *n =
            atomic_load_explicit(&b->head[chain_of(b, key)], memory_order_acquire);
        while (n &&
               (atomic_load_explicit(&n->key, memory_order_acquire) != key || (is && !is(n, user))))
            n = atomic_load_explicit(&n->next[b->side], memory_order_acquire);
        if (n)
            return n;
        /* Stays behind all loads of the walk, since those acquire. */
        if (atomic_load_explicit(&t->moves, memory_order_relaxed) == moves)
            return NULL;
    }
}

struct table_node *table_find(struct table *t, const void *key)
{
    return find(t, key, NULL, NULL);
}

struct table_node *table_find_where(struct table *t, const void *key, table_match is,
                                    const void *user)
{
    return find(t, key, is, user);
}

/* ---- writers, under the lock ---------------------------------------------------------------- */

static struct table_buckets *buckets(struct table *t)
{
    return atomic_load_explicit(&t->buckets, memory_order_relaxed);
}

static struct table_node *next_of(const struct table_buckets *b, struct table_node *n)
{
    return atomic_load_explicit(&n->next[b->side], memory_order_relaxed);
}

static void moved(struct table *t)
{
    uint32_t moves = atomic_load_explicit(&t->moves, memory_order_relaxed);
    atomic_store_explicit(&t->moves, moves + 1, memory_order_release);
}

static void link_in(struct table_buckets *b, struct table_node *n, const void *key)
{
    _Atomic(struct table_node *) *head = &b->head[chain_of(b, key)];
    atomic_store_explicit(&n->next[b->side], atomic_load_explicit(head, memory_order_relaxed),
                          memory_order_release);
    atomic_store_explicit(head, n, memory_order_release);
}

/* Without memory the table stays small, and its chains get longer. */
static void table_grow(struct table *t)
{
    struct table_buckets *old = buckets(t), *b;
    size_t count = ((size_t)old->mask + 1) * 2;
    if (!(b = calloc(1, sizeof(*b) + count * sizeof(*b->head))))
        return;
    *b = (struct table_buckets){(uint32_t)count - 1, !old->side, (void *)(b + 1), old};
    for (uint32_t i = 0; i <= old->mask; i++)
        for (struct table_node *n = atomic_load_explicit(&old->head[i], memory_order_relaxed); n;
             n = next_of(old, n))
            link_in(b, n, atomic_load_explicit(&n->key, memory_order_relaxed));
    atomic_store_explicit(&t->buckets, b, memory_order_release);
    moved(t);
}

static inline __attribute__((always_inline)) void insert(struct table *t, struct table_node *node,
                                                         const void *key)
{
    if (2 * t->count++ > buckets(t)->mask)
        table_grow(t);
    atomic_store_explicit(&node->key, key, memory_order_relaxed);
    link_in(buckets(t), node, key);
}

void table_insert(struct table *t, struct table_node *node, const void *key)
{
    pthread_mutex_lock(&t->lock);
    insert(t, node, key);
    pthread_mutex_unlock(&t->lock);
}

struct table_node *table_insert_once(struct table *t, struct table_node *node, const void *key)
{
    pthread_mutex_lock(&t->lock);
    struct table_node *first = table_find(t, key);
    if (!first)
        insert(t, first = node, key);
    pthread_mutex_unlock(&t->lock);
    return first;
}

static bool has_key(const struct table_node *n, const void *key)
{
    return !key || atomic_load_explicit(&n->key, memory_order_relaxed) == key;
}

/* A walk that the new next[0] leads astray sees the new `moves`, too, which was written before. */
static inline __attribute__((always_inline)) struct table_node *
take(struct table *t, const void *key, table_match is, const void *user)
{
    struct table_node *n, *taken = NULL;
    pthread_mutex_lock(&t->lock);
    const struct table_buckets *b = buckets(t);
    uint32_t last = key ? chain_of(b, key) : b->mask;
    for (uint32_t i = key ? last : 0; i <= last; i++) {
        _Atomic(struct table_node *) *link = &b->head[i];
        while ((n = atomic_load_explicit(link, memory_order_relaxed))) {
            if (!has_key(n, key) || (is && !is(n, user))) {
                link = &n->next[b->side];
                continue;
            }
            atomic_store_explicit(link, next_of(b, n), memory_order_release);
            atomic_store_explicit(&n->key, NULL, memory_order_relaxed);
            moved(t);
            atomic_store_explicit(&n->next[0], taken, memory_order_release);
            taken = n;
            t->count--;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return taken;
}

struct table_node *table_take(struct table *t, const void *key, table_match is, const void *user)
{
    return take(t, key, is, user);
}

static bool is_it(const struct table_node *node, const void *it)
{
    return node == it;
}

bool table_remove(struct table *t, struct table_node *node)
{
    const void *key = atomic_load_explicit(&node->key, memory_order_relaxed);
    return key && take(t, key, is_it, node);
}

void table_each(struct table *t, const void *key, table_visit visit, void *user)
{
    STOP(table_each);
    pthread_mutex_lock(&t->lock);
    const struct table_buckets *b = buckets(t);
    uint32_t last = key ? chain_of(b, key) : b->mask;
    for (uint32_t i = key ? last : 0; i <= last; i++) {
        struct table_node *n = atomic_load_explicit(&b->head[i], memory_order_relaxed);
        for (; n; n = next_of(b, n))
            if (has_key(n, key))
                visit(n, user);
    }
    pthread_mutex_unlock(&t->lock);
}

#define POOL_ALIGN 64

void *pool_get(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    void *object = p->free;
    if (object)
        p->free = *(void **)((char *)object + p->link);
    pthread_mutex_unlock(&p->lock);
    if (object)
        return object;
    size_t bytes = (p->size + POOL_ALIGN - 1) & ~(size_t)(POOL_ALIGN - 1);
    object = aligned_alloc(POOL_ALIGN, bytes);
    return object ? memset(object, 0, bytes) : NULL;
}

void pool_put(struct pool *p, void *object)
{
    pthread_mutex_lock(&p->lock);
    *(void **)((char *)object + p->link) = p->free;
    p->free = object;
    pthread_mutex_unlock(&p->lock);
}
