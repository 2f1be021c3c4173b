/*
 * likely.h - which way a branch of the hot path goes.
 */
#ifndef CUTIN_COMMON_LIKELY_H
#define CUTIN_COMMON_LIKELY_H

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#endif
