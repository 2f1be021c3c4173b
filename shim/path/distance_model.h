/*
 * distance_model.h - what a GPU at a distance costs, by DxPU (He et al., ACM TACO 2023): every
 * command that the GPU is asked for comes later by what the round trip is longer than over PCIe;
 * the GPU reads the host's memory with so many requests in flight, so the rate falls as the round
 * trip grows; writes to the host are posted, so half of the round trip is added and the rate stays.
 * Arithmetic alone: no driver and no settings.
 */
#ifndef CUTIN_SHIM_DISTANCE_MODEL_H
#define CUTIN_SHIM_DISTANCE_MODEL_H

#include <stddef.h>
#include <stdint.h>

enum { DISTANCE_NATIVE_RTT_NS = 1200, DISTANCE_REQUEST_BYTES = 128 };

struct distance {
    uint32_t rtt_ns, tags; /* no longer than the native round trip: there is no distance */
};

/* In front of kernels, graphs, memsets, copies to the device and within it; half of it in front of
 * copies to the host. */
static inline uint32_t distance_delta_ns(const struct distance *d)
{
    return d->rtt_ns > DISTANCE_NATIVE_RTT_NS ? d->rtt_ns - DISTANCE_NATIVE_RTT_NS : 0;
}

/* What the GPU needs at least to read so much of the host's memory. */
static inline uint64_t distance_read_ns(const struct distance *d, uint64_t bytes)
{
    return (uint64_t)((double)bytes * d->rtt_ns / ((double)d->tags * DISTANCE_REQUEST_BYTES));
}

#endif
