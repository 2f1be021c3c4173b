/*
 * host.c - host functions and callbacks in streams.
 */
#include "rig.h"

TestSuite(host, .init = rig_open);

struct step {
    const uint32_t *word;
    uint32_t *steps, place, seen;
};

static void CUDA_CB step(void *arg)
{
    struct step *s = arg;
    s->place = (*s->steps)++;
    s->seen = *s->word;
}

Test(host, functions_run_in_stream_order)
{
    enum { STEPS = 20 };
    struct step of[STEPS];
    CUstream s = stream_new();
    uint32_t *out = pinned_new(), steps = 0, expected = 3;
    CUdeviceptr p = words_new(expected);
    for (int i = 0; i < STEPS; i++) {
        of[i] = (struct step){.word = out, .steps = &steps};
        OK(launch_mix(s, p, 2, 1));
        OK(cuMemcpyDtoHAsync(out, p, BYTES, s));
        OK(cuLaunchHostFunc(s, step, &of[i]));
    }
    OK(cuStreamSynchronize(s));
    cr_assert_eq(steps, STEPS);
    for (uint32_t i = 0; i < STEPS; i++) {
        expected = expected * 2 + 1;
        cr_assert_eq(of[i].place, i);
        cr_assert_eq(of[i].seen, expected);
    }
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
