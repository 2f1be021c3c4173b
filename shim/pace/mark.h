/*
 * mark.h - completion markers: how the host learns what a stream has finished.
 *
 * A marker is a small stream-ordered write of a rising value to the stream's completion word. Where
 * the device has no memops, a marker is an event from the stream's own ring, and polling queries
 * it.
 */
#ifndef CUTIN_SHIM_PACE_MARK_H
#define CUTIN_SHIM_PACE_MARK_H

#include "shim/objects/stream.h"

/* vhq_ops.mark, .poll and .complete of every context. */
int mark_write(void *user, struct vhq *q, void *stream, uint32_t value);
/* A marker with a gate behind it; `gate` 0: a marker alone. */
CUresult mark_write_gate(struct shim_stream *s, uint32_t value, CUdeviceptr gate);
uint32_t mark_poll(void *user, struct vhq *q, void *stream);
/* True if the stream's handle means this stream in the calling thread with its current context. */
bool mark_nameable(const struct shim_stream *s);
bool mark_complete(void *user, struct vhq *q, void *stream);

#endif
