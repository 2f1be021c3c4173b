/*
 * held.h - which locks a thread has when it calls the driver: none, but those that say why. Whoever
 * needs the lock next would wait for what the driver waits for, in another stream, context or
 * process. Asserted in debug builds, whose libcutin.so has its calls of pthread_mutex_lock counted
 * (shim/lookup/held.c); nothing is left of it in others.
 */
#ifndef CUTIN_COMMON_HELD_H
#define CUTIN_COMMON_HELD_H

#include <pthread.h>

#ifndef CUTIN_HELD
#define lock_across_driver(lock, why) ((void)0)
#define held_none(symbol)             ((void)0)
#else
/* The lock, which the caller has, may be held across calls of the driver. `why` says what for, who
 * waits then, and for how long. */
#define lock_across_driver(lock, why) held_across(lock)
void held_across(const pthread_mutex_t *lock);
/* Aborts where the calling thread has a lock that may not. */
void held_none(const char *symbol);
/* The calling thread has it now; `taken`: behind the call that took it. It has it no more. */
void held_take(const pthread_mutex_t *lock, const void *taken);
void held_give(const pthread_mutex_t *lock);
#endif

#endif
