/*
 * traced.c - what happens to a vHQ, as records of a trace.
 */
#include "vhq/internal.h"

void traced_queue(enum trace_kind kind, struct vhq *q, uint64_t ticket, int change,
                  uint64_t from_ns)
{
    uint64_t buffered = peek(q->ring.tail_seq) - peek(q->ring.head_seq) + (uint64_t)change;
    struct trace_record r = {.kind = (uint16_t)kind,
                             .ns = from_ns,
                             .level = (uint16_t)q->desc.level,
                             .stream = q->desc.id};

    r.queue.ticket = ticket;
    r.queue.op = trace_op;
    r.queue.took_ns = from_ns ? trace_elapsed_ns(from_ns) : 0;
    r.queue.buffered = (uint32_t)buffered;
    r.queue.in_flight = peek(q->counted) - peek(q->complete);
    trace_put(&r);
}
