/*
 * stream.c - the default streams and the order CUDA promises between streams; queries; destruction.
 */
#include "tests/shim/wrap/rig.h"

TestSuite(stream, .init = rig_open, .fini = rig_close);

Test(stream, default_stream_can_be_held)
{
    rig_warm(NULL);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(NULL));
    ok(rig_launch(x, 5, 7, NULL));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
    ok(cutin_stream_release(NULL));
    rig_expect(x, rig_mixed(3, 5, 7), NULL);
}

Test(stream, legacy_follows_buffered_work_of_blocking_streams)
{
    CUstream s = rig_stream_blocking();
    rig_warm(s);
    rig_warm(NULL);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    ok(rig_launch(x, 11, 1, NULL));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    ok(cutin_stream_release(s));
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 11, 1), NULL);
}

Test(stream, blocking_streams_follow_buffered_work_of_legacy)
{
    CUstream s = rig_stream_blocking();
    rig_warm(s);
    rig_warm(NULL);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(NULL));
    ok(rig_launch(x, 5, 7, NULL));
    ok(rig_launch(x, 11, 1, s));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    ok(cutin_stream_release(NULL));
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 11, 1), NULL);
}

Test(stream, non_blocking_streams_do_not_wait_for_legacy)
{
    CUstream s = rig_stream();
    rig_warm(s);
    rig_warm(NULL);
    CUdeviceptr x = rig_buffer(3), y = rig_buffer(1);
    ok(cutin_stream_hold(NULL));
    ok(rig_launch(x, 5, 7, NULL));
    ok(rig_launch(y, 11, 1, s));
    ok(cuStreamSynchronize(s)); /* it returns */
    ok(cutin_stream_release(NULL));
    rig_expect(x, rig_mixed(3, 5, 7), NULL);
    rig_expect(y, rig_mixed(1, 11, 1), NULL);
}

struct per_thread {
    CUdeviceptr x;
    uint32_t a, b;
};

static void launch_per_thread(void *user)
{
    struct per_thread *p = user;
    ok(rig_launch(p->x, p->a, p->b, CU_STREAM_PER_THREAD));
}

Test(stream, per_thread_keeps_order_with_legacy)
{
    struct per_thread p = {rig_buffer(3), 11, 1};
    struct rig_thread t;
    rig_warm(NULL);
    ok(cutin_stream_hold(NULL));
    ok(rig_launch(p.x, 5, 7, NULL));
    rig_start(&t, launch_per_thread, &p);
    rig_blocked(&t); /* in the dispatcher it would be another stream: never buffered */
    ok(cutin_stream_release(NULL));
    rig_join(&t);
    ok(rig_launch(p.x, 2, 5, NULL));
    rig_expect(p.x, rig_mixed(rig_mixed(rig_mixed(3, 5, 7), 11, 1), 2, 5), NULL);
}

static void use_per_thread(void *user)
{
    CUdeviceptr x = *(CUdeviceptr *)user;
    ok(rig_launch(x, 1, 1, CU_STREAM_PER_THREAD));
    ok(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

Test(stream, many_threads_use_their_own_stream_and_end)
{
    CUdeviceptr x = rig_buffer(0);
    for (int i = 0; i < 500; i++) {
        struct rig_thread t;
        rig_start(&t, use_per_thread, &x);
        rig_join(&t);
    }
    rig_expect(x, 500, NULL);
}

static void synchronize(void *user)
{
    ok(cuStreamSynchronize(*(CUstream *)user));
}

Test(stream, synchronising_waits_for_the_hold_to_end)
{
    CUstream s = rig_stream();
    struct rig_thread t;
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    rig_start(&t, synchronize, &s);
    rig_blocked(&t);
    ok(cutin_stream_release(s));
    rig_join(&t);
    rig_expect(x, rig_mixed(3, 5, 7), NULL);
}

Test(stream, destroy_with_work_buffered_loses_none)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    CUevent e;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    ok(cuEventRecord(e, s));
    ok(cuStreamDestroy(s)); /* ends the hold */
    ok(cuEventSynchronize(e));
    rig_expect(x, rig_mixed(3, 5, 7), NULL);
}

Test(stream, many_are_created_and_destroyed)
{
    CUdeviceptr x = rig_buffer(0);
    for (int i = 0; i < 300; i++) {
        CUstream s = rig_stream_blocking();
        ok(rig_launch(x, 1, 1, s));
        ok(cuStreamDestroy(s));
    }
    rig_expect(x, 300, NULL);
}

Test(stream, destroyed_handle_fails_the_query)
{
    CUstream s = rig_stream();
    ok(cuStreamDestroy(s));
    cr_assert_neq(cuStreamQuery(s), CUDA_SUCCESS);
}
