/*
 * contexts.c - contexts that end while other threads wait or streams are held, stacks of current
 * contexts, and streams used from where their context is not current.
 */
#include "tests/hazards/hazard.h"

#include <stdatomic.h>

static CUstream stream;
static CUdeviceptr words;
static _Atomic int returned;

static void wait_for_stream(void *user)
{
    atomic_store(&returned, 1);
    cuStreamSynchronize(stream); /* the answer depends on which comes first, natively too */
    atomic_store(&returned, 2);
}

HAZARD(context_may_be_destroyed_while_another_thread_waits)
{
    CUcontext primary = context, other = context_new();
    uint32_t *host = pinned_new(0);
    context = other; /* that the waiting thread makes current */
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    MUST(cuMemAlloc(&words, BYTES));
    MUST(cuMemsetD32Async(words, 1, N, stream));
    MUST(cuStreamSynchronize(stream));
    hold(stream);
    SAY(cuMemsetD32Async(words, 7, N, stream));
    SAY(cuMemcpyDtoHAsync(host, words, BYTES, stream));
    struct thread *t = thread_start(wait_for_stream, NULL);
    UNTIL(atomic_load(&returned) >= 1);
    SAY(cuCtxDestroy(other));
    thread_join(t);
    context = primary;
    SAY(cuCtxSetCurrent(primary));
    words = buffer_new(3);
    warm(NULL);
    SAY(launch_mix(words, 5, 7, NULL));
    show("primary", words);
}

HAZARD(context_destroyed_with_work_buffered_runs_it_first)
{
    uint32_t *host = pinned_new(0);
    CUcontext other = context_new();
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    MUST(cuMemAlloc(&words, BYTES));
    MUST(cuMemsetD32Async(words, 1, N, stream));
    MUST(cuStreamSynchronize(stream));
    hold(stream);
    SAY(cuMemsetD32Async(words, 7, N, stream));
    SAY(cuMemcpyDtoHAsync(host, words, BYTES, stream));
    buffered(stream);
    SAY(cuCtxDestroy(other));
    show_host("host", host);
    SAY(cuStreamQuery(stream));
    SAY(cuMemFree(words));
    SAY(cuCtxSetCurrent(context));
}

static void launch_into(CUstream s, const char *what)
{
    printf("%s\n", what);
    SAY(cuMemsetD32Async(words, 2, N, s));
    SAY(cuMemcpyDtoDAsync(words, words + BYTES / 2, BYTES / 2, s));
    SAY(cuStreamQuery(s) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : cuStreamQuery(s));
    SAY(cuStreamSynchronize(s));
}

/* Calls for a stream from a thread where another context, or none, is current. */
HAZARD(stream_is_used_while_its_context_is_not_current)
{
    CUcontext popped, other;
    uint32_t a = 5, b = 7, n = N;
    void *params[] = {&words, &a, &b, &n};
    words = buffer_new(3);
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent e = event_new();
    warm(stream);
    other = context_new(); /* it is current now */
    for (int i = 0; i < 2; i++) {
        hold_ms = 5;
        hold(stream);
        launch_into(stream, "another context");
        SAY(cuLaunchKernel(mix, 4, 1, 1, 256, 1, 1, 0, stream, params, NULL));
        SAY(cuEventRecord(e, stream));
        SAY(cuStreamWaitEvent(NULL, e, 0));
        release(stream);
        SAY(cuCtxSynchronize());
    }
    SAY(cuCtxPopCurrent(&popped));
    SAY(cuCtxSetCurrent(NULL));
    hold(stream);
    launch_into(stream, "no context");
    SAY(cuLaunchKernel(mix, 4, 1, 1, 256, 1, 1, 0, stream, params, NULL));
    SAY(cuEventRecord(e, stream));
    SAY(cuEventSynchronize(e));
    SAY(cuMemsetD32Async(words, 2, N, NULL));
    SAY(cuCtxSynchronize());
    release(stream);
    SAY(cuCtxSetCurrent(context));
    show("words", words);
    SAY(cuCtxDestroy(other));
}

/* It goes behind what its stream has buffered. The context of its caller may be destroyed. */
HAZARD(launch_from_another_context_keeps_its_order)
{
    words = buffer_new(3);
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    warm(stream);
    for (uint32_t i = 0; i < 3; i++) {
        hold_ms = 5;
        hold(stream);
        SAY(launch_mix(words, 11, 2, stream));
        buffered(stream);
        CUcontext other = context_new(); /* it is current now */
        SAY(launch_mix(words, 5, i, stream));
        SAY(cuCtxDestroy(other));
        SAY(cuCtxSetCurrent(context));
        SAY(launch_mix(words, 3, 1, stream));
        release(stream);
        show("words", words);
    }
}

/* The driver refuses the launch. It must be asked at once, whatever is buffered. */
HAZARD(launch_without_a_context_is_refused_while_its_stream_is_held)
{
    words = buffer_new(3);
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    warm(stream);
    SAY(cuCtxSetCurrent(NULL));
    hold_ms = 5;
    hold(stream);
    SAY(launch_mix(words, 5, 7, stream));
    release(stream);
    SAY(cuCtxSetCurrent(context));
    show("words", words);
}

