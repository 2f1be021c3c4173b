/*
 * access.h - which memory the blocks of a kernel ask for, as shares of their requests.
 *
 * No recording says it, so a pattern is stated: by the user for a recorded program, by the set of
 * synthetic kernels for the check against the paper.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_ACCESS_H
#define CUTIN_TOOLS_LAB_PREDICT_ACCESS_H

#include <stddef.h>
#include <stdint.h>

struct access_pattern {
    const char *name, *says;
    /* Of the requests that leave a multiprocessor; in sum 1, and `own` above 0. */
    double own;    /* the block's own part of the data, each line once */
    double halo;   /* parts of neighbours in a plane of blocks */
    double shared; /* a table that all blocks read */
    double random; /* anywhere in the data */
    uint64_t shared_bytes;
    double uneven; /* the last block computes 1 + uneven, the first 1 - uneven, of the mean */
};

/* NULL behind the last. */
const struct access_pattern *access_pattern(size_t i);
const struct access_pattern *access_pattern_find(const char *name);

#endif
