/*
 * nap.h - sleeps that last to their end, whatever signals come.
 */
#ifndef CUTIN_TOOLS_CUTIN_NAP_H
#define CUTIN_TOOLS_CUTIN_NAP_H

#include "common/clock.h"

/* `ns` is a time of the monotonic clock. */
static inline void nap_until(uint64_t ns)
{
    while (!clock_sleep_until(ns))
        ;
}

static inline void nap_us(uint64_t us)
{
    nap_until(clock_ns() + us * 1000);
}

#endif
