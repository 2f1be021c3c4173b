/*
 * pool.h - type-stable memory: objects are recycled, never given back to malloc.
 *
 * Handle tables are read without a lock, so the memory of a removed node must stay a node. The
 * price is memory for the peak number of objects; creating and destroying does not add to it.
 */
#ifndef CUTIN_SHIM_HANDLES_POOL_H
#define CUTIN_SHIM_HANDLES_POOL_H

#include <pthread.h>
#include <stddef.h>

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
