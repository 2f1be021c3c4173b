/* lock.c - the producer lock: one thread has it, others wait, and each of them gets it. */
#include "vhq/internal.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

enum { WAITERS = 3 };
static struct vhq queue;
static _Atomic uint32_t got;

static void *take(void *unused)
{
    queue_lock(&queue);
    atomic_fetch_add(&got, 1);
    queue_give(&queue);
    return unused;
}

/* No call tells when threads sleep on the lock, but its word does, which is not free meanwhile. */
Test(vhq_lock, every_waiter_acquires_after_release)
{
    pthread_t thread[WAITERS];
    cr_assert(queue_trylock(&queue));
    cr_expect(!queue_trylock(&queue));
    for (int i = 0; i < WAITERS; i++)
        pthread_create(&thread[i], NULL, take, NULL);
    while (atomic_load(&queue.lock) != WORD_AWAITED)
        sched_yield();
    cr_expect_eq(atomic_load(&got), 0);
    queue_give(&queue);
    for (int i = 0; i < WAITERS; i++)
        pthread_join(thread[i], NULL);
    cr_expect_eq(atomic_load(&got), WAITERS);
    cr_expect_eq(atomic_load(&queue.lock), WORD_FREE);
}
