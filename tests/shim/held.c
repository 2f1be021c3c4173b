/* held.c - a lock that is held across a call of the driver is noticed. */
#include "common/held.h"

#include <criterion/criterion.h>
#include <signal.h>

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;

Test(held, a_lock_that_is_taken_is_noticed, .signal = SIGABRT)
{
    pthread_mutex_lock(&one);
    held_none("cuLaunchKernel");
}

Test(held, a_lock_that_was_tried_is_noticed, .signal = SIGABRT)
{
    pthread_mutex_lock(&one);
    lock_across_driver(&one, "it may be");
    cr_assert_eq(pthread_mutex_trylock(&other), 0);
    held_none("cuLaunchKernel");
}

Test(held, a_lock_that_is_excepted_once_is_noticed_the_next_time, .signal = SIGABRT)
{
    pthread_mutex_lock(&one);
    lock_across_driver(&one, "it may be");
    held_none("cuLaunchKernel");
    pthread_mutex_unlock(&one);
    pthread_mutex_lock(&one);
    held_none("cuLaunchKernel");
}

Test(held, locks_that_were_given_back_or_are_excepted_are_not)
{
    pthread_mutex_lock(&one);
    pthread_mutex_lock(&other);
    lock_across_driver(&other, "it may be");
    pthread_mutex_unlock(&one);
    held_none("cuLaunchKernel");
    pthread_mutex_unlock(&other);
    held_none("cuLaunchKernel");
}
