/*
 * queues.h - the vHQs of a context, and what they ask of the driver: its thread, markers, gates.
 */
#ifndef CUTIN_SHIM_PACE_QUEUES_H
#define CUTIN_SHIM_PACE_QUEUES_H

#include "shim/objects/context.h"

/* Makes `ctx->set`, with the context current; none where no stream of this process is ever held.
 * Returns 0 or -errno: no memory, or no thread. Once for a context, by the thread that makes it
 * known. */
int queues_open(struct shim_context *ctx);

#endif
