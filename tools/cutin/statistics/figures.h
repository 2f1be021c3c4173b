/*
 * figures.h - figures of many latencies: percentiles, and a histogram for the terminal.
 */
#ifndef CUTIN_TOOLS_CUTIN_STATISTICS_FIGURES_H
#define CUTIN_TOOLS_CUTIN_STATISTICS_FIGURES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Microseconds. X(field, column heading, percent) */
#define FIGURES(X)                                                                                 \
    X(min_us, "min", 0.0)                                                                          \
    X(p50_us, "p50", 50.0)                                                                         \
    X(p90_us, "p90", 90.0)                                                                         \
    X(p99_us, "p99", 99.0)                                                                         \
    X(p999_us, "p99.9", 99.9)                                                                      \
    X(max_us, "max", 100.0)

enum { FIGURES_CDF = 101 }; /* percentiles 0, 1, ... 100 */

struct figures {
#define FIGURES_FIELD(field, heading, percent) double field;
    FIGURES(FIGURES_FIELD)
#undef FIGURES_FIELD
    double cdf_us[FIGURES_CDF];
    size_t samples;
};

/* For qsort: sorts by the uint64_t at the begin of each element, the least first. */
int figures_compare(const void *a, const void *b);
/* Sorts the samples. A percentile is the smallest sample that this percentage does not exceed. */
void figures_make(struct figures *f, uint64_t *ns, size_t n);

/* The smallest of the sorted samples that this percentage does not exceed. */
double figures_percentile_us(const uint64_t *sorted_ns, size_t n, double percent);
/* How many samples a percentile needs. With fewer it is more likely than 5 % that all of them lie
 * below it, and nothing is known of what is above. */
size_t figures_least_samples(double percent);

/* Several sets side by side, with one row per bucket of a logarithmic scale. */
struct histogram_column {
    const char *name;
    const uint64_t *ns;
    size_t n;
};
void histogram_print(FILE *out, const struct histogram_column *columns, size_t n);

/* ---- how much a percentile may vary between sets of samples like these -------------------------
 *
 * Samples come in blocks, one of each mode in a round. What the machine did meanwhile affects a
 * whole block. So a resample draws rounds with replacement, and then samples within each. Modes
 * with one seed draw the same rounds, so what a round did to both is not in their ratio. */
enum { BOOTSTRAP_RESAMPLES = 1000, BOOTSTRAP_OF_MANY = 200, BOOTSTRAP_MANY = 50000 };

struct bootstrap_set {
    const uint64_t *ns; /* block after block */
    uint32_t n;
    const uint32_t *block_end;
    uint32_t blocks;
};

/* The interval that holds this percentage of the resamples. */
enum { BOOTSTRAP_PERCENT = 95 };
struct interval {
    double least, most;
};

/* How many resamples are drawn for `n` samples. */
static inline uint32_t bootstrap_resamples(uint32_t n)
{
    return n > BOOTSTRAP_MANY ? BOOTSTRAP_OF_MANY : BOOTSTRAP_RESAMPLES;
}
/* Writes the percentile `percent[k]` of resample i, in us, to out[k][i]. `salt` tells sets apart
 * that share a seed. Returns 0 or -ENOMEM. */
int bootstrap_percentiles(const struct bootstrap_set *s, const double *percent, size_t percents,
                          uint64_t seed, uint64_t salt, double (*out)[BOOTSTRAP_RESAMPLES]);
/* Sorts the values. */
struct interval bootstrap_interval(double *values, uint32_t n);

#endif
