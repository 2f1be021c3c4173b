/*
 * green.c - green contexts: synchronising the primary context includes their streams, and these are
 * used whichever of the contexts is current.
 */
#include <stdatomic.h>

#include "tests/hazards/hazard.h"

#if CUDA_VERSION >= 12050

static CUgreenCtx green;
static CUcontext there; /* the green context in the form that can be made current */
static CUstream stream; /* of the green context */
static CUdeviceptr x, y;

static void green_open(void)
{
    CUdevResource all, part;
    CUdevResourceDesc desc;
    unsigned int parts = 1;
    MUST(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    MUST(cuDevSmResourceSplitByCount(&part, &parts, &all, NULL, 0, 8));
    MUST(cuDevResourceGenerateDesc(&desc, &part, 1));
    MUST(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
    MUST(cuCtxFromGreenCtx(&there, green));
    MUST(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    x = buffer_new(3);
    y = buffer_new(0);
    warm(stream);
}

/* x becomes 22 in the green stream, which is held. */
static void green_held(void)
{
    green_open();
    hold(stream);
    SAY(cuCtxSetCurrent(there));
    SAY(launch_mix(x, 5, 7, stream));
    buffered(stream);
    SAY(cuCtxSetCurrent(context));
}

static void green_done(void)
{
    release(stream);
    SAY(cuStreamSynchronize(stream));
    show("x", x);
    show("y", y);
    SAY(cuStreamDestroy(stream));
    SAY(cuGreenCtxDestroy(green));
}

HAZARD(primary_context_sync_includes_its_green_contexts)
{
    green_held();
    SAY(cuCtxSynchronize());
    show("synchronised", x);
    SAY(cuStreamQuery(stream));
    green_done();
}

static void note(void *flag)
{
    atomic_store((_Atomic bool *)flag, true);
}

/* The green context ends with the primary one. What was called before has been submitted by
 * then. */
HAZARD(device_reset_follows_work_of_green_contexts)
{
    static _Atomic bool ran;
    green_held();
    SAY(cuLaunchHostFunc(stream, note, &ran));
    SAY(cuDevicePrimaryCtxReset(device));
    UNTIL(atomic_load(&ran));
    gpu_open();
    x = buffer_new(3);
    show("x", x);
}

HAZARD(record_of_a_green_context_follows_its_buffered_work)
{
    CUevent e = event_new();
    green_held();
    SAY(cuGreenCtxRecordEvent(green, e));
    SAY(cuEventSynchronize(e));
    show("recorded", x);
    green_done();
}

HAZARD(record_of_a_converted_context_follows_its_buffered_work)
{
    CUevent e = event_new();
    green_held();
    SAY(cuCtxRecordEvent(there, e));
    SAY(cuEventSynchronize(e));
    show("recorded", x);
    green_done();
}

HAZARD(record_of_the_primary_context_follows_work_of_green_ones)
{
    CUevent e = event_new();
    green_held();
    SAY(cuCtxRecordEvent(context, e));
    SAY(cuEventSynchronize(e));
    show("recorded", x);
    green_done();
}

/* The record waits in a stream of the primary context; the wait is by the green context. */
static void wait_for_primary(CUresult (*wait)(CUevent e))
{
    CUevent e = event_new();
    green_open();
    CUstream p = stream_new(CU_STREAM_NON_BLOCKING);
    warm(p);
    hold(p);
    SAY(launch_mix(x, 5, 7, p));
    SAY(cuEventRecord(e, p));
    buffered(p);
    SAY(cuCtxSetCurrent(there));
    SAY(wait(e));
    SAY(cuMemcpyDtoDAsync(y, x, BYTES, stream));
    SAY(cuStreamSynchronize(stream));
    SAY(cuCtxSetCurrent(context));
    release(p);
    green_done();
}

static CUresult wait_green(CUevent e)
{
    return cuGreenCtxWaitEvent(green, e);
}

static CUresult wait_converted(CUevent e)
{
    return cuCtxWaitEvent(there, e);
}

HAZARD(green_context_waits_for_an_event_whose_record_is_buffered)
{
    wait_for_primary(wait_green);
}

HAZARD(converted_context_waits_for_an_event_whose_record_is_buffered)
{
    wait_for_primary(wait_converted);
}

/* The streams of both contexts may share a hardware queue. Natively the write comes first in it. */
HAZARD(green_wait_for_a_value_follows_the_buffered_write)
{
    uint32_t *word = pinned_new(0);
    green_open();
    CUstream p = stream_new(CU_STREAM_NON_BLOCKING);
    warm(p);
    hold_ms = 30;
    for (int i = 0; i < 8; i++) {
        CUstream g;
        SAY(cuGreenCtxStreamCreate(&g, green, CU_STREAM_NON_BLOCKING, 0));
        hold(p);
        SAY(launch_mix(x, 5, 7, p));
        SAY(cuStreamWriteValue32(p, (CUdeviceptr)(uintptr_t)word, (cuuint32_t)i + 1, 0));
        SAY(cuStreamWaitValue32(g, (CUdeviceptr)(uintptr_t)word, (cuuint32_t)i + 1,
                                CU_STREAM_WAIT_VALUE_GEQ));
        SAY(cuMemcpyDtoDAsync(y, x, BYTES, g));
        SAY(cuStreamSynchronize(g));
        release(p);
    }
    green_done();
}

/* A whole context records an event again while its earlier record waits in another stream. */
HAZARD(green_context_records_an_event_with_a_buffered_record)
{
    CUevent e = event_new();
    green_open();
    CUstream p = stream_new(CU_STREAM_NON_BLOCKING);
    warm(p);
    hold(p);
    SAY(launch_mix(y, 5, 7, p));
    SAY(cuEventRecord(e, p));
    SAY(launch_mix(x, 5, 7, stream));
    SAY(cuGreenCtxRecordEvent(green, e));
    SAY(cuEventSynchronize(e));
    show("recorded", x);
    release(p);
    SAY(cuStreamSynchronize(p));
    green_done();
}

HAZARD(launch_into_a_green_stream_returns_while_it_is_held)
{
    CUevent e = event_new();
    green_open();
    hold_for(100000);
    hold(stream);
    SAY(launch_mix(x, 5, 7, stream));
    SAY(cuEventRecord(e, stream));
    SAY(cuMemcpyDtoDAsync(y, x, BYTES, stream));
    still_held(stream);
    release(stream);
    SAY(cuEventSynchronize(e));
    green_done();
}

HAZARD(default_stream_of_a_green_context_is_its_own)
{
    green_open();
    SAY(cuCtxSetCurrent(there));
    for (uint32_t i = 0; i < 20; i++)
        SAY(launch_mix(x, 3, i, NULL));
    hold_ms = 3;
    hold(NULL);
    for (uint32_t i = 0; i < 3; i++)
        SAY(launch_mix(x, 5, i, NULL));
    release(NULL);
    SAY(cuStreamSynchronize(NULL));
    SAY(cuStreamQuery(NULL));
    show("x", x);
    SAY(cuCtxSetCurrent(context));
    SAY(launch_mix(x, 7, 1, NULL));
    SAY(cuCtxSynchronize());
    green_done();
}
#else
HAZARD(header_without_green_contexts)
{
}
#endif
