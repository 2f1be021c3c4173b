/*
 * access.h - which memory the blocks of a kernel ask for, as shares of their requests.
 *
 * A recording does not contain this, so a pattern is stated: by the user for a recorded program, by
 * the set of synthetic kernels for the check against the paper.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_ACCESS_H
#define CUTIN_TOOLS_LAB_PREDICT_ACCESS_H

#include <stddef.h>
#include <stdint.h>

struct access_pattern {
    const char *name, *says;
    /* Shares of the requests that leave a multiprocessor. Their sum is 1, and `own` is above 0. */
    double own;    /* the block's own part of the data, each line once */
    double halo;   /* parts of the neighbours in a plane of blocks */
    double shared; /* a table that all blocks read */
    double random; /* anywhere in the data */
    uint64_t shared_bytes;
    double uneven; /* the last block computes 1 + uneven times the mean, the first 1 - uneven */
};

/* NULL: `i` is after the last pattern. */
const struct access_pattern *access_pattern(size_t i);
const struct access_pattern *access_pattern_find(const char *name);

#endif
