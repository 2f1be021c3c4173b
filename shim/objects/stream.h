/*
 * stream.h - a CUDA stream as the shim sees it: its level, its vHQ, whether it is busy.
 */
#ifndef CUTIN_SHIM_OBJECTS_STREAM_H
#define CUTIN_SHIM_OBJECTS_STREAM_H

#include "shim/objects/context.h"

/* NULL names the legacy or the per-thread stream, by the variant of the call. */
static inline CUstream stream_normal(CUstream handle, bool ptds)
{
    return handle ? handle : ptds ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}
static inline bool stream_special(CUstream handle)
{
    return handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

/* The one that a thread asked for last. Void when one has been unlinked since. */
extern _Atomic uint32_t stream_generation;
extern _Thread_local struct stream_last {
    CUstream handle;
    struct shim_stream *stream;
    uint32_t generation;
} stream_last __attribute__((tls_model("initial-exec")));
struct shim_stream *stream_find(CUstream handle, uint32_t now);
/* The stream of a normalised handle; NULL when the driver does not know it either, or nothing is
 * scheduled. A handle of unknown origin is adopted. */
static inline struct shim_stream *stream_of(CUstream handle)
{
    /* pairs with the release in stream_unlink, by way of the application's own order */
    uint32_t now = atomic_load_explicit(&stream_generation, memory_order_acquire);
    bool last = likely(stream_last.handle == handle && stream_last.generation == now);
    return last ? stream_last.stream : stream_find(handle, now);
}
/* As above, and never adopts: NULL when unknown. */
struct shim_stream *stream_known(CUstream handle);

/* A stream was created (in the current context, or by a green context). */
void stream_created(CUstream handle);
/* Makes the stream of one handle known, of a level that was chosen. */
struct shim_stream *stream_add_at(struct shim_context *ctx, CUstream handle, unsigned flags,
                                  int priority, uint32_t level);
/* Each thread that uses CU_STREAM_PER_THREAD has a stream of its own per context, freed when the
 * thread ends. It is never buffered: the dispatcher is another thread, and there the handle means
 * another stream. Is it the calling thread's own? */
bool stream_of_thread(const struct shim_stream *s);
/* Remove it from the table: its handle, which still names it in the calling thread, may be reused
 * from now on. It may have work. */
void stream_leave(struct shim_stream *s);
/* Nothing more is submitted to a stream that was unlinked; its vHQ is drained. It is freed, or
 * stays until what it has in flight has run. Waits while the driver is asked for it. `marks`: the
 * calling thread may put a marker into it. */
void stream_end(struct shim_stream *s, bool marks);
/* Destroy streams whose deferred destroy is due, and free those that have nothing in flight any
 * more. */
void stream_reap(struct shim_context *ctx);

/*
 * What a module does with a stream when it begins, has its queue, and nobody knows it yet (BEGINS);
 * when it leaves (stream_leave) or is unlinked; and when nothing of it is in flight any more, with
 * the lock of the context held (ENDS). STREAM_NOTE at the module's file makes it known; in no order
 * among those of one moment.
 */
struct stream_note {
    enum stream_moment { STREAM_BEGINS, STREAM_LEAVES, STREAM_UNLINKED, STREAM_ENDS } moment;
    void (*note)(struct shim_stream *s);
};
#define STREAM_NOTE(moment, function)                                                              \
    static const struct stream_note function##_note = {moment, function};                          \
    static const struct stream_note *const function##_entry                                        \
        __attribute__((section("stream_note"), used)) = &function##_note;

#endif
