/*
 * capture.c - streams that record into a graph (see capture.h).
 */
#include "shim/objects/capture.h"

_Atomic uint32_t capture_count;
pthread_mutex_t capture_legacy = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t capture_beginning = PTHREAD_MUTEX_INITIALIZER;

bool capture_ask(const struct shim_stream *s, CUstream handle)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (s && s->cig)
        return true;
    /* CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: the legacy stream while a blocking one captures. */
    return REAL(cuStreamIsCapturing)(handle, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUresult capture_query(const struct shim_stream *s, bool *captures)
{
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&capture_beginning); /* none begins between the look and the question */
    *captures = capture_active(s);
    if (!*captures)
        r = REAL(cuStreamQuery)(s->handle);
    pthread_mutex_unlock(&capture_beginning);
    return r;
}

struct capture_scope capture_relax(void)
{
    struct capture_scope scope = {.mode = CU_STREAM_CAPTURE_MODE_RELAXED};
    scope.relaxed = REAL(cuThreadExchangeStreamCaptureMode)(&scope.mode) == CUDA_SUCCESS;
    return scope;
}

void capture_restore(struct capture_scope scope)
{
    if (scope.relaxed)
        REAL(cuThreadExchangeStreamCaptureMode)(&scope.mode);
}

void capture_over(struct shim_stream *s)
{
    if (atomic_exchange(&s->captures, false))
        atomic_fetch_sub(&capture_count, 1);
}
