/*
 * pool.c - type-stable memory (see pool.h).
 */
#include "shim/handles/pool.h"

#include <stdlib.h>
#include <string.h>

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
