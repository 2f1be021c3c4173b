/*
 * counters.h - what `cutin list` and `cutin top` show of this process.
 */
#ifndef CUTIN_SHIM_PATH_COUNTERS_H
#define CUTIN_SHIM_PATH_COUNTERS_H

#include "shim/objects/context.h"

/* Adds what happened in `ctx` since the last time to the counters of its device. */
void counters_publish(struct shim_context *ctx);
/* How many calls of a stream are not known complete, if no marker counts them; else 0. A stream
 * with a queue that has loose commands counts 1, because their number is not known. */
uint64_t counters_pending(struct shim_stream *s);
/* Counts a graph that is long enough for gates and has none. */
void counters_ungated_graph(const struct shim_context *ctx);
/* Gives vhq_config.times for a context that is being made. NULL: there is no page. */
const struct vhq_times *counters_times(struct shim_context *ctx);

#endif
