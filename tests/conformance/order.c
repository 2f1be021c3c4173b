/*
 * order.c - streams: what waits for what, and what does not.
 */
#include "rig.h"

TestSuite(order, .init = rig_open);

Test(order, work_of_one_stream_runs_in_order)
{
    CUstream s = stream_new();
    CUdeviceptr p = words_new(1);
    uint32_t expected = 1;
    for (uint32_t i = 0; i < 50; i++) {
        OK(launch_mix(s, p, 3, i));
        expected = expected * 3 + i;
    }
    OK(cuStreamSynchronize(s));
    words_are(p, expected);
}

Test(order, non_blocking_streams_do_not_wait_for_each_other)
{
    struct gate gate;
    CUstream held = stream_new(), other = stream_new();
    CUdeviceptr p = words_new(0);
    gate_queue(&gate, held);
    OK(launch_fill(other, p, 7));
    OK(cuStreamSynchronize(other));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(held));
    gate_open(&gate);
    OK(cuStreamSynchronize(held));
    OK(cuStreamQuery(held));
}

Test(order, legacy_stream_waits_for_blocking_streams)
{
    struct gate gate;
    CUstream s = stream_new_blocking();
    CUdeviceptr p = words_new(1);
    gate_queue(&gate, s);
    OK(launch_mix(s, p, 2, 1));
    OK(launch_mix(NULL, p, 10, 5));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    gate_open(&gate);
    OK(cuStreamSynchronize(NULL));
    words_are(p, 35);
}

Test(order, blocking_streams_wait_for_the_legacy_stream)
{
    struct gate gate;
    CUstream s = stream_new_blocking();
    CUdeviceptr p = words_new(1);
    gate_queue(&gate, NULL);
    OK(launch_mix(NULL, p, 2, 1));
    OK(launch_mix(s, p, 10, 5));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    words_are(p, 35);
}

Test(order, non_blocking_streams_ignore_the_legacy_stream)
{
    struct gate gate;
    CUstream s = stream_new();
    gate_queue(&gate, NULL);
    OK(launch_spin(s, 1000));
    OK(cuStreamSynchronize(s));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    gate_open(&gate);
    OK(cuStreamSynchronize(NULL));
}

Test(order, legacy_stream_waits_for_per_thread_stream)
{
    struct gate gate;
    gate_queue(&gate, CU_STREAM_PER_THREAD);
    OK(launch_spin(NULL, 1000));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
    gate_open(&gate);
    OK(cuStreamSynchronize(NULL));
    OK(cuStreamQuery(CU_STREAM_PER_THREAD));
}

static void spin_in_own_stream(void *unused)
{
    OK(launch_spin(CU_STREAM_PER_THREAD, 1000));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

Test(order, per_thread_streams_do_not_wait_for_each_other)
{
    struct gate gate;
    gate_queue(&gate, CU_STREAM_PER_THREAD);
    in_thread(spin_in_own_stream, NULL);
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
    gate_open(&gate);
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

Test(order, null_stream_is_the_legacy_stream)
{
    struct gate gate;
    gate_queue(&gate, NULL);
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
    gate_open(&gate);
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
}

Test(order, synchronous_copy_sees_earlier_work_of_blocking_streams)
{
    CUstream s = stream_new_blocking();
    CUdeviceptr p = words_new(1);
    OK(launch_spin(s, 2000000));
    OK(launch_mix(s, p, 5, 6));
    cr_assert_eq(word_of(p), 11);
}

Test(order, context_synchronize_waits_for_every_stream)
{
    CUstream a = stream_new(), b = stream_new_blocking();
    OK(launch_spin(a, 1000000));
    OK(launch_spin(b, 1000000));
    OK(cuCtxSynchronize());
    OK(cuStreamQuery(a));
    OK(cuStreamQuery(b));
}

Test(order, destroyed_stream_finishes_its_work)
{
    struct gate gate;
    CUstream s = stream_new();
    CUdeviceptr p = words_new(1);
    gate_queue(&gate, s);
    OK(launch_mix(s, p, 4, 2));
    OK(cuStreamDestroy(s));
    gate_open(&gate);
    OK(cuCtxSynchronize());
    words_are(p, 6);
}

Test(order, priorities_are_clamped_to_the_range)
{
    int least = 1, greatest = 1, got = 1;
    CUstream s;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    cr_assert_leq(greatest, least);
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest - 100));
    OK(cuStreamGetPriority(s, &got));
    cr_assert_eq(got, greatest);
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, least + 100));
    OK(cuStreamGetPriority(s, &got));
    cr_assert_eq(got, least);
}

Test(order, stream_reports_flags_and_context)
{
    unsigned int flags = 99;
    CUcontext ctx = NULL;
    OK(cuStreamGetFlags(stream_new(), &flags));
    cr_assert_eq(flags, CU_STREAM_NON_BLOCKING);
    OK(cuStreamGetFlags(stream_new_blocking(), &flags));
    cr_assert_eq(flags, CU_STREAM_DEFAULT);
    OK(cuStreamGetCtx(stream_new(), &ctx));
    cr_assert_eq(ctx, rig.ctx);
}

Test(order, three_thousand_launches_all_run)
{
    CUstream s = stream_new();
    CUdeviceptr p = words_new(0);
    for (int i = 0; i < 3000; i++)
        OK(launch_mix(s, p, 1, 1));
    OK(cuStreamSynchronize(s));
    words_are(p, 3000);
}
