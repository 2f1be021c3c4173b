/*
 * table.h - handles of the driver to the shim's own structs.
 *
 * An intrusive chained hash whose readers take no lock: a real-time thread looks a stream up while
 * a best-effort thread inserts another. Nodes live in type-stable memory (pool.h): a removed node
 * may be recycled while somebody walks over it, which can lead that walk astray but never out of
 * valid memory. `moves` counts removals, so a walk that found nothing knows whether to look again.
 *
 * It grows with what is in it. A node has two links: while the larger table is made of the one, who
 * walks goes by the other. That is used again at the next growth but one, of which `moves` tells.
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

/* What has the node as a member that is not its first. */
#define TABLE_OWNER(type, member, node)                                                            \
    ((type *)(void *)((const char *)(node) - offsetof(type, member)))

struct table_buckets {
    uint32_t mask; /* how many there are, a power of two, less 1 */
    uint32_t side; /* of `next` */
    _Atomic(struct table_node *) *head;
    struct table_buckets *smaller; /* that these replaced: somebody may still look there */
};

struct table {
    pthread_mutex_t lock; /* writers */
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
/* The first of several nodes with that key for which `is` holds. */
typedef bool (*table_match)(const struct table_node *node, const void *user);
struct table_node *table_find_where(struct table *t, const void *key, table_match is,
                                    const void *user);
/* Insert under `key`; the caller holds no other node of that key that the same look would find. */
void table_insert(struct table *t, struct table_node *node, const void *key);
/* The same unless there is one of that key, which is returned then; else `node`. */
struct table_node *table_insert_once(struct table *t, struct table_node *node, const void *key);
/* Remove; harmless when the node is not in the table. Returns whether it was. */
int table_remove(struct table *t, struct table_node *node);
/* Remove every node for which `is` holds, in one walk; or every one of `key`, of which there may be
 * many. They hang together by next[0]. */
struct table_node *table_take(struct table *t, table_match is, const void *user);
struct table_node *table_take_key(struct table *t, const void *key);
/* Call `visit` for every node, or every one of `key`, under the writers' lock. */
typedef void (*table_visit)(struct table_node *node, void *user);
void table_each(struct table *t, table_visit visit, void *user);
void table_each_key(struct table *t, const void *key, table_visit visit, void *user);

#endif
