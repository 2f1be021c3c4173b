/*
 * word.h - completion words: pinned memory that the GPU writes a stream's marker into, and the host
 * polls.
 *
 * They belong to a context (`words`), under its lock, and go with it. Threads: any.
 */
#ifndef CUTIN_SHIM_OBJECTS_WORD_H
#define CUTIN_SHIM_OBJECTS_WORD_H

#include "shim/objects/context.h"

/* Does the driver accept markers in this context, and does a thread see them in time? Tries it, in
 * a stream of its own: as long as an event takes, or 200 ms where they are late. */
bool words_probe(struct shim_context *ctx);
/* A word, 0 yet, and where the GPU sees it. NULL: no memory, or no memops. */
_Atomic uint32_t *word_get(struct shim_context *ctx, CUdeviceptr *device);
/* Give it back once the GPU has written `last`, its final value. */
void word_put(struct shim_context *ctx, _Atomic uint32_t *word, uint32_t last);

/* Writes it in stream order, by whatever version of that the driver has; */
CUresult word_write(CUstream stream, CUdeviceptr word, uint32_t value);
/* and in the same batch waits for the word at `gate` to be 0. */
CUresult word_write_gate(CUstream stream, CUdeviceptr word, uint32_t value, CUdeviceptr gate);

#endif
