/* lock.c - the producer lock: one thread has it, others wait, and each of them gets it. */
#include "vhq/internal.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

enum { WAITERS = 3 };
static _Atomic uint32_t word, got;

static void *take(void *unused)
{
    lock_word_take(&word);
    atomic_fetch_add(&got, 1);
    lock_word_give(&word);
    return unused;
}

/* No call tells when threads sleep on the lock, but its word does, which is not free meanwhile. */
Test(vhq_lock, every_waiter_acquires_after_release)
{
    pthread_t thread[WAITERS];
    cr_assert(lock_word_try(&word));
    cr_expect(!lock_word_try(&word));
    for (int i = 0; i < WAITERS; i++)
        pthread_create(&thread[i], NULL, take, NULL);
    while (atomic_load(&word) != WORD_AWAITED)
        sched_yield();
    cr_expect_eq(atomic_load(&got), 0);
    lock_word_give(&word);
    for (int i = 0; i < WAITERS; i++)
        pthread_join(thread[i], NULL);
    cr_expect_eq(atomic_load(&got), WAITERS);
    cr_expect_eq(atomic_load(&word), WORD_FREE);
}
