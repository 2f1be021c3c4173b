/*
 * locks.c - what the linker puts in front of libc's locks in debug builds (--wrap): see
 * common/locks.h.
 */
#include "common/locks.h"

#ifdef CUTIN_CHECK_LOCKS
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_trylock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    int rc = __real_pthread_mutex_lock(lock);
    if (rc == 0)
        locks_taken(lock, __builtin_return_address(0));
    return rc;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock)
{
    int rc = __real_pthread_mutex_trylock(lock);
    if (rc == 0)
        locks_taken(lock, __builtin_return_address(0));
    return rc;
}

/* May fail in a forked child, whose thread has another number; the lock counts as given up. */
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    locks_released(lock);
    return __real_pthread_mutex_unlock(lock);
}
#endif
