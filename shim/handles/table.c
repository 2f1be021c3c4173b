/*
 * table.c - the handle table that is read without a lock (see table.h).
 */
#include "shim/handles/table.h"

#include <stdlib.h>

#include "common/mutant.h"

static _Atomic(struct table_node *) *head_of(const struct table_buckets *b, const void *key)
{
    /* Handles are addresses: multiply to bring the high bits of the product into the index. */
    uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    return &b->head[(hash >> 40) & b->mask];
}

static inline struct table_node *find(struct table *t, const void *key, table_match is,
                                      const void *user)
{
    for (;;) {
        uint32_t moves = atomic_load_explicit(&t->moves, memory_order_acquire);
        /* pair with the releases in table_grow and table_insert */
        const struct table_buckets *b = atomic_load_explicit(&t->buckets, memory_order_acquire);
        struct table_node *n = atomic_load_explicit(head_of(b, key), memory_order_acquire);
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
    _Atomic(struct table_node *) *head = head_of(b, key);
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

/* Takes the matching nodes of a chain, and puts them in front of `taken`. A walk that follows the
 * new next[0] off its chain sees the new `moves`, too, which was written before. */
static inline struct table_node *chain_take(struct table *t, _Atomic(struct table_node *) *link,
                                            table_match is, const void *user,
                                            struct table_node *taken)
{
    const struct table_buckets *b = buckets(t);
    struct table_node *n;
    while ((n = atomic_load_explicit(link, memory_order_relaxed))) {
        if (!is(n, user)) {
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
    return taken;
}

struct table_node *table_take(struct table *t, table_match is, const void *user)
{
    struct table_node *taken = NULL;
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i <= buckets(t)->mask; i++)
        taken = chain_take(t, &buckets(t)->head[i], is, user, taken);
    pthread_mutex_unlock(&t->lock);
    return taken;
}

static struct table_node *take_from(struct table *t, const void *key, table_match is,
                                    const void *user)
{
    pthread_mutex_lock(&t->lock);
    struct table_node *taken = chain_take(t, head_of(buckets(t), key), is, user, NULL);
    pthread_mutex_unlock(&t->lock);
    return taken;
}

static bool has_key(const struct table_node *node, const void *key)
{
    return atomic_load_explicit(&node->key, memory_order_relaxed) == key;
}

struct table_node *table_take_key(struct table *t, const void *key)
{
    return take_from(t, key, has_key, key);
}

static bool is_it(const struct table_node *node, const void *it)
{
    return node == it;
}

int table_remove(struct table *t, struct table_node *node)
{
    return !!take_from(t, atomic_load_explicit(&node->key, memory_order_relaxed), is_it, node);
}

static void chain_each(struct table *t, _Atomic(struct table_node *) *head, const void *key,
                       table_visit visit, void *user)
{
    struct table_node *n = atomic_load_explicit(head, memory_order_relaxed);
    for (; n; n = next_of(buckets(t), n))
        if (!key || has_key(n, key))
            visit(n, user);
}

void table_each(struct table *t, table_visit visit, void *user)
{
    STOP(table_each);
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i <= buckets(t)->mask; i++)
        chain_each(t, &buckets(t)->head[i], NULL, visit, user);
    pthread_mutex_unlock(&t->lock);
}

void table_each_key(struct table *t, const void *key, table_visit visit, void *user)
{
    pthread_mutex_lock(&t->lock);
    chain_each(t, head_of(buckets(t), key), key, visit, user);
    pthread_mutex_unlock(&t->lock);
}
