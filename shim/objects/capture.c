/*
 * capture.c - streams that record into a graph (see capture.h).
 */
#include "shim/objects/capture.h"

#include "common/clock.h"

/* A call that takes longer waits in the driver, which has looked for captures before that. */
enum { INSIDE_MS = 100, LOOK_US = 20 };

_Atomic uint32_t capture_count;

bool capture_ask(const struct shim_stream *s, CUstream handle)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (s && s->cig)
        return true;
    /* CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: the legacy stream while a blocking stream captures. */
    return REAL(cuStreamIsCapturing)(handle, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* This and capture_begin_lock both count themselves before they look, so one sees the other. */
bool capture_enter(struct shim_stream *s)
{
    atomic_fetch_add(&s->inside, 1);
    if (likely(!atomic_load(&s->shut) && !capture_active(s)))
        return true;
    capture_leave(s);
    return false;
}

void capture_leave(struct shim_stream *s)
{
    atomic_fetch_sub(&s->inside, 1);
}

void capture_begin_lock(struct shim_stream *s)
{
    uint64_t by = clock_ns() + INSIDE_MS * NS_PER_MS;
    atomic_fetch_add(&s->shut, 1);
    while (atomic_load(&s->inside) && (clock_ns() < by || MUTANT(capture_waits_for_legacy)))
        clock_nap(LOOK_US * NS_PER_US);
}

void capture_begin_unlock(struct shim_stream *s)
{
    atomic_fetch_sub(&s->shut, 1);
}

CUresult capture_query(struct shim_stream *s, bool *captures)
{
    *captures = !capture_enter(s);
    if (*captures)
        return CUDA_SUCCESS;
    CUresult r = REAL(cuStreamQuery)(s->handle);
    capture_leave(s);
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

void capture_begun(struct shim_stream *s)
{
    static _Atomic uint32_t numbers;
    if (atomic_exchange(&s->captures, atomic_fetch_add(&numbers, 1) | 1U << 31))
        atomic_fetch_sub(&capture_count, 1); /* a second begin without an end */
}

void capture_over(struct shim_stream *s)
{
    if (atomic_exchange(&s->captures, 0))
        atomic_fetch_sub(&capture_count, 1);
}

void capture_maybe_over(struct shim_stream *s)
{
    uint32_t captures = atomic_load(&s->captures);
    if (captures && !capture_active(s) &&
        atomic_compare_exchange_strong(&s->captures, &captures, 0))
        atomic_fetch_sub(&capture_count, 1);
}
