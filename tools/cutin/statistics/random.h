/*
 * random.h - random numbers that a seed determines: the same ones on every machine.
 */
#ifndef CUTIN_TOOLS_CUTIN_STATISTICS_RANDOM_H
#define CUTIN_TOOLS_CUTIN_STATISTICS_RANDOM_H

#include <stdint.h>

uint64_t random_next(uint64_t *state); /* splitmix64 */
double random_unit(uint64_t *state);   /* above 0, at most 1 */
/* Below `n`, which must be above 0. */
uint32_t random_below(uint64_t *state, uint32_t n);
/* Exponential, with mean 1. */
double random_exponential(uint64_t *state);
/* Mean 1. The greater the shape (above 0), the more even; shape 1 is the exponential. */
double random_gamma(uint64_t *state, double shape);

#endif
