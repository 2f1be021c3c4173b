/*
 * clock.h - the monotonic clock in nanoseconds. Reading it is no system call: the vDSO answers.
 */
#ifndef CUTIN_COMMON_CLOCK_H
#define CUTIN_COMMON_CLOCK_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)

static inline uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Sleeps, for less than a second. Not by nanosleep, a cancellation point: a cancelled thread of the
 * program would end in a call of ours. Keeps errno. */
static inline void clock_nap(uint64_t ns)
{
    const struct timespec nap = {.tv_nsec = (long)ns};
    int saved = errno;

    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, NULL);
    errno = saved;
}

static inline struct timespec clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

/* Sleeps until `ns`, whatever signals come. */
static inline void clock_sleep_until(uint64_t ns)
{
    const struct timespec at = clock_timespec(ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        ;
}

static inline void clock_sleep_us(uint64_t us)
{
    clock_sleep_until(clock_ns() + us * NS_PER_US);
}

#endif
