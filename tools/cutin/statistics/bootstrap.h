/*
 * bootstrap.h - how far a percentile of these samples may lie from that of other ones like them.
 *
 * Samples come in blocks, one of each mode in a round: what the machine did meanwhile is common to
 * a block. So a resample draws rounds with replacement, and then samples within each. Modes that
 * draw by one seed draw the same rounds, so what a round did to both is not in their ratio.
 */
#ifndef CUTIN_TOOLS_CUTIN_STATISTICS_BOOTSTRAP_H
#define CUTIN_TOOLS_CUTIN_STATISTICS_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>

enum { BOOTSTRAP_RESAMPLES = 1000, BOOTSTRAP_OF_MANY = 200, BOOTSTRAP_MANY = 50000 };

struct bootstrap_set {
    const uint64_t *ns; /* in blocks */
    uint32_t n;
    const uint32_t *block_end;
    uint32_t blocks;
};

/* Holds so many percent of what the resamples had. */
enum { BOOTSTRAP_PERCENT = 95 };
struct interval {
    double least, most;
};

/* How many resamples so many samples get. */
static inline uint32_t bootstrap_resamples(uint32_t n)
{
    return n > BOOTSTRAP_MANY ? BOOTSTRAP_OF_MANY : BOOTSTRAP_RESAMPLES;
}
/* The percentile `percent[k]` of resample i, in us, to out[k][i]. `salt`: what differs between sets
 * that share a seed. 0 or -ENOMEM. */
int bootstrap_percentiles(const struct bootstrap_set *s, const double *percent, size_t percents,
                          uint64_t seed, uint64_t salt, double (*out)[BOOTSTRAP_RESAMPLES]);
/* Sorts the values. */
struct interval bootstrap_interval(double *values, uint32_t n);

#endif
