/*
 * table.c - the lock-free-read handle table (see table.h).
 */
#include "shim/objects/table.h"

#include "common/mutant.h"

static _Atomic(struct table_node *) *table_bucket(struct table *t, const void *key)
{
    /* Handles are addresses: multiply to bring the high bits of the product into the index. */
    uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    return &t->bucket[(hash >> 40) & (t->buckets - 1)];
}

static inline struct table_node *find(struct table *t, const void *key, table_match is,
                                      const void *user)
{
    for (;;) {
        uint32_t moves = atomic_load_explicit(&t->moves, memory_order_acquire);
        /* pairs with the release in table_insert */
        struct table_node *n = atomic_load_explicit(table_bucket(t, key), memory_order_acquire);
        while (n &&
               (atomic_load_explicit(&n->key, memory_order_acquire) != key || (is && !is(n, user))))
            n = atomic_load_explicit(&n->next, memory_order_acquire);
        if (n)
            return n;
        /* Behind every load of the walk, since those acquire. */
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

void table_insert(struct table *t, struct table_node *node, const void *key)
{
    _Atomic(struct table_node *) *head = table_bucket(t, key);
    pthread_mutex_lock(&t->lock);
    atomic_store_explicit(&node->key, key, memory_order_relaxed);
    atomic_store_explicit(&node->next, atomic_load_explicit(head, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(head, node, memory_order_release);
    pthread_mutex_unlock(&t->lock);
}

int table_remove(struct table *t, struct table_node *node)
{
    int found = 0;
    pthread_mutex_lock(&t->lock);
    _Atomic(struct table_node *) *link =
        table_bucket(t, atomic_load_explicit(&node->key, memory_order_relaxed));
    struct table_node *n;
    while ((n = atomic_load_explicit(link, memory_order_relaxed)) && n != node)
        link = &n->next;
    if (n) {
        atomic_store_explicit(link, atomic_load_explicit(&node->next, memory_order_relaxed),
                              memory_order_release);
        atomic_store_explicit(&node->key, NULL, memory_order_relaxed);
        atomic_fetch_add_explicit(&t->moves, 1, memory_order_release);
        found = 1;
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

/* A walk that went astray by the new `next` has then seen that there are more moves, too. */
struct table_node *table_take(struct table *t, table_match is, const void *user)
{
    struct table_node *taken = NULL, *n;
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < t->buckets; i++) {
        _Atomic(struct table_node *) *link = &t->bucket[i];
        while ((n = atomic_load_explicit(link, memory_order_relaxed))) {
            if (!is(n, user)) {
                link = &n->next;
                continue;
            }
            atomic_store_explicit(link, atomic_load_explicit(&n->next, memory_order_relaxed),
                                  memory_order_release);
            atomic_store_explicit(&n->key, NULL, memory_order_relaxed);
            atomic_fetch_add_explicit(&t->moves, 1, memory_order_release);
            atomic_store_explicit(&n->next, taken, memory_order_release);
            taken = n;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return taken;
}

void table_each(struct table *t, void (*visit)(struct table_node *, void *), void *user)
{
    STOP(table_each);
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < t->buckets; i++) {
        struct table_node *n = atomic_load_explicit(&t->bucket[i], memory_order_relaxed);
        while (n) {
            struct table_node *next = atomic_load_explicit(&n->next, memory_order_relaxed);
            visit(n, user);
            n = next;
        }
    }
    pthread_mutex_unlock(&t->lock);
}
