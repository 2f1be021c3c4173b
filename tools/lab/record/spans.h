/*
 * spans.h - how long kernels took by themselves, from when each was first and last seen on the GPU.
 *
 * A pair of events says when the kernel's stream had come to it and when it was complete. In
 * between the kernel may have waited for the multiprocessors; then the kernels that had them were
 * complete before it began. So if kernels of other streams ended in that time, it took at least
 * what is left after the last such end, and at most the whole time. Others of its shape tell which.
 */
#ifndef CUTIN_TOOLS_LAB_RECORD_SPANS_H
#define CUTIN_TOOLS_LAB_RECORD_SPANS_H

#include <stddef.h>
#include <stdint.h>

struct span {
    uint64_t from_ns, until_ns; /* from_ns is first, because they are sorted by it */
    uint64_t shape;             /* the same for kernels of one name, grid and block */
    uint32_t stream;
    uint64_t least_ns, *took_ns;
};

/* Writes every `took_ns`. Changes the order of the list. */
void spans_estimate(struct span *list, size_t n);
/* For how long there was at least one span. Changes the order of the list. */
uint64_t spans_busy_ns(struct span *list, size_t n);

#endif
