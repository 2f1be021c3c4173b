/*
 * jumping_clock.c - a clock of the day that is set all the time: at each look it is an hour behind
 * or a day ahead. For the test, and preloaded into the daemon. All other clocks are right.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

static _Atomic uint32_t looks;

PUBLIC int clock_gettime(clockid_t clock, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, now);

    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += looks++ % 2 ? 86400 : -3600;
    return rc;
}

PUBLIC time_t time(time_t *out)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

PUBLIC int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}
