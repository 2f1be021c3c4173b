/*
 * counters.h - what `cutin list` and `cutin top` show of this process.
 */
#ifndef CUTIN_SHIM_PATH_COUNTERS_H
#define CUTIN_SHIM_PATH_COUNTERS_H

#include "shim/objects/context.h"

struct shim_stream;

/* Add what happened in `ctx` since the last time to the counters of its device. */
void counters_publish(struct shim_context *ctx);
/* Calls of a stream that are not known complete, where no marker counts them; 0 for others. Of one
 * that has a queue, and goes while its process is alone: 1. */
uint64_t counters_pending(struct shim_stream *s);
/* A graph that is long enough for gates has none. */
void counters_ungated_graph(const struct shim_context *ctx);
/* For vhq_config.times of a context that is being made. NULL: there is no page. */
const struct vhq_times *counters_times(struct shim_context *ctx);

#endif
