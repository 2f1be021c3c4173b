/*
 * drain.h - wait until what is buffered was submitted, and then until it completed.
 *
 * A wait for buffered work lasts until holds end. `boost` exempts what is waited for from holds; it
 * is set if the waiting thread is of a higher level.
 */
#ifndef CUTIN_SHIM_PATH_DRAIN_H
#define CUTIN_SHIM_PATH_DRAIN_H

#include "shim/objects/stream.h"

/* Drain a stream and wait until it is known complete. No driver lock is held meanwhile. */
void drain_sync_stream(struct shim_stream *s, bool boost);
/* Drain a context. The green contexts of a primary one are drained and synchronised with it. */
void drain_context(struct shim_context *ctx, bool boost);
void drain_sync_context(struct shim_context *ctx);
/* Drain all contexts of the process. */
void drain_all(bool boost);
/* Drain all contexts, but not what stands behind a call of another thread that is inside the driver
 * or waits for its turn: that call may wait for what this thread does next. */
void drain_all_unblocked(void);
/* The same for one stream that has a vHQ, and for what CUDA orders before it. */
void drain_stream_unblocked(struct shim_stream *s);
/* True if nothing is buffered in any context. */
bool nothing_buffered(void);

/* Submit what blocking streams have buffered. This is for a call in their legacy stream that waits
 * for nothing natively, and overtakes what the legacy stream itself has buffered. */
void drain_before_legacy(struct shim_stream *legacy);

/* For streams that are never held (call.c): drain what the legacy rule orders before a call. */
void drain_legacy_order(struct shim_stream *s);
/* A stream that waits for a value stops other streams of its hardware queue, which a primary
 * context shares with its green ones. So what those contexts have buffered is submitted before the
 * wait. */
void drain_siblings(struct shim_context *ctx);
void drain_displaced(struct vhq_fence *fence);
struct shim_event;
/* Submit a buffered earlier record of the event, and the waits for it, before what follows. */
void drain_event(struct shim_event *ev);
/* The same, before something other than a record of a stream records the event at once. */
void drain_before_record(CUevent event);

#endif
