/*
 * pool.h - type-stable memory: objects are recycled, never given back to malloc.
 *
 * Handle tables are read without a lock, so the memory of a removed node must stay a node. The
 * price is the peak number of objects; a program that creates and destroys does not grow.
 */
#ifndef CUTIN_SHIM_HANDLES_POOL_H
#define CUTIN_SHIM_HANDLES_POOL_H

#include <pthread.h>
#include <stddef.h>

struct pool {
    pthread_mutex_t lock;
    size_t size; /* of one object; at least a pointer */
    size_t link; /* offset of the free-list link: not inside what stale readers look at */
    void *free;
};

#define POOL(name, type, link_field)                                                               \
    static struct pool name = {.lock = PTHREAD_MUTEX_INITIALIZER,                                  \
                               .size = sizeof(type),                                               \
                               .link = offsetof(type, link_field)}

/* A recycled or new object; the contents of a recycled one are as they were left, those of a new
 * one zero. NULL: no memory. */
void *pool_get(struct pool *p);
void pool_put(struct pool *p, void *object);

#endif
