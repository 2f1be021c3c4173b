/*
 * capture.h - streams that record into a graph: nothing of ours may come between.
 */
#ifndef CUTIN_SHIM_OBJECTS_CAPTURE_H
#define CUTIN_SHIM_OBJECTS_CAPTURE_H

#include <pthread.h>

#include "common/mutant.h"
#include "shim/objects/object.h"

/* Number of streams in which a capture began, by way of cuStreamBeginCapture*, and has not
 * ended. */
extern _Atomic uint32_t capture_count;
/* Held while something of ours goes into the legacy stream, which may have to wait for room there,
 * and while a blocking stream begins to capture. */
extern pthread_mutex_t capture_legacy;
/* Held while a capture begins, while the driver is asked, which answers at once, and until what it
 * says of an end is noted. */
extern pthread_mutex_t capture_beginning;

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
/* cuStreamQuery where no capture may notice it: asking a stream that captures spoils the capture,
 * and so does asking the legacy stream while a blocking one captures. CUDA_SUCCESS with `captures`
 * when it was not asked. */
CUresult capture_query(const struct shim_stream *s, bool *captures);

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

/* The capture that began in the stream has ended, or goes with it. */
void capture_over(struct shim_stream *s);

#endif
