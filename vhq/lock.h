/*
 * lock.h - the locks of vhq, by rank. A thread that has one takes none of a lower rank, and of the
 * same rank only another producer lock: a graph has a command in a queue of each device that it
 * reaches. A thread that only tries may come in any order. Code under a set's or the registry's
 * lock calls neither the driver nor a command: lock_none_inside says so where these are called.
 * Debug builds assert all of it; other builds pay nothing.
 */
#ifndef CUTIN_VHQ_LOCK_H
#define CUTIN_VHQ_LOCK_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum rank { RANK_QUEUE, RANK_REGISTRY, RANK_SET, RANK_FENCES, RANKS };

#ifndef NDEBUG
extern _Thread_local int32_t vhq_t_locks[RANKS] __attribute__((tls_model("initial-exec")));
#endif
static inline void lock_may(enum rank rank)
{
    for (int r = rank == RANK_QUEUE ? RANK_REGISTRY : (int)rank; r < RANKS; r++)
        assert(vhq_t_locks[r] == 0);
}
static inline void lock_has(enum rank rank, int32_t more)
{
#ifndef NDEBUG
    vhq_t_locks[rank] += more;
#endif
    assert(vhq_t_locks[rank] >= 0);
    (void)rank, (void)more;
}
static inline void lock_none_inside(void)
{
    lock_may(RANK_REGISTRY);
}

static inline void lock_take(pthread_mutex_t *mutex, enum rank rank)
{
    lock_may(rank);
    pthread_mutex_lock(mutex);
    lock_has(rank, 1);
}

static inline bool lock_try(pthread_mutex_t *mutex, enum rank rank)
{
    if (pthread_mutex_trylock(mutex) != 0)
        return false;
    lock_has(rank, 1);
    return true;
}

static inline void lock_give(pthread_mutex_t *mutex, enum rank rank)
{
    lock_has(rank, -1);
    pthread_mutex_unlock(mutex);
}

#endif
