/*
 * capture.h - streams that capture into a graph. Commands of the shim's own must not get into them.
 */
#ifndef CUTIN_SHIM_OBJECTS_CAPTURE_H
#define CUTIN_SHIM_OBJECTS_CAPTURE_H

#include "common/mutant.h"
#include "shim/objects/object.h"

/* Number of streams in which cuStreamBeginCapture* has begun a capture that has not ended. */
extern _Atomic uint32_t capture_count;

static inline bool capture_any(void)
{
    return unlikely(atomic_load_explicit(&capture_count, memory_order_relaxed) != 0);
}
/* While anything captures: asks the driver whether calls on the stream must go to it unchanged. The
 * stream captures, or the driver will refuse the calls because another stream captures. `s`: NULL
 * where the stream of that handle is not known. */
bool capture_ask(const struct shim_stream *s, CUstream handle);
static inline bool capture_active(const struct shim_stream *s)
{
    return capture_any() && capture_ask(s, s->handle);
}
/* Around what would spoil a capture in the stream, or in a blocking stream if this is the legacy
 * stream: a query, or a command of the shim's own. False: a capture has begun or begins, so it must
 * not be done. Never waits. */
bool capture_enter(struct shim_stream *s);
void capture_leave(struct shim_stream *s);
/* Around the begin of such a capture. Waits for threads that have entered, 100 ms at most,
 * because the driver may let a marker wait for room in the legacy stream. */
void capture_begin_lock(struct shim_stream *s);
void capture_begin_unlock(struct shim_stream *s);
/* cuStreamQuery, or if that would disturb a capture CUDA_SUCCESS, with `captures` set to true. */
CUresult capture_query(struct shim_stream *s, bool *captures);

/* While a call waits in the shim, another thread may begin a capture that forbids it. The call came
 * first, so its driver call is made in relaxed mode: it neither fails nor spoils the capture.
 * `before`: what capture_any() was when the call began. */
struct capture_scope {
    bool relaxed;
    CUstreamCaptureMode mode;
};
static inline bool capture_came_later(bool before)
{
    return capture_any() && !before && !MUTANT(capture_comes_first);
}
struct capture_scope capture_relax(void);
void capture_restore(struct capture_scope scope);
/* Sets `r` to the driver's answer to `call`, in relaxed mode where that is needed. */
#define CAPTURE_LATER(before, r, call)                                                             \
    do {                                                                                           \
        if (unlikely(capture_came_later(before))) {                                                \
            struct capture_scope capture_scope = capture_relax();                                  \
            (r) = (call);                                                                          \
            capture_restore(capture_scope);                                                        \
        } else {                                                                                   \
            (r) = (call);                                                                          \
        }                                                                                          \
    } while (0)

/* A capture has begun in the stream. It may have been counted before. */
void capture_begun(struct shim_stream *s);
/* The capture has ended, or goes with the stream. */
void capture_over(struct shim_stream *s);
/* The capture may have ended by an error, as by a call from the wrong thread: asks the driver. */
void capture_maybe_over(struct shim_stream *s);

#endif
