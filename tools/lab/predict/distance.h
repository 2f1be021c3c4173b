/*
 * distance.h - a GPU at a distance: what each operation takes on the device when host and GPU are
 * a longer round trip apart. The equations and their source are in docs/whatif-distance.md.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_DISTANCE_H
#define CUTIN_TOOLS_LAB_PREDICT_DISTANCE_H

#include "tools/lab/record/workload.h"

struct distance {
    uint64_t rtt_ns;        /* of one read over the link; 0: the GPU is where it was recorded */
    uint64_t native_rtt_ns; /* where it was recorded */
    uint32_t tags;          /* reads that the GPU has in flight at once */
    uint32_t request_bytes; /* of each */
};

/* By what the round trip is longer. */
uint64_t distance_delta_ns(const struct distance *d);
/* The most that the GPU can read from the host, in GB/s; 0: no bound. */
double distance_read_gbs(const struct distance *d);
/* What the device takes for `op`, where `native_ns` is what it takes without a distance. */
uint64_t distance_ns(const struct distance *d, const struct workload_op *op, uint64_t native_ns);

#endif
