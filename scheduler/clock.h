/*
 * clock.h - the monotonic clock in nanoseconds. No system call: the vDSO answers.
 */
#ifndef CUTIN_CLOCK_H
#define CUTIN_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS 1000000u

static inline uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
