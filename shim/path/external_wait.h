/*
 * external_wait.h - waits of a stream for something outside its process.
 *
 * A real-time stream may wait for an event of another process, or for a value in memory. That wait
 * may be for work that the stream itself holds: in another process, or in streams of lower levels
 * of its own process. While such a wait makes no progress for 20 ms, the process does not count as
 * active on that device. Three more things count as such waits: a graph with nodes that wait, from
 * its first node to its last; a host function while it runs, as it may wait for anything; a thread
 * that waits for another process's record or asks again and again, as running work may wait for it.
 */
#ifndef CUTIN_SHIM_PATH_EXTERNAL_WAIT_H
#define CUTIN_SHIM_PATH_EXTERNAL_WAIT_H

#include "shim/objects/stream.h"

struct watch;
/* Call these around the driver call that makes the stream wait, in the same thread. NULL: the wait
 * is not watched. No lock is held between the two. */
struct watch *external_wait_begin(CUstream handle);
void external_wait_end(struct watch *w);
/* The same for a call that makes everything wait that is called in the context from then on. */
struct watch *external_wait_begin_context(struct shim_context *ctx);
/* Call these around a host function of `s`, in the driver's thread that runs it, or around a
 * thread's wait for another process's record (`s` is NULL). `id` is unique while it lasts. */
void external_wait_thread_begins(struct shim_context *ctx, struct shim_stream *s, const void *id);
void external_wait_thread_ends(const void *id);
/* A thread asked for another process's record, and was told that it is not there yet. */
void external_wait_asked(const struct shim_context *ctx);
/* A stream of `device` waits for work of one of the device `source`. Real-time path, any thread. */
void external_wait_across(int device, int source);
static inline void external_wait_follow(const struct shim_stream *s,
                                        const struct shim_stream *source)
{
    if (source && unlikely(source->ctx->gpu != s->ctx->gpu))
        external_wait_across(s->ctx->gpu->index, source->ctx->gpu->index);
}
/* Polls all waits. The client's thread calls it every tick. */
void external_wait_poll(void);
/* True if external_wait_poll has something to poll. Any thread. */
bool external_wait_pending(void);

#endif
