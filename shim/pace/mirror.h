/*
 * mirror.h - copies of hold words where the GPU can see them, for drivers that do not register the
 * page itself.
 *
 * A thread ("cutin-mirror", started with the first mirror) copies each word some thousand times a
 * second while its context has work in flight. It never calls the driver, so whatever else waits
 * for a closed gate, the mirror opens.
 */
#ifndef CUTIN_SHIM_PACE_MIRROR_H
#define CUTIN_SHIM_PACE_MIRROR_H

#include "shim/objects/context.h"

struct mirror;

/* Where the GPU reads `word` is stored in `device`. NULL: no memory, no thread. The pinned word
 * goes with the context. */
struct mirror *mirror_new(struct shim_context *ctx, const _Atomic uint32_t *word,
                          CUdeviceptr *device);
/* The pinned word may be about to go: it stays 0, and is not touched, until `pause` is over. */
void mirror_pause(struct mirror *m, bool pause);
/* NULL is allowed. */
void mirror_free(struct mirror *m);

#endif
