/*
 * mirror.h - copies of hold words where the GPU can see them, for drivers that do not register the
 * page itself.
 *
 * A thread ("cutin-mirror", started with the first mirror) copies each word: every 100 us while
 * work is in flight, else every millisecond. It never calls the driver, so it opens mirrors
 * whatever else waits for a closed gate.
 */
#ifndef CUTIN_SHIM_PACE_MIRROR_H
#define CUTIN_SHIM_PACE_MIRROR_H

#include "shim/objects/context.h"

struct mirror;

/* Stores in `device` where the GPU reads `word`. NULL: no memory, or no thread. The pinned word
 * goes with the context. */
struct mirror *mirror_new(struct shim_context *ctx, const _Atomic uint32_t *word,
                          CUdeviceptr *device);
/* While paused the pinned word is 0, and is not touched: it may be about to go. */
void mirror_pause(struct mirror *m, bool pause);
/* NULL is allowed. */
void mirror_free(struct mirror *m);

#endif
