/*
 * handle.h - pools of objects whose addresses are API handles. The memory of a pool is reserved
 * once and never unmapped, so whether an arbitrary value is a live handle can be asked without a
 * lock, and a handle that is destroyed while another thread uses it stays readable. Slots are used
 * again, lowest cost first: last given, first taken.
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
    _Atomic size_t used; /* slots ever taken */
    struct handle *free;
};
#define HANDLE_POOL(type, count) {sizeof(type), (count), PTHREAD_MUTEX_INITIALIZER, NULL, 0, NULL}

/* A slot, not live yet, its old content still there (zero at first); NULL when all are taken. */
void *handle_take(struct handle_pool *pool);
/* The same, of which all behind the handle is zero. */
void *handle_take_zero(struct handle_pool *pool);
/* Make it findable, once it is filled in. */
void handle_publish(void *object);
/* It is no handle any more. True for the one caller that ended its life. */
bool handle_retire(void *object);
/* A retired object's slot may be used again. */
void handle_give(struct handle_pool *pool, void *object);
/* The object if `value` is one of the pool's and live, else NULL. */
void *handle_find(struct handle_pool *pool, const void *value);

#endif
