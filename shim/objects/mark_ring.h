/*
 * mark_ring.h - markers where the device has no memops: each stream has a ring of events.
 */
#ifndef CUTIN_SHIM_OBJECTS_MARK_RING_H
#define CUTIN_SHIM_OBJECTS_MARK_RING_H

#include "shim/objects/object.h"

/* 0 or -ENOMEM. */
int mark_ring_new(struct shim_stream *s);
void mark_ring_free(struct shim_stream *s);
/* The events go, or went, with the context. */
void mark_ring_forget(struct shim_stream *s);
CUresult mark_ring_record(struct mark_ring *ring, CUstream stream, uint32_t value);
/* The newest value that is complete; 0: the stream has no ring. */
uint32_t mark_ring_poll(const struct shim_stream *s);

#endif
