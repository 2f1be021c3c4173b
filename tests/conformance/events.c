/*
 * events.c - events: what a record marks, and what a wait waits for.
 */
#include "rig.h"

TestSuite(events, .init = rig_open);

Test(events, unrecorded_event_is_complete)
{
    CUevent e = event_new();
    OK(cuEventQuery(e));
    OK(cuEventSynchronize(e));
}

Test(events, wait_for_unrecorded_event_does_not_block)
{
    CUstream s = stream_new();
    OK(cuStreamWaitEvent(s, event_new(), 0));
    OK(cuStreamSynchronize(s));
}

Test(events, event_completes_after_preceding_work)
{
    struct gate gate;
    CUstream s = stream_new();
    CUevent e = event_new();
    gate_queue(&gate, s);
    OK(cuEventRecord(e, s));
    FAILS(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    gate_open(&gate);
    OK(cuEventSynchronize(e));
    OK(cuEventQuery(e));
}

Test(events, event_ignores_work_after_its_record)
{
    struct gate gate;
    CUstream s = stream_new();
    CUevent e = event_new();
    OK(cuEventRecord(e, s));
    gate_queue(&gate, s);
    OK(cuEventSynchronize(e));
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
}

Test(events, wait_orders_two_streams)
{
    struct gate gate;
    CUstream a = stream_new(), b = stream_new();
    CUdeviceptr p = words_new(1);
    CUevent e = event_new();
    gate_queue(&gate, a);
    OK(launch_mix(a, p, 2, 1));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(launch_mix(b, p, 10, 5));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    gate_open(&gate);
    OK(cuStreamSynchronize(b));
    words_are(p, 35);
}

Test(events, later_record_does_not_release_wait)
{
    struct gate gate;
    CUstream held = stream_new(), waits = stream_new(), frees = stream_new();
    CUevent e = event_new();
    gate_queue(&gate, held);
    OK(cuEventRecord(e, held));
    OK(cuStreamWaitEvent(waits, e, 0));
    OK(launch_spin(waits, 1000));
    OK(cuEventRecord(e, frees)); /* the event is recorded anew; the wait stays as it was */
    OK(cuEventSynchronize(e));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(waits));
    gate_open(&gate);
    OK(cuStreamSynchronize(waits));
}

Test(events, later_record_does_not_block_wait)
{
    struct gate gate;
    CUstream waits = stream_new(), held = stream_new();
    CUevent e = event_new();
    OK(cuStreamWaitEvent(waits, e, 0));
    gate_queue(&gate, held);
    OK(cuEventRecord(e, held));
    OK(launch_spin(waits, 1000));
    OK(cuStreamSynchronize(waits));
    FAILS(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    gate_open(&gate);
    OK(cuEventSynchronize(e));
}

Test(events, elapsed_time_covers_kernel_between_records)
{
    CUstream s = stream_new();
    CUevent a, b;
    float ms = -1;
    OK(cuEventCreate(&a, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&b, CU_EVENT_DEFAULT));
    OK(cuEventRecord(a, s));
    OK(launch_spin(s, 3000000));
    OK(cuEventRecord(b, s));
    OK(cuEventSynchronize(b));
    OK(cuEventElapsedTime(&ms, a, b));
    cr_assert_geq(ms, 2.9f); /* the kernel is busy for 3 ms, whatever else happens */
}

Test(events, elapsed_time_requires_timing_and_completion)
{
    struct gate gate;
    CUstream s = stream_new();
    CUevent a, b, plain = event_new();
    float ms;
    OK(cuEventCreate(&a, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&b, CU_EVENT_DEFAULT));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, a, b)); /* not recorded */
    OK(cuEventRecord(a, s));
    gate_queue(&gate, s);
    OK(cuEventRecord(b, s));
    OK(cuEventRecord(plain, s));
    FAILS(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, a, b));
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, a, plain));
}

Test(events, destroyed_pending_event_still_orders_streams)
{
    struct gate gate;
    CUstream a = stream_new(), b = stream_new();
    CUdeviceptr p = words_new(1);
    CUevent e = event_new();
    gate_queue(&gate, a);
    OK(launch_mix(a, p, 2, 1));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuEventDestroy(e));
    OK(launch_mix(b, p, 10, 5));
    gate_open(&gate);
    OK(cuStreamSynchronize(b));
    words_are(p, 35);
}

Test(events, invalid_create_arguments_are_refused)
{
    CUevent e;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&e, 0x80));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(NULL, 0));
}

/* "This event must have been created with the ::CU_EVENT_INTERPROCESS flag set." (cuda.h) The error
 * is the one that hip-tests, which run on CUDA, too, expect (Unit_hipIpcEventHandle). */
Test(events, event_without_interprocess_flag_has_no_ipc_handle)
{
    CUipcEventHandle handle;
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, event_new()));
}

Test(events, null_event_is_refused)
{
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(NULL));
}
