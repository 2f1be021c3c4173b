/* locks.c - a lock that is held across a call of the driver is noticed. */
#include "common/locks.h"

#include <criterion/criterion.h>
#include <signal.h>

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;

Test(locks, lock_taken_before_driver_call_aborts, .signal = SIGABRT)
{
    pthread_mutex_lock(&one);
    locks_assert_none("cuLaunchKernel");
}

Test(locks, lock_taken_by_trylock_aborts, .signal = SIGABRT)
{
    pthread_mutex_lock(&one);
    lock_across_driver(&one, "it may be");
    cr_assert_eq(pthread_mutex_trylock(&other), 0);
    locks_assert_none("cuLaunchKernel");
}

Test(locks, exempted_lock_aborts_when_taken_again, .signal = SIGABRT)
{
    pthread_mutex_lock(&one);
    lock_across_driver(&one, "it may be");
    locks_assert_none("cuLaunchKernel");
    pthread_mutex_unlock(&one);
    pthread_mutex_lock(&one);
    locks_assert_none("cuLaunchKernel");
}

Test(locks, released_and_exempted_locks_pass)
{
    pthread_mutex_lock(&one);
    pthread_mutex_lock(&other);
    lock_across_driver(&other, "it may be");
    pthread_mutex_unlock(&one);
    locks_assert_none("cuLaunchKernel");
    pthread_mutex_unlock(&other);
    locks_assert_none("cuLaunchKernel");
}
