/*
 * handle.c - pools of objects whose addresses are handles of the API; see handle.h.
 */
#include "tools/simgpu/face/handle.h"

#include <string.h>
#include <sys/mman.h>

/* By itself the leak checker does not look into mapped memory, and what a live object points to
 * would be a leak. For each region that it is told of it reads the process's map again. */
#ifdef __has_feature
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#define LEAK_ROOT(object, bytes) __lsan_register_root_region(object, bytes)
#else
#define LEAK_ROOT(object, bytes) ((void)(object), (void)(bytes))
#endif

/* Tells it of the slots in regions that double in size. The first region has one slot. */
static void leak_register(const struct handle_pool *pool, char *base, size_t used)
{
    size_t n = used ? used : 1;
    if (used & (used - 1))
        return;
    if (n > pool->slots - used)
        n = pool->slots - used;
    LEAK_ROOT(base + used * pool->slot_bytes, n * pool->slot_bytes);
}

static char *pool_reserve(struct handle_pool *pool)
{
    char *base = atomic_load_explicit(&pool->base, memory_order_relaxed);
    if (base)
        return base;
    base = mmap(NULL, pool->slot_bytes * pool->slots, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    /* Pairs with handle_find. */
    atomic_store_explicit(&pool->base, base, memory_order_release);
    return base;
}

void *handle_take(struct handle_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    struct handle *h = pool->free;
    char *base = pool_reserve(pool);
    size_t used = atomic_load_explicit(&pool->used, memory_order_relaxed);
    if (h) {
        pool->free = h->next_free;
    } else if (base && used < pool->slots) {
        h = (struct handle *)(void *)(base + used * pool->slot_bytes);
        leak_register(pool, base, used);
        atomic_store_explicit(&pool->used, used + 1, memory_order_release);
    }
    pthread_mutex_unlock(&pool->lock);
    return h;
}

void *handle_take_zero(struct handle_pool *pool)
{
    struct handle *h = handle_take(pool);
    if (h)
        memset(h + 1, 0, pool->slot_bytes - sizeof(*h));
    return h;
}

void handle_publish(void *object)
{
    struct handle *h = object;
    atomic_store_explicit(&h->live, 1, memory_order_release);
}

bool handle_retire(void *object)
{
    struct handle *h = object;
    return atomic_exchange_explicit(&h->live, 0, memory_order_acq_rel) == 1;
}

void handle_give(struct handle_pool *pool, void *object)
{
    struct handle *h = object;
    pthread_mutex_lock(&pool->lock);
    h->next_free = pool->free;
    pool->free = h;
    pthread_mutex_unlock(&pool->lock);
}

void *handle_find(struct handle_pool *pool, const void *value)
{
    char *base = atomic_load_explicit(&pool->base, memory_order_acquire);
    uintptr_t at = (uintptr_t)value - (uintptr_t)base;
    size_t used = atomic_load_explicit(&pool->used, memory_order_acquire);
    if (!base || (uintptr_t)value < (uintptr_t)base || at >= used * pool->slot_bytes ||
        at % pool->slot_bytes != 0)
        return NULL;
    struct handle *h = (struct handle *)(void *)(base + at);
    return atomic_load_explicit(&h->live, memory_order_acquire) ? h : NULL;
}
