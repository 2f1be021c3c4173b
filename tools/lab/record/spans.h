/*
 * spans.h - how long kernels took by themselves, from when each was first and last seen on the GPU.
 *
 * A pair of events says when the kernel's stream had come to it and when it was complete. Between
 * the two it may have waited for the multiprocessors, and whoever had them was complete before it
 * began. So where kernels of other streams ended in that time it took no less than what is left
 * behind the last one, and no longer than all of it. Others of its shape say what is so.
 */
#ifndef CUTIN_TOOLS_LAB_RECORD_SPANS_H
#define CUTIN_TOOLS_LAB_RECORD_SPANS_H

#include <stddef.h>
#include <stdint.h>

struct span {
    uint64_t from_ns, until_ns; /* from_ns first: they are sorted by it */
    uint64_t shape;             /* the same for kernels of one name, grid and block */
    uint32_t stream;
    uint64_t least_ns, *took_ns;
};

/* Writes every `took_ns`, and puts the list into another order. */
void spans_settle(struct span *list, size_t n);
/* For how long there was at least one. The same. */
uint64_t spans_busy_ns(struct span *list, size_t n);

#endif
