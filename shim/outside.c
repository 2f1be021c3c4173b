/*
 * outside.c - waits for something outside the process (see outside.h). An event in front of the wait
 * and one behind tell whether the stream stands at it. One watch per stream, for all its waits that
 * are not over.
 */
#include "shim/outside.h"

#include <pthread.h>

#include "scheduler/client.h"
#include "shim/capture.h"
#include "shim/schedule.h"

enum { WATCHES = 64 };

struct watch {
    struct shim_context *ctx;   /* NULL: free */
    struct shim_stream *stream; /* NULL: destroyed, and what was in it goes on */
    CUevent before, after;
    bool complete; /* both were recorded */
    bool standing; /* the scheduler knows that it stands there */
    uint64_t progress;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct watch watches[WATCHES];
static _Atomic unsigned watched;

static struct watch *watch_of(const struct shim_stream *s)
{
    struct watch *empty = NULL;
    for (int i = 0; i < WATCHES; i++) {
        if (watches[i].stream == s)
            return &watches[i];
        if (!watches[i].ctx && !empty)
            empty = &watches[i];
    }
    return empty;
}

static void watch_stand(struct watch *w, bool standing)
{
    if (w->standing == standing)
        return;
    w->standing = standing;
    if (standing)
        client_external_wait_begin(w->ctx->gpu->index, schedule_highest());
    else
        client_external_wait_end(w->ctx->gpu->index, schedule_highest());
}

static void watch_end(struct watch *w)
{
    watch_stand(w, false);
    if (w->before)
        REAL(cuEventDestroy_v2)(w->before);
    if (w->after)
        REAL(cuEventDestroy_v2)(w->after);
    *w = (struct watch){.ctx = NULL};
    atomic_fetch_sub(&watched, 1);
}

static bool record(CUevent *event, CUstream stream)
{
    if (!*event && REAL(cuEventCreate)(event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return false;
    return REAL(cuEventRecord)(*event, stream) == CUDA_SUCCESS;
}

struct shim_stream *outside_begin(CUstream handle)
{
    struct shim_stream *s = stream_known(handle);
    if (!s || schedule_highest() == CUTIN_LEVEL_BE || (capture_any() && capture_active(handle)))
        return NULL;
    pthread_mutex_lock(&lock);
    struct watch *w = watch_of(s);
    if (w &&
        w->stream) { /* the earlier wait may not be over: from its beginning to this one's end */
        watch_stand(w, false);
        w->complete = false;
    } else if (w && record(&w->before, handle)) {
        atomic_fetch_add(&watched, 1);
        w->stream = s;
        w->ctx = s->ctx;
    }
    pthread_mutex_unlock(&lock);
    return s;
}

void outside_end(struct shim_stream *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&lock);
    struct watch *w = watch_of(s);
    if (w && w->stream) {
        w->complete = record(&w->after, s->handle);
        if (!w->complete)
            watch_end(w);
    }
    pthread_mutex_unlock(&lock);
}

/* The scheduler waits out its patience before it draws the conclusion. A best-effort stream, or one
 * that was destroyed, matters only while those above it stand still: they may follow it, by events or
 * the legacy stream. */
static void watch_look(struct watch *w)
{
    uint64_t progress = schedule_progress();
    if (!(w->stream && w->stream->tracked) && w->progress != progress)
        watch_stand(w, false);
    w->progress = progress;
    if (!w->complete || REAL(cuEventQuery)(w->before) == CUDA_ERROR_NOT_READY)
        return;
    if (REAL(cuEventQuery)(w->after) == CUDA_ERROR_NOT_READY)
        watch_stand(w, true);
    else
        watch_end(w);
}

void outside_look(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!atomic_load_explicit(&watched, memory_order_relaxed))
        return;
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WATCHES; i++)
        if (watches[i].ctx)
            watch_look(&watches[i]);
    pthread_mutex_unlock(&lock);
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
}

void outside_forget(const struct shim_stream *s)
{
    if (!atomic_load_explicit(&watched, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    struct watch *w = watch_of(s);
    if (w && w->stream && w->complete)
        w->stream = NULL;
    else if (w && w->stream)
        watch_end(w);
    pthread_mutex_unlock(&lock);
}

void outside_forget_context(const struct shim_context *ctx)
{
    if (!atomic_load_explicit(&watched, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WATCHES; i++)
        if (watches[i].ctx == ctx)
            watch_end(&watches[i]);
    pthread_mutex_unlock(&lock);
}
