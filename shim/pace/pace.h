/*
 * pace.h - what this folder does for a context's queues: markers, orders from outside, suspending,
 * and whether others may hold them.
 */
#ifndef CUTIN_SHIM_PACE_PACE_H
#define CUTIN_SHIM_PACE_PACE_H

#include "shim/objects/stream.h"

/* ---- mark.c -------------------------------------------------------------------------------- */

/* vhq_ops.mark and .complete of every context. */
int mark_write(void *user, struct vhq *q, void *stream, uint32_t value);
/* A marker with a gate behind it; `gate` 0: a marker alone. */
CUresult mark_write_gate(struct shim_stream *s, uint32_t value, CUdeviceptr gate);
/* True if the stream's handle means this stream in the calling thread with its current context. */
bool mark_nameable(const struct shim_stream *s);
bool mark_complete(void *user, struct vhq *q, void *stream);

/* ---- queues.c, remote.c -------------------------------------------------------------------- */

/* Looks again whether others may hold the queues. The client's thread calls it every 10 ms. */
void rivals_update(void);
/* For client_config.remote: the client's thread calls it. */
void remote_take(void *user, enum control_kind kind, uint32_t value);
/* What is in force now, for new contexts. */
uint32_t remote_budget_us(void);
uint32_t remote_depth(void);

/* ---- suspend.c ----------------------------------------------------------------------------- */

/* Called while a context with queues is made known. */
void suspend_open(struct shim_context *ctx);
/* At exit: all groups go on, and none is stopped any more. */
void suspend_end(void);

#endif
