/*
 * distance.c - the DxPU model, operation by operation (see distance.h).
 */
#include "distance.h"

uint64_t distance_delta_ns(const struct distance *d)
{
    return d->rtt_ns > d->native_rtt_ns ? d->rtt_ns - d->native_rtt_ns : 0;
}

double distance_read_gbs(const struct distance *d)
{
    return d->rtt_ns ? (double)d->tags * d->request_bytes / (double)d->rtt_ns : 0;
}

/* The data comes at its old rate, or at the one that the outstanding reads allow. */
static uint64_t read_ns(const struct distance *d, uint64_t bytes, uint64_t native_ns)
{
    uint64_t bound_ns = (uint64_t)((double)bytes / distance_read_gbs(d));

    return native_ns > bound_ns ? native_ns : bound_ns;
}

uint64_t distance_op_ns(const struct distance *d, const struct workload_op *op, uint64_t native_ns)
{
    uint64_t delta_ns = distance_delta_ns(d);

    if (!delta_ns || op->kind == WORKLOAD_SYNC)
        return native_ns;
    if (op->kind == WORKLOAD_COPY && op->direction == WORKLOAD_TO_DEVICE)
        return delta_ns + read_ns(d, op->bytes, native_ns);
    if (op->kind == WORKLOAD_COPY && op->direction == WORKLOAD_TO_HOST)
        return delta_ns / 2 + native_ns; /* posted writes: there is no answer to wait for */
    return delta_ns + native_ns;
}
