/*
 * order.c - host functions and memory operations in a stream.
 */
#include "tests/shim/wrap/rig.h"

TestSuite(order, .init = rig_open, .fini = rig_close);

struct note {
    _Atomic bool called;
    CUresult answer;
    CUstream stream;
};

static void note(void *user)
{
    struct note *n = user;
    CUstream s;
    n->answer = cuStreamCreate(&s, 0); /* not permitted here: the driver says so, without a wait */
    atomic_store(&n->called, true);
}

static void note_callback(CUstream stream, CUresult status, void *user)
{
    ((struct note *)user)->stream = stream;
    note(user);
}

static CUresult launch_v1(CUstream s, CUhostFn function, void *data)
{
    return cuLaunchHostFunc(s, function, data);
}

/* From CUDA 13.1; older headers do not declare it. */
CUresult cuLaunchHostFunc_v2(CUstream s, CUhostFn function, void *data, unsigned int mode);

static CUresult launch_v2(CUstream s, CUhostFn function, void *data)
{
    return cuLaunchHostFunc_v2(s, function, data, 1);
}

static void runs_behind_buffered_work(CUresult (*launch)(CUstream, CUhostFn, void *))
{
    static struct note n;
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    ok(launch(s, note, &n)); /* returns at once: the function is deferred */
    for (int i = 0; i < 20; i++)
        rig_nap();
    cr_assert(!atomic_load(&n.called));
    ok(cutin_stream_release(s));
    rig_until(&n.called);
    cr_assert_neq(n.answer, CUDA_SUCCESS);
    rig_expect(x, rig_mixed(3, 5, 7), s);
}

Test(order, host_function_runs_behind_buffered_work)
{
    runs_behind_buffered_work(launch_v1);
}

Test(order, host_function_with_wait_mode_runs_behind_buffered_work)
{
    runs_behind_buffered_work(launch_v2);
    answers(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc_v2(rig_stream(), note, NULL, 7));
}

Test(order, callback_gets_its_stream)
{
    static struct note n;
    CUstream s = rig_stream();
    rig_warm(s);
    ok(cutin_stream_hold(s));
    ok(cuStreamAddCallback(s, note_callback, &n, 0));
    ok(cutin_stream_release(s));
    rig_until(&n.called);
    cr_assert_eq(n.stream, s);
    ok(cuStreamSynchronize(s));
}

/* What the device has written so far. */
static uint32_t seen(const volatile uint32_t *host)
{
    return __atomic_load_n(host, __ATOMIC_ACQUIRE);
}

static uint32_t *word(CUdeviceptr *device)
{
    uint32_t *host;
    ok(cuMemHostAlloc((void **)&host, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    ok(cuMemHostGetDevicePointer(device, host, 0));
    *host = 0;
    return host;
}

/* The first of each kind goes to the driver inline, because it may be refused. */
static void warm_memops(CUstream s, CUdeviceptr at)
{
    ok(cuStreamWriteValue32(s, at, 0, 0));
    ok(cuStreamWaitValue32(s, at, 0, CU_STREAM_WAIT_VALUE_GEQ));
    ok(cuStreamSynchronize(s));
}

Test(order, value_wait_does_not_starve_later_write)
{
    CUstream a = rig_stream(), b = rig_stream();
    CUdeviceptr at, x = rig_buffer(3);
    rig_warm(a);
    rig_warm(b);
    word(&at);
    warm_memops(a, at);
    ok(cutin_stream_hold(b));
    ok(cuStreamWaitValue32(a, at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    for (uint32_t i = 0; i < 60; i++) /* more than the cap */
        ok(rig_launch(x, 3, i, a));
    ok(cuStreamWriteValue32(b, at, 1, 0));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
    ok(cutin_stream_release(b));
    ok(cuStreamSynchronize(a));
    uint32_t expect = 3;
    for (uint32_t i = 0; i < 60; i++)
        expect = rig_mixed(expect, 3, i);
    rig_expect(x, expect, a);
}

Test(order, memory_operation_batch_is_copied_at_the_call)
{
    CUstream s = rig_stream();
    CUdeviceptr at;
    volatile uint32_t *host = word(&at);
    rig_warm(s);
    CUstreamBatchMemOpParams op[2] = {0};
    op[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op[0].writeValue.address = at;
    op[0].writeValue.value = 5;
    op[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op[1].writeValue.address = at + 4;
    op[1].writeValue.value = 6;
    warm_memops(s, at);
    ok(cutin_stream_hold(s));
    ok(cuStreamBatchMemOp(s, 2, op, 0));
    op[0].writeValue.value = op[1].writeValue.value = 0xdead;
    cr_assert_eq(seen(&host[0]), 0);
    ok(cutin_stream_release(s));
    ok(cuStreamSynchronize(s));
    cr_assert_eq(seen(&host[0]), 5);
    cr_assert_eq(seen(&host[1]), 6);
}

Test(order, memory_write_waits_behind_buffered_launch)
{
    CUstream s = rig_stream();
    CUdeviceptr at, x = rig_buffer(3);
    volatile uint32_t *host = word(&at);
    rig_warm(s);
    warm_memops(s, at);
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    ok(cuStreamWriteValue32(s, at, 9, 0));
    for (int i = 0; i < 20; i++)
        rig_nap();
    cr_assert_eq(seen(&host[0]), 0);
    ok(cutin_stream_release(s));
    ok(cuStreamSynchronize(s));
    cr_assert_eq(seen(&host[0]), 9);
}
