/*
 * thread_stream.h - CU_STREAM_PER_THREAD: one handle that names another stream in every thread.
 *
 * Each thread that uses it has a shim_stream of its own per context, freed when the thread ends. It
 * is never buffered: the dispatcher is another thread, and there the handle means another stream.
 */
#ifndef CUTIN_SHIM_OBJECTS_THREAD_STREAM_H
#define CUTIN_SHIM_OBJECTS_THREAD_STREAM_H

#include "shim/objects/stream.h"

/* The calling thread's per-thread stream in `ctx`; NULL: no memory (find: or not used so far). */
struct shim_stream *thread_stream_get(struct shim_context *ctx);
struct shim_stream *thread_stream_find(struct shim_context *ctx);
/* Whether `s` is the calling thread's own. */
bool thread_stream_mine(const struct shim_stream *s);

#endif
