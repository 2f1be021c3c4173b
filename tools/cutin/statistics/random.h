/*
 * random.h - random numbers that a seed determines: the same ones on every machine.
 */
#ifndef CUTIN_TOOLS_CUTIN_STATISTICS_RANDOM_H
#define CUTIN_TOOLS_CUTIN_STATISTICS_RANDOM_H

#include <math.h>
#include <stdint.h>

/* splitmix64 */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Above 0, at most 1. */
static inline double random_unit(uint64_t *state)
{
    return ((double)(random_next(state) >> 11) + 1) / 9007199254740992.0;
}

/* Below `n`, which must be above 0. */
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((random_next(state) >> 32) * n >> 32);
}

/* Exponential, with mean 1. */
static inline double random_exponential(uint64_t *state)
{
    return -log(random_unit(state));
}

#endif
