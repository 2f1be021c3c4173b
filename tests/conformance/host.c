/*
 * host.c - host functions and callbacks in streams.
 */
#include "rig.h"

TestSuite(host, .init = rig_open);

static void CUDA_CB count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

Test(host, function_runs_once_before_synchronize_returns)
{
    static uint32_t seen;
    CUstream s = stream_new();
    uint32_t *out = pinned_new();
    CUdeviceptr p = words_new(3);
    atomic_int ran = 0;
    (void)seen;
    OK(launch_mix(s, p, 2, 1));
    OK(cuMemcpyDtoHAsync(out, p, BYTES, s));
    OK(cuLaunchHostFunc(s, count_up, &ran));
    OK(cuStreamSynchronize(s));
    cr_assert_eq(atomic_load(&ran), 1);
    cr_assert_eq(out[0], 7);
}

struct look {
    uint32_t *word;
    uint32_t seen;
};

static void CUDA_CB look_at(void *arg)
{
    struct look *look = arg;
    look->seen = *look->word;
}

Test(host, function_runs_between_preceding_and_following_copies)
{
    CUstream s = stream_new();
    uint32_t *out = pinned_new();
    struct look look = {out, 0};
    CUdeviceptr p = words_new(3), q = words_new(4);
    OK(cuMemcpyDtoHAsync(out, p, BYTES, s));
    OK(cuLaunchHostFunc(s, look_at, &look));
    OK(cuMemcpyDtoHAsync(out, q, BYTES, s));
    OK(cuStreamSynchronize(s));
    cr_assert_eq(look.seen, 3);
    cr_assert_eq(out[0], 4);
}

static void CUDA_CB call_cuda(void *arg)
{
    CUdeviceptr p;
    *(atomic_int *)arg = (int)cuMemAlloc(&p, 4);
}

Test(host, function_may_not_call_cuda)
{
    CUstream s = stream_new();
    atomic_int rc = -1;
    OK(cuLaunchHostFunc(s, call_cuda, &rc));
    OK(cuStreamSynchronize(s));
    cr_assert_eq(atomic_load(&rc), CUDA_ERROR_NOT_PERMITTED);
}

struct called {
    CUstream stream;
    CUresult status;
    atomic_int count;
};

static void CUDA_CB callback(CUstream s, CUresult status, void *arg)
{
    struct called *called = arg;
    called->stream = s;
    called->status = status;
    atomic_fetch_add(&called->count, 1);
}

Test(host, callback_receives_stream_and_status)
{
    CUstream s = stream_new();
    struct called called = {NULL, CUDA_ERROR_UNKNOWN, 0};
    OK(cuStreamAddCallback(s, callback, &called, 0));
    OK(cuStreamSynchronize(s));
    cr_assert_eq(called.count, 1);
    cr_assert_eq(called.stream, s);
    cr_assert_eq(called.status, CUDA_SUCCESS);
}

Test(host, null_function_is_refused)
{
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(stream_new(), NULL, NULL));
}
