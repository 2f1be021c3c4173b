/*
 * wrap.c - what the linker puts in front of libc for vhq and its tests (--wrap): a clock that can
 * be stopped and moved, threads that cannot be created, a hook where locks are released, and a
 * count of allocations. In front of vhq itself: a hook where a vHQ is about to be listed, and a
 * count of looks at heads.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

_Atomic int wrap_no_threads;
_Atomic long wrap_allocs, wrap_live, wrap_heads;
void (*_Atomic wrap_after_unlock)(struct vhq *q);
void (*_Atomic wrap_before_ready)(struct vhq *q);
static _Atomic uint64_t frozen_ns, advanced_ns;

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg);
void __real_queue_unlock(struct vhq *q);
void __wrap_queue_unlock(struct vhq *q);
void __real_dispatcher_ready(struct vhq *q);
void __wrap_dispatcher_ready(struct vhq *q);
struct slot *__real_ring_head(struct ring *r);
struct slot *__wrap_ring_head(struct ring *r);
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void __real_free(void *p);
void __wrap_free(void *p);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
    int ret = __real_clock_gettime(id, ts);
    if (id != CLOCK_MONOTONIC)
        return ret;
    uint64_t now = frozen_ns;
    if (now == 0)
        now = (uint64_t)ts->tv_sec * 1000000000u + (uint64_t)ts->tv_nsec;
    now += advanced_ns;
    ts->tv_sec = (time_t)(now / 1000000000u);
    ts->tv_nsec = (long)(now % 1000000000u);
    return ret;
}

void clock_freeze(void)
{
    struct timespec ts;
    __real_clock_gettime(CLOCK_MONOTONIC, &ts);
    frozen_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void clock_advance(uint64_t ns)
{
    advanced_ns += ns;
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg)
{
    return wrap_no_threads ? EAGAIN : __real_pthread_create(t, a, f, arg);
}

void __wrap_queue_unlock(struct vhq *q)
{
    __real_queue_unlock(q);
    void (*hook)(struct vhq *) = wrap_after_unlock;
    if (hook)
        hook(q);
}

struct slot *__wrap_ring_head(struct ring *r)
{
    wrap_heads++;
    return __real_ring_head(r);
}

void __wrap_dispatcher_ready(struct vhq *q)
{
    void (*hook)(struct vhq *) = wrap_before_ready;
    if (hook)
        hook(q);
    __real_dispatcher_ready(q);
}

static void *counted(void *p)
{
    wrap_allocs++;
    wrap_live += !!p;
    return p;
}

void *__wrap_malloc(size_t n)
{
    return counted(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return counted(__real_calloc(n, size));
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    return counted(__real_aligned_alloc(align, size));
}

void __wrap_free(void *p)
{
    wrap_live -= !!p;
    __real_free(p);
}
