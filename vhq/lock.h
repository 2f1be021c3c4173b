/*
 * lock.h - the locks of vhq, by rank: a thread that has one takes none of a lower rank, and of the
 * same rank only another producer lock, for a graph has a command in a queue of each device that it
 * reaches. Who only tries may come in any order. What is called while a set's or the registry's
 * lock is held calls neither the driver nor a command: lock_none_inside says so where they are
 * called. All of it is asserted in debug builds, and costs nothing in others.
 */
#ifndef CUTIN_VHQ_LOCK_H
#define CUTIN_VHQ_LOCK_H

#include "common/held.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum rank { RANK_QUEUE, RANK_REGISTRY, RANK_SET, RANK_FENCES, RANKS };

#ifdef NDEBUG
static inline void lock_may(enum rank rank)
{
    (void)rank;
}
static inline void lock_has(enum rank rank, int32_t more)
{
    (void)rank;
    (void)more;
}
static inline void lock_none_inside(void)
{
}
#else
extern _Thread_local int32_t vhq_t_locks[RANKS] __attribute__((tls_model("initial-exec")));
static inline void lock_may(enum rank rank)
{
    for (int r = rank == RANK_QUEUE ? RANK_REGISTRY : (int)rank; r < RANKS; r++)
        assert(vhq_t_locks[r] == 0);
}
static inline void lock_has(enum rank rank, int32_t more)
{
    vhq_t_locks[rank] += more;
    assert(vhq_t_locks[rank] >= 0);
}
static inline void lock_none_inside(void)
{
    lock_may(RANK_REGISTRY);
}
#endif

static inline void lock_had(const pthread_mutex_t *mutex, enum rank rank)
{
    lock_has(rank, 1);
    if (rank == RANK_QUEUE)
        lock_across_driver(mutex,
                           "what is called for one stream comes to the driver in that order: "
                           "others who call for that stream wait, as long as a command that "
                           "is deferred may take in the driver");
}

static inline void lock_take(pthread_mutex_t *mutex, enum rank rank)
{
    lock_may(rank);
    pthread_mutex_lock(mutex);
    lock_had(mutex, rank);
}

static inline bool lock_try(pthread_mutex_t *mutex, enum rank rank)
{
    if (pthread_mutex_trylock(mutex) != 0)
        return false;
    lock_had(mutex, rank);
    return true;
}

static inline void lock_give(pthread_mutex_t *mutex, enum rank rank)
{
    lock_has(rank, -1);
    pthread_mutex_unlock(mutex);
}

#endif
