/*
 * distance.h - a GPU at a distance: how long each operation takes on the device when the round trip
 * between host and GPU is longer. docs/whatif-distance.md has the equations and their source.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_DISTANCE_H
#define CUTIN_TOOLS_LAB_PREDICT_DISTANCE_H

#include "tools/lab/record/workload.h"

struct distance {
    uint64_t rtt_ns;        /* of one read over the link; 0: the GPU is where it was recorded */
    uint64_t native_rtt_ns; /* where the program was recorded */
    uint32_t tags;          /* reads that the GPU has in flight at once */
    uint32_t request_bytes; /* of each read */
};

/* How much longer the round trip is. */
uint64_t distance_delta_ns(const struct distance *d);
/* The highest rate at which the GPU can read from the host, in GB/s; 0: no bound. */
double distance_read_gbs(const struct distance *d);
/* How long the device takes for `op`, if it takes `native_ns` without a distance. */
uint64_t distance_op_ns(const struct distance *d, const struct workload_op *op, uint64_t native_ns);

#endif
