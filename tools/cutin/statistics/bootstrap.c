/*
 * bootstrap.c - resample rounds, and samples within them (see bootstrap.h).
 */
#include "bootstrap.h"
#include "figures.h"
#include "random.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ranked {
    uint64_t ns;
    uint32_t at; /* among the samples */
};

/* How often each rank is in a resample. Returns the resample's size. */
static uint32_t resample(const struct bootstrap_set *s, const uint32_t *rank, uint64_t *rounds,
                         uint64_t *inside, uint32_t *times)
{
    uint32_t n = 0;

    memset(times, 0, s->n * sizeof(*times));
    for (uint32_t i = 0; i < s->blocks; i++) {
        uint32_t block = random_below(rounds, s->blocks);
        uint32_t from = block ? s->block_end[block - 1] : 0, size = s->block_end[block] - from;
        for (uint32_t k = 0; k < size; k++)
            times[rank[from + random_below(inside, size)]]++;
        n += size;
    }
    return n;
}

static double percentile_us(const struct ranked *sorted, const uint32_t *times, uint32_t n,
                            double percent)
{
    /* The product may lie a rounding error above a whole rank. */
    double rank = fmax(ceil(n * percent / 100 - 1e-9), 1);
    uint64_t sum = times[0];
    uint32_t i = 0;

    while ((double)sum < rank)
        sum += times[++i];
    return (double)sorted[i].ns / 1000;
}

int bootstrap_percentiles(const struct bootstrap_set *s, const double *percent, size_t percents,
                          uint64_t seed, uint64_t salt, double (*out)[BOOTSTRAP_RESAMPLES])
{
    uint32_t *rank = calloc(s->n, sizeof(*rank)), *times = calloc(s->n, sizeof(*times));
    struct ranked *sorted = rank && times ? malloc(s->n * sizeof(*sorted)) : NULL;
    uint64_t rounds = seed, inside = seed * 1000003 + salt;

    /* The samples in order, and where each one came. */
    for (uint32_t i = 0; sorted && i < s->n; i++)
        sorted[i] = (struct ranked){s->ns[i], i};
    if (sorted)
        qsort(sorted, s->n, sizeof(*sorted), figures_compare);
    for (uint32_t i = 0; sorted && i < s->n; i++)
        rank[sorted[i].at] = i;
    for (uint32_t i = 0; sorted && i < bootstrap_resamples(s->n); i++) {
        uint32_t n = resample(s, rank, &rounds, &inside, times);
        for (size_t k = 0; k < percents; k++)
            out[k][i] = n ? percentile_us(sorted, times, n, percent[k]) : 0;
    }
    free(rank);
    free(times);
    free(sorted);
    return sorted ? 0 : -ENOMEM;
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct interval bootstrap_interval(double *values, uint32_t n)
{
    uint32_t beyond = n * (100 - BOOTSTRAP_PERCENT) / 200;

    qsort(values, n, sizeof(*values), rising);
    return (struct interval){values[beyond], values[n - 1 - beyond]};
}
