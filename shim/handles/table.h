/*
 * table.h - handles of the driver to the shim's own structs.
 *
 * An intrusive chained hash that is read without a lock: a real-time thread finds a stream while a
 * best-effort thread inserts another. Nodes are in type-stable memory, a POOL: a node may be
 * recycled during a walk over it, which leads that walk astray but never out of valid memory.
 * `moves` counts removals and growths, so a walk that found nothing knows whether to look again.
 *
 * The table grows with its nodes. A node has two links: the larger table is built with one while
 * walks use the other. The next growth reuses that one; `moves` tells walks that last so long.
 */
#ifndef CUTIN_SHIM_HANDLES_TABLE_H
#define CUTIN_SHIM_HANDLES_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_node {
    _Atomic(const void *) key;
    _Atomic(struct table_node *) next[2];
};

/* The struct that has `node` as a member other than its first. */
#define TABLE_OWNER(type, member, node)                                                            \
    ((type *)(void *)((const char *)(node) - offsetof(type, member)))

struct table_buckets {
    uint32_t mask; /* number of buckets, a power of two, less 1 */
    uint32_t side; /* which of `next` they use */
    _Atomic(struct table_node *) *head;
    struct table_buckets *smaller; /* replaced by these; walks may still use it */
};

struct table {
    pthread_mutex_t lock; /* for writers */
    _Atomic uint32_t moves;
    uint32_t count; /* of nodes */
    _Atomic(struct table_buckets *) buckets;
};

enum { TABLE_FIRST = 16 };
#define TABLE(name)                                                                                \
    static _Atomic(struct table_node *) name##_heads[TABLE_FIRST];                                 \
    static struct table_buckets name##_first = {.mask = TABLE_FIRST - 1, .head = name##_heads};    \
    static struct table name = {.lock = PTHREAD_MUTEX_INITIALIZER, .buckets = &name##_first}

/* The node of `key`, or NULL. Lock free. */
struct table_node *table_find(struct table *t, const void *key);
/* The first node of that key for which `is` holds. */
typedef bool (*table_match)(const struct table_node *node, const void *user);
struct table_node *table_find_where(struct table *t, const void *key, table_match is,
                                    const void *user);
/* Inserts under `key`. The table must not contain another node that the same search would find. */
void table_insert(struct table *t, struct table_node *node, const void *key);
/* The same unless a node of that key is there. Returns that one, else `node`. */
struct table_node *table_insert_once(struct table *t, struct table_node *node, const void *key);
/* Removes the node. False: it was not in the table. */
bool table_remove(struct table *t, struct table_node *node);
/* Removes the nodes of `key` (NULL: of all keys) for which `is` holds (NULL: for all). They are
 * linked by next[0]. */
struct table_node *table_take(struct table *t, const void *key, table_match is, const void *user);
/* Calls `visit` for the nodes of `key` (NULL: of all keys), under the writers' lock. */
typedef void (*table_visit)(struct table_node *node, void *user);
void table_each(struct table *t, const void *key, table_visit visit, void *user);

/* Type-stable memory: objects are recycled, never given back to malloc. The price is memory for the
 * peak number of objects; creating and destroying does not add to it. */
struct pool {
    pthread_mutex_t lock;
    size_t size; /* of one object; at least that of a pointer */
    size_t link; /* offset of the free-list link; stale readers must not read there */
    void *free;
};

#define POOL(name, type, link_field)                                                               \
    static struct pool name = {.lock = PTHREAD_MUTEX_INITIALIZER,                                  \
                               .size = sizeof(type),                                               \
                               .link = offsetof(type, link_field)}

/* A recycled object, with its old content, or a new one, which is all 0. NULL: no memory. */
void *pool_get(struct pool *p);
void pool_put(struct pool *p, void *object);

#endif
