/*
 * locks.c - see locks.h.
 */
#include "common/locks.h"

#ifdef CUTIN_CHECK_LOCKS
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOCKS_MAX = 32 };
static _Thread_local struct {
    const pthread_mutex_t *lock;
    const char *taken; /* the address behind the call that took it */
    bool across;
} held[LOCKS_MAX] __attribute__((tls_model("initial-exec")));
static _Thread_local int count __attribute__((tls_model("initial-exec")));

/* -1: it is not held. */
static int lock_find(const pthread_mutex_t *lock)
{
    int i = count - 1; /* the newest one of a recursive lock */
    while (i >= 0 && held[i].lock != lock)
        i--;
    return i;
}

void locks_allow(const pthread_mutex_t *lock)
{
    int i = lock_find(lock);
    if (i >= 0)
        held[i].across = true;
}

void locks_assert_none(const char *symbol)
{
    for (int i = 0; i < count; i++) {
        Dl_info in = {.dli_fbase = NULL};
        /* Handlers of signals call the driver on top of whatever their thread has. */
        if (held[i].across || getenv("HELD_IN_HANDLERS"))
            continue;
        dladdr(held[i].taken, &in);
        fprintf(stderr, "cutin: %s is called with a lock that was taken at %s+%#tx\n", symbol,
                in.dli_fname, held[i].taken - (const char *)in.dli_fbase);
        abort();
    }
}

void locks_taken(const pthread_mutex_t *lock, const void *taken)
{
    if (count == LOCKS_MAX)
        return;
    held[count].lock = lock;
    held[count].taken = taken;
    held[count++].across = false;
}

void locks_released(const pthread_mutex_t *lock)
{
    int i = lock_find(lock);
    if (i >= 0)
        held[i] = held[--count];
}
#endif
