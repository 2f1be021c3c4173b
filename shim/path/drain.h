/*
 * drain.h - wait until what is buffered was submitted, and then until it completed.
 *
 * A wait for buffered work is a wait for holds to end. `boost` exempts what is waited for, when the
 * waiter itself is of a higher level.
 */
#ifndef CUTIN_SHIM_PATH_DRAIN_H
#define CUTIN_SHIM_PATH_DRAIN_H

#include "shim/objects/stream.h"

/* ... and until it is known complete, so that no driver lock is held meanwhile. */
void drain_sync_stream(struct shim_stream *s, bool boost);
/* A context; with the primary one its green contexts, which are synchronised with it. */
void drain_context(struct shim_context *ctx, bool boost);
void drain_sync_context(struct shim_context *ctx);
/* Everything in the process. */
void drain_all(bool boost);
/* ... but for what stands behind a call of another thread that is inside the driver or waits for
 * its turn: it may wait for what this thread does next. */
void drain_all_unblocked(void);
/* The same of a stream with a vHQ, and what CUDA orders before it. */
void drain_stream_unblocked(struct shim_stream *s);
/* Nothing is buffered in any context. */
bool drain_nothing(void);

/* What blocking streams have buffered goes before a call in their legacy stream that overtakes what
 * is buffered there, and natively waits for nothing. */
void drain_before_legacy(struct shim_stream *legacy);

/* For streams that are never held (call.c). */
void drain_legacy_order(struct shim_stream *s);
/* A stream that waits for a value stands in the way of others of its hardware queue, which a
 * primary context shares with its green ones: what these have buffered is submitted before the
 * wait. */
void drain_siblings(struct shim_context *ctx);
void drain_displaced(struct vhq_fence *fence);
struct shim_event;
/* An earlier record of the event that is buffered, and waits for that, go before what follows. */
void drain_record(struct shim_event *ev);
/* Likewise; something else than a record of a stream is about to record it, at once. */
void drain_recorded(CUevent event);

#endif
