/*
 * handle.h - pools of objects whose addresses are handles of the API. The memory of a pool is
 * reserved once and never unmapped. So whether any value is a live handle can be asked without a
 * lock, and a handle that is destroyed while another thread uses it stays readable. Slots are used
 * again, the latest one that was given back first.
 */
#ifndef CUTIN_TOOLS_SIMGPU_FACE_HANDLE_H
#define CUTIN_TOOLS_SIMGPU_FACE_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first member of every pooled object. */
struct handle {
    _Atomic uint32_t live;
    uint32_t spare;
    struct handle *next_free;
};

struct handle_pool {
    size_t slot_bytes, slots;
    pthread_mutex_t lock;
    char *_Atomic base;
    _Atomic size_t used; /* slots that were ever taken */
    struct handle *free;
};
#define HANDLE_POOL(type, count) {sizeof(type), (count), PTHREAD_MUTEX_INITIALIZER, NULL, 0, NULL}

/* Takes a slot, not live yet, with its old content (zero at first). NULL: all are taken. */
void *handle_take(struct handle_pool *pool);
/* The same, but all behind the handle is zero. */
void *handle_take_zero(struct handle_pool *pool);
/* Makes it findable, after it was filled in. */
void handle_publish(void *object);
/* It is no handle any more. True for the one caller that has ended its life. */
bool handle_retire(void *object);
/* The slot of a retired object may be used again. */
void handle_give(struct handle_pool *pool, void *object);
/* The object if `value` is a live one of the pool, else NULL. */
void *handle_find(struct handle_pool *pool, const void *value);

#endif
