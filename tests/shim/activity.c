/*
 * activity.c - a process that is real time throughout: straight to the driver, and counted as
 * active.
 */
#include "tests/shim/rig.h"

TestSuite(activity, .init = rig_open, .fini = rig_close);

Test(activity, no_stream_of_a_real_time_process_is_held)
{
    CUstream s = rig_stream();
    answers(CUDA_ERROR_NOT_SUPPORTED, cutin_stream_hold(s));
    answers(CUDA_ERROR_NOT_SUPPORTED, cutin_stream_hold(NULL));
    CUdeviceptr x = rig_buffer(3);
    ok(rig_launch(x, 5, 7, s));
    rig_expect(x, rig_mixed(3, 5, 7), s);
}

Test(activity, every_kind_of_call_works_straight_through)
{
    CUstream s = rig_stream(), b = rig_stream_blocking();
    CUevent e;
    ok(cuEventCreate(&e, 0));
    CUdeviceptr x = rig_buffer(3), y;
    ok(rig_launch(x, 5, 7, s));
    ok(cuEventRecord(e, s));
    ok(cuStreamWaitEvent(b, e, 0));
    ok(rig_launch(x, 2, 3, b));
    ok(cuMemAllocAsync(&y, 4 * N, b));
    ok(cuMemcpyDtoDAsync(y, x, 4 * N, b));
    ok(rig_launch(y, 3, 1, NULL));
    rig_expect(y, rig_mixed(rig_mixed(rig_mixed(3, 5, 7), 2, 3), 3, 1), NULL);
    ok(cuMemFreeAsync(y, b));
    ok(cuEventSynchronize(e));
    ok(cuEventDestroy(e));
    ok(cuStreamDestroy(s));
    ok(cuStreamDestroy(b));
}

static void rig_open_with_deadline(void)
{
    rig_open_with("CUTIN_DEADLINE_MS", "5");
}

Test(activity_deadline, a_real_time_process_that_gives_deadlines_can_be_held,
     .init = rig_open_with_deadline, .fini = rig_close)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    cutin_hint_deadline(2000);
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    ok(rig_launch(x, 2, 1, s));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    ok(cutin_stream_release(s));
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 2, 1), s);
}