HAZARD(context_stack_is_the_callers_own)
{
    CUcontext other = context_new(), now, popped;
    CUstream there = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(1);
    SAY(cuCtxPushCurrent(context));
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    words = buffer_new(3);
    warm(stream);
    hold(stream);
    SAY(launch_mix(words, 5, 7, stream));
    SAY(cuCtxGetCurrent(&now));
    printf("as pushed: %d\n", now == context);
    SAY(cuCtxPopCurrent(&popped));
    printf("popped: %d\n", popped == context);
    SAY(cuMemsetD32Async(x, 9, N, there));
    SAY(cuStreamSynchronize(there));
    SAY(cuStreamSynchronize(stream));
    SAY(cuCtxGetCurrent(&now));
    printf("below: %d\n", now == other);
    release(stream);
    show("x", x);
    SAY(cuCtxDestroy(other));
    SAY(cuCtxGetCurrent(&now));
    printf("left: %d\n", now == context);
    SAY(cuCtxPopCurrent(&popped));
    SAY(cuCtxPopCurrent(&popped));
    SAY(cuCtxPushCurrent(context));
    show("words", words);
}

static void push_pop(void *user)
{
    CUcontext popped;
    for (uint32_t i = 0; i < 40; i++) {
        MUST(cuCtxPushCurrent(context));
        MUST(launch_mix(words, 3, i, stream));
        MUST(cuCtxPopCurrent(&popped));
    }
}

HAZARD(thread_without_a_context_pushes_and_pops_around_each_call)
{
    words = buffer_new(3);
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    warm(stream);
    hold(stream);
    thread_join(thread_start(push_pop, NULL));
    release(stream);
    SAY(cuStreamSynchronize(stream));
    show("words", words);
}

/* More contexts than anything that is kept for each thread has room for. */
HAZARD(per_thread_stream_stays_busy_after_use_of_many_contexts)
{
    enum { MANY = 20 };
    CUcontext others[MANY];
    CUdeviceptr there;
    words = buffer_new(3);
    warm(CU_STREAM_PER_THREAD);
    for (int closed = 1; closed >= 0; closed--) { /* the others end, then stay */
        atomic_store(&told, false);
        SAY(launch_mix(words, 3, 1, CU_STREAM_PER_THREAD));
        SAY(cuLaunchHostFunc(CU_STREAM_PER_THREAD, until_told, NULL));
        for (int i = 0; i < MANY; i++) {
            others[i] = context_new();
            MUST(cuMemAlloc(&there, BYTES));
            MUST(cuMemsetD32Async(there, 7, N, CU_STREAM_PER_THREAD));
            if (closed)
                MUST(cuCtxDestroy(others[i]));
            else
                MUST(cuCtxSetCurrent(context));
        }
        SAY(cuCtxSetCurrent(context));
        SAY(cuStreamQuery(CU_STREAM_PER_THREAD));
        atomic_store(&told, true);
        SAY(cuStreamSynchronize(CU_STREAM_PER_THREAD));
        show("words", words);
    }
    for (int i = 0; i < MANY; i++)
        MUST(cuCtxDestroy(others[i]));
}

HAZARD(primary_context_may_be_released_with_work_buffered)
{
    words = buffer_new(3);
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    warm(stream);
    hold(stream);
    SAY(launch_mix(words, 5, 7, stream));
    SAY(cuDevicePrimaryCtxRelease(device));
    release(stream);
    SAY(cuMemFree(words));
    gpu_open();
    words = buffer_new(4);
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    warm(stream);
    hold(stream);
    SAY(launch_mix(words, 5, 7, stream));
    release(stream);
    SAY(cuStreamSynchronize(stream));
    show("words", words);
}

HAZARD(contexts_come_and_go_with_their_streams_held)
{
    uint32_t *host = pinned_new(0);
    hold_ms = 3;
    for (uint32_t i = 0; i < 8; i++) {
        CUcontext ctx = context_new();
        CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
        CUevent e = event_new();
        CUdeviceptr x;
        MUST(cuMemAlloc(&x, BYTES));
        MUST(cuMemsetD32Async(x, 0, N, s));
        hold(s);
        MUST(cuMemsetD32Async(x, i, N, s));
        MUST(cuEventRecord(e, s));
        MUST(cuStreamWaitEvent(CU_STREAM_PER_THREAD, e, 0));
        MUST(cuMemcpyDtoHAsync(host, x, BYTES, CU_STREAM_PER_THREAD));
        if (i % 2)
            MUST(cuStreamDestroy(s));
        if (i % 3)
            MUST(cuEventDestroy(e));
        MUST(cuCtxDestroy(ctx));
        show_host("host", host);
    }
}

/* ---- one of several lets the context go ---------------------------------------------------- */

static _Atomic bool may_end;

static void CUDA_CB until_it_may(void *user)
{
    UNTIL(atomic_load(&may_end));
}

static void work_that_waits(CUstream s)
{
    words = buffer_new(3);
    MUST(cuMemsetD32Async(words, 1, N, s));
    atomic_store(&may_end, false);
    MUST(cuLaunchHostFunc(s, until_it_may, NULL));
    SAY(cuMemsetD32Async(words, 7, N, s));
}

static void work_ends(CUstream s)
{
    atomic_store(&may_end, true);
    SAY(cuStreamSynchronize(s));
    show("words", words);
}

HAZARD(release_of_a_primary_context_still_retained_does_not_wait)
{
    CUcontext again;
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 3; i++)
        MUST(cuDevicePrimaryCtxRetain(&again, device));
    for (int i = 0; i < 3; i++) {
        work_that_waits(stream);
        SAY(cuDevicePrimaryCtxRelease(device));
        work_ends(stream);
    }
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
HAZARD(detach_of_a_context_still_attached_does_not_wait)
{
    CUcontext other = context_new(), again;
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    work_that_waits(stream);
    SAY(cuCtxAttach(&again, 0));
    printf("%d\n", again == other);
    SAY(cuCtxDetach(again));
    work_ends(stream);
    MUST(cuCtxDestroy(other));
    MUST(cuCtxSetCurrent(context));
}
#pragma GCC diagnostic pop
