/*
 * figures.h - what `cutin list` and `cutin top` show of this process.
 */
#ifndef CUTIN_SHIM_FIGURES_H
#define CUTIN_SHIM_FIGURES_H

#include "shim/context.h"

/* Add what happened in `ctx` since the last time to the counters of its device. */
void figures_publish(struct shim_context *ctx);

#endif
