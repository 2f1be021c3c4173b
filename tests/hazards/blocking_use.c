/*
 * blocking_use.c - programs that wait after every call: each result is there when they read it.
 */
#include "tests/hazards/hazard.h"

static void hold_now_and_then(uint32_t i, CUstream s)
{
    hold_ms = 2;
    if (i % 20 == 0)
        hold(s);
    if (i % 20 == 10)
        release(s);
}

HAZARD(stream_sync_after_every_launch_waits_for_its_result)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(1);
    warm(s);
    for (uint32_t i = 0; i < 60; i++) {
        hold_now_and_then(i, s);
        MUST(launch_mix(x, 3, i, s));
        MUST(cuStreamSynchronize(s));
        MUST(cuStreamQuery(s));
    }
    release(s);
    show("x", x);
}

HAZARD(context_sync_after_every_launch_waits_for_its_result)
{
    CUstream s[3];
    CUdeviceptr x = buffer_new(1);
    for (int i = 0; i < 3; i++) {
        s[i] = stream_new(i == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
        warm(s[i]);
    }
    for (uint32_t i = 0; i < 60; i++) {
        hold_now_and_then(i, s[1]);
        MUST(launch_mix(x, 3, i, s[i % 3]));
        MUST(cuCtxSynchronize());
    }
    release(s[1]);
    show("x", x);
}

HAZARD(event_sync_or_query_after_every_launch_sees_its_end)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(1);
    CUevent e = event_new();
    warm(s);
    for (uint32_t i = 0; i < 60; i++) {
        CUresult r;
        hold_now_and_then(i, s);
        MUST(launch_mix(x, 3, i, s));
        MUST(cuEventRecord(e, s));
        if (i % 2)
            MUST(cuEventSynchronize(e));
        else
            while ((r = cuEventQuery(e)) == CUDA_ERROR_NOT_READY)
                nap();
        MUST(cuEventQuery(e));
        MUST(cuStreamQuery(s));
    }
    release(s);
    show("x", x);
}

HAZARD(synchronous_copy_after_every_launch_reads_its_result)
{
    static uint32_t host[N];
    CUdeviceptr x = buffer_new(1);
    uint32_t sum = 0;
    warm(NULL);
    for (uint32_t i = 0; i < 60; i++) {
        hold_now_and_then(i, NULL);
        MUST(launch_mix(x, 3, i, NULL));
        MUST(cuMemcpyDtoH(host, x, BYTES));
        sum = sum * 31 + host[N - 1];
    }
    release(NULL);
    printf("sum %u\n", sum);
}

HAZARD_RAW(blocking_sync_context_waits_for_buffered_work)
{
    CUcontext ctx;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_BLOCKING_SYNC));
    gpu_open();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(1);
    CUevent e;
    MUST(cuEventCreate(&e, CU_EVENT_BLOCKING_SYNC));
    MUST(cuCtxGetCurrent(&ctx));
    warm(s);
    hold(s);
    SAY(launch_slow(x, 3, 1, 500, s));
    SAY(cuEventRecord(e, s));
    SAY(cuEventSynchronize(e));
    SAY(cuStreamSynchronize(s));
    release(s);
    show("x", x);
}

/* With CUDA_LAUNCH_BLOCKING=1 a launch returns when it is complete: its result is there. */
HAZARD_RAW(launch_is_complete_on_return_with_launch_blocking)
{
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    gpu_open();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    uint32_t *host = pinned_new(1);
    CUdeviceptr x;
    MUST(cuMemHostGetDevicePointer(&x, host, 0));
    warm(s);
    for (uint32_t i = 0; i < 4; i++) {
        hold_ms = 5;
        hold(s);
        SAY(launch_slow(x, 3, i, 200, s));
        show_host("at once", host);
        SAY(launch_slow(x, 3, i, 200, s));
        show_host("at once", host);
        release(s);
    }
}
