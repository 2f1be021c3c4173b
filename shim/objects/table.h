/*
 * table.h - handles of the driver to the shim's own structs.
 *
 * An intrusive chained hash whose readers take no lock: a real-time thread looks a stream up while
 * a best-effort thread inserts another. Nodes live in type-stable memory (pool.h): a removed node
 * may be recycled while somebody walks over it, which can lead that walk astray but never out of
 * valid memory. `moves` counts removals, so a walk that found nothing knows whether to look again.
 */
#ifndef CUTIN_SHIM_OBJECTS_TABLE_H
#define CUTIN_SHIM_OBJECTS_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_node {
    _Atomic(const void *) key;
    _Atomic(struct table_node *) next;
};

struct table {
    pthread_mutex_t lock; /* writers */
    _Atomic uint32_t moves;
    uint32_t buckets; /* a power of two */
    _Atomic(struct table_node *) *bucket;
};

#define TABLE(name, count)                                                                         \
    static _Atomic(struct table_node *) name##_buckets[count];                                     \
    static struct table name = {                                                                   \
        .lock = PTHREAD_MUTEX_INITIALIZER, .buckets = (count), .bucket = name##_buckets}

/* The node of `key`, or NULL. Lock free. */
struct table_node *table_find(struct table *t, const void *key);
/* The first of several nodes with that key for which `is` holds. */
typedef bool (*table_match)(const struct table_node *node, const void *user);
struct table_node *table_find_where(struct table *t, const void *key, table_match is,
                                    const void *user);
/* Insert under `key`; the caller holds no other node of that key that the same look would find. */
void table_insert(struct table *t, struct table_node *node, const void *key);
/* Remove; harmless when the node is not in the table. Returns whether it was. */
int table_remove(struct table *t, struct table_node *node);
/* Remove every node for which `is` holds, in one walk. They hang together by `next`. */
struct table_node *table_take(struct table *t, table_match is, const void *user);
/* Call `visit` for every node, under the writers' lock. */
void table_each(struct table *t, void (*visit)(struct table_node *node, void *user), void *user);

#endif
