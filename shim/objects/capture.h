/*
 * capture.h - streams that record into a graph: nothing of ours may come between.
 */
#ifndef CUTIN_SHIM_OBJECTS_CAPTURE_H
#define CUTIN_SHIM_OBJECTS_CAPTURE_H

#include "common/mutant.h"
#include "shim/objects/object.h"

/* Number of streams in which a capture began, by way of cuStreamBeginCapture*, and has not
 * ended. */
extern _Atomic uint32_t capture_count;

static inline bool capture_any(void)
{
    return unlikely(atomic_load_explicit(&capture_count, memory_order_relaxed) != 0);
}
bool capture_ask(const struct shim_stream *s, CUstream handle);
/* True when calls on the stream must go to the driver as they are: it captures, or the driver will
 * refuse them because another stream does. Asks the driver where anything captures. `s`: NULL where
 * the stream of that handle is not known. */
static inline bool capture_active_at(const struct shim_stream *s, CUstream handle)
{
    return capture_any() && capture_ask(s, handle);
}
static inline bool capture_active(const struct shim_stream *s)
{
    return capture_active_at(s, s->handle);
}
/* Around what would spoil a capture in the stream, of a blocking one if it is the legacy stream:
 * asking for its work, and giving it some of ours. False: it must not be, since one has begun or
 * begins. Waits for nobody. */
bool capture_enter(struct shim_stream *s);
void capture_leave(struct shim_stream *s);
/* Around the begin of a capture that the above would spoil. Waits for who has entered, 100 ms at
 * most: the driver may let a marker wait for room in the legacy stream. */
void capture_shut(struct shim_stream *s);
void capture_open(struct shim_stream *s);
/* cuStreamQuery where no capture may notice it. CUDA_SUCCESS with `captures` when it was not
 * asked. */
CUresult capture_query(struct shim_stream *s, bool *captures);

/* A call that waits here may be overtaken by the begin of a capture that forbids it. It came first,
 * so its driver call, made in relaxed mode, neither fails nor spoils the capture. `before`: what
 * capture_any() was when the call began. */
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
/* The driver's answer to `call`, made so where it is called for. */
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

/* A capture has begun in the stream, and was counted before. */
void capture_begun(struct shim_stream *s);
/* It has ended, or goes with the stream. */
void capture_over(struct shim_stream *s);
/* An error may end it, too (of the wrong thread): the driver is asked. */
void capture_maybe_over(struct shim_stream *s);

#endif
