/*
 * random.c - draws random numbers (see random.h).
 */
#include "random.h"

#include <math.h>

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double random_unit(uint64_t *state)
{
    return ((double)(random_next(state) >> 11) + 1) / 9007199254740992.0;
}

uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((random_next(state) >> 32) * n >> 32);
}

double random_exponential(uint64_t *state)
{
    return -log(random_unit(state));
}

/* The method of Marsaglia and Tsang; for shapes below 1 they go back from shape + 1. */
double random_gamma(uint64_t *state, double shape)
{
    double a = shape < 1 ? shape + 1 : shape, d = a - 1.0 / 3, c = 1 / sqrt(9 * d), v, x;

    do {
        do {
            /* The method of Box and Muller. */
            x = sqrt(2 * random_exponential(state));
            x *= cos(2 * 3.14159265358979323846 * random_unit(state));
            v = 1 + c * x;
        } while (v <= 0);
        v = v * v * v;
    } while (log(random_unit(state)) >= 0.5 * x * x + d - d * v + d * log(v));
    if (shape < 1)
        v *= pow(random_unit(state), 1 / shape);
    return d * v / shape;
}
