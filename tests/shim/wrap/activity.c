/*
 * activity.c - a process that is real time throughout: its calls go straight to the driver, and
 * count as activity.
 */
#include "tests/shim/wrap/rig.h"

TestSuite(activity, .init = rig_open, .fini = rig_close);

Test(activity, real_time_process_refuses_stream_hold)
{
    CUstream s = rig_stream();
    answers(CUDA_ERROR_NOT_SUPPORTED, cutin_stream_hold(s));
    answers(CUDA_ERROR_NOT_SUPPORTED, cutin_stream_hold(NULL));
    CUdeviceptr x = rig_buffer(3);
    ok(rig_launch(x, 5, 7, s));
    rig_expect(x, rig_mixed(3, 5, 7), s);
}

Test(activity, every_kind_of_call_computes)
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

#ifdef __SANITIZE_THREAD__ /* takes twenty times as long */
enum { RACES = 50000 };
#else
enum { RACES = 500000 };
#endif

/* The client's thread asks busy streams whether they are done, but never one that has begun to
 * capture. */
Test(activity, client_thread_never_invalidates_capture)
{
    CUstream s = rig_stream();
    CUevent e;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < RACES; i++) {
        CUgraph graph;
        ok(cuEventRecord(e, s));
        ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        ok(cuStreamEndCapture(s, &graph));
        ok(cuGraphDestroy(graph));
    }
}

static void rig_open_with_deadline(void)
{
    rig_open_with("CUTIN_DEADLINE_MS", "5");
}

Test(activity_deadline, real_time_process_with_deadlines_can_be_held,
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

static void rig_open_with_levels(void)
{
    rig_open_with("CUTIN_STREAM_PRIORITY", "inherit");
}

static _Atomic bool asked_enough;

static void ask(void *stream)
{
    while (!asked_enough)
        cuStreamQuery(stream);
}

/* One thread begins work while another finds the work before complete. The count of activity must
 * be right afterwards. */
Test(activity_levels, query_racing_with_record_leaves_no_hold, .init = rig_open_with_levels,
     .fini = rig_close)
{
    CUstream above, below = rig_stream();
    int least, greatest;
    CUevent e;
    ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    ok(cuStreamCreateWithPriority(&above, CU_STREAM_NON_BLOCKING, greatest));
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    struct rig_thread t = {0};
    rig_start(&t, ask, above);
    for (int i = 0; i < RACES; i++)
        ok(cuEventRecord(e, above));
    asked_enough = true;
    rig_join(&t);
    ok(cuStreamSynchronize(above));
    rig_until_open(below);
}
