/*
 * external_wait.h - waits of a stream for something outside its process.
 *
 * A real-time stream that waits for an event of another process, or for a value in memory, may wait
 * for work that it holds itself: in another process, or in its own streams of lower levels. While
 * such a wait makes no progress for 20 ms, the process does not count as active on that device. A
 * graph with nodes that wait is such a wait from its first node to its last; a host function, for
 * which its stream waits and which may wait for anything, is one while it runs. So is a thread that
 * waits for another process's record, or asks for it again and again: what runs may wait for it.
 */
#ifndef CUTIN_SHIM_PATH_EXTERNAL_WAIT_H
#define CUTIN_SHIM_PATH_EXTERNAL_WAIT_H

#include "shim/objects/stream.h"

struct watch;
/* Around the driver call that makes the stream wait, in the thread that makes it. NULL: it is not
 * watched. No lock is held meanwhile. */
struct watch *external_wait_begin(CUstream handle);
void external_wait_end(struct watch *w);
/* ... of all that is called in the context from now on. */
struct watch *external_wait_begin_context(struct shim_context *ctx);
/* Around a host function of `s`, in the driver's thread that runs it, or a thread's wait for what
 * another process records; `id` is its own while it lasts. `s`: NULL. */
void external_wait_thread_begins(struct shim_context *ctx, struct shim_stream *s, const void *id);
void external_wait_thread_ends(const void *id);
/* Another process's record is not there yet, as a thread has been told that asks for it. */
void external_wait_asked(const struct shim_context *ctx);
/* `s` waits for what `source` was given. Any thread, real-time path. */
void external_wait_across(int device, int source);
static inline void external_wait_follow(const struct shim_stream *s,
                                        const struct shim_stream *source)
{
    if (source && unlikely(source->ctx->gpu != s->ctx->gpu))
        external_wait_across(s->ctx->gpu->index, source->ctx->gpu->index);
}
/* From the client's thread, every tick. */
void external_wait_look(void);
/* That has something to look at. Any thread. */
bool external_wait_any(void);

#endif
