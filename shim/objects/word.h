/*
 * word.h - completion words: pinned memory into which the GPU writes a stream's markers, and which
 * the host polls. Where the device has no memops each stream has a ring of events instead.
 *
 * Words belong to a context (`words`), under its lock, and end with it. Any thread.
 */
#ifndef CUTIN_SHIM_OBJECTS_WORD_H
#define CUTIN_SHIM_OBJECTS_WORD_H

#include "shim/objects/context.h"

/* Does the driver accept markers in this context, and are they seen in time? Tries it in a stream
 * of its own. Takes as long as an event, or 200 ms where markers are late. */
bool words_probe(struct shim_context *ctx);
/* A new word, which is 0, and its address on the GPU. NULL: no memory, or no memops. */
_Atomic uint32_t *word_get(struct shim_context *ctx, CUdeviceptr *device);
/* Gives it back. It is reused once the GPU has written `last`, its final value. */
void word_put(struct shim_context *ctx, _Atomic uint32_t *word, uint32_t last);

/* Writes the word in stream order, by the version of the write that the driver has. */
CUresult word_write(CUstream stream, CUdeviceptr word, uint32_t value);
/* The same, and in the same batch waits until the word at `gate` is 0. */
CUresult word_write_gate(CUstream stream, CUdeviceptr word, uint32_t value, CUdeviceptr gate);

/* False: no memory. */
bool mark_ring_new(struct shim_stream *s);
void mark_ring_free(struct shim_stream *s);
/* The events go, or went, with the context. */
void mark_ring_forget(struct shim_stream *s);
CUresult mark_ring_record(struct mark_ring *ring, CUstream stream, uint32_t value);
/* vhq_ops.poll of every context: the newest value that is complete; 0: the stream has no ring. */
uint32_t mark_ring_poll(void *user, struct vhq *q, void *stream);

#endif
