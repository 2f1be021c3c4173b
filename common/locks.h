/*
 * locks.h - which locks a thread holds when it calls the driver: none, but those that say why. The
 * next thread that needs the lock would wait for what the driver waits for, in another stream,
 * context or process. Debug builds assert this: their libcutin.so counts its calls of
 * pthread_mutex_lock (shim/lookup/locks.c). Other builds have nothing of it.
 */
#ifndef CUTIN_COMMON_LOCKS_H
#define CUTIN_COMMON_LOCKS_H

#include <pthread.h>

#ifndef CUTIN_CHECK_LOCKS
#define lock_across_driver(lock, why) ((void)0)
#define locks_assert_none(symbol)     ((void)0)
#else
/* The caller holds this lock, and may hold it across calls of the driver. `why` says what for,
 * which threads wait then, and for how long. */
#define lock_across_driver(lock, why) locks_allow(lock)
void locks_allow(const pthread_mutex_t *lock);
/* Aborts if the calling thread holds a lock that it may not. */
void locks_assert_none(const char *symbol);
/* The calling thread takes the lock (`taken`: the address behind the call), or gives it back. */
void locks_taken(const pthread_mutex_t *lock, const void *taken);
void locks_released(const pthread_mutex_t *lock);
#endif

#endif
