/*
 * hint.c - what a program may tell cutin: levels of threads and streams, work that will come,
 * sections. It is one real-time process with streams below real time; no daemon is needed.
 */
#include "tests/shim/wrap/rig.h"

#include <pthread.h>

TestSuite(hint, .init = rig_open, .fini = rig_close);

static CUstream stream_at(int level)
{
    ok(cutin_thread_set_level(level));
    CUstream s = rig_stream();
    ok(cutin_thread_set_level(CUTIN_LEVEL_OF_PROCESS));
    return s;
}

static struct cutin_stream_state state_of(CUstream s)
{
    struct cutin_stream_state state = {.size = sizeof(state)};
    ok(cutin_stream_state(s, &state));
    return state;
}

static void work(CUstream s)
{
    CUdeviceptr x = rig_buffer(1);
    ok(rig_launch(x, 3, 4, s));
    rig_expect(x, rig_mixed(1, 3, 4), s);
    ok(cuMemFree(x));
}

/* One launch that has to wait in its queue. */
static void held_launch(CUdeviceptr x, CUstream s)
{
    ok(rig_launch(x, 5, 7, s));
    struct cutin_stream_state state = state_of(s);
    cr_assert_eq(state.held, CUTIN_HELD_BY_OTHERS);
    cr_assert_eq(state.buffered, 1);
}

Test(hint, stream_takes_level_of_its_thread)
{
    CUstream top = rig_stream(), low = stream_at(1);
    cr_assert_eq(state_of(top).level, 3);
    cr_assert_eq(state_of(top).queued, 0);
    cr_assert_eq(state_of(low).level, 1);
    cr_assert_eq(state_of(low).queued, 1);
    cr_assert_eq(state_of(NULL).level, 3);
    answers(CUDA_ERROR_INVALID_VALUE, cutin_thread_set_level(4));
    answers(CUDA_ERROR_INVALID_VALUE, cutin_thread_set_level(-2));
}

Test(hint, state_reports_buffered_work_and_holder)
{
    CUstream low = stream_at(0);
    rig_warm(low);
    struct cutin_stream_state before = state_of(low);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(low));
    ok(rig_launch(x, 5, 7, low));
    struct cutin_stream_state state = state_of(low);
    cr_assert_eq(state.held, CUTIN_HELD_BY_PROGRAM);
    cr_assert_eq(state.buffered, 1);
    cr_assert_eq(cutin_stream_reset(low), 1);
    ok(cutin_stream_release(low));
    rig_expect(x, 3, low);
    cr_assert_eq(state_of(low).dropped, before.dropped + 1);
    state.size = 4;
    answers(CUDA_ERROR_INVALID_VALUE, cutin_stream_state(low, &state));
    answers(CUDA_ERROR_INVALID_VALUE, cutin_stream_state(low, NULL));
}

Test(hint, soon_holds_lower_stream_until_withdrawn)
{
    CUstream low = stream_at(0);
    rig_warm(low);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_hint_soon(60 * 1000 * 1000));
    held_launch(x, low);
    ok(cutin_hint_soon(0));
    rig_expect(x, rig_mixed(3, 5, 7), low);
}

Test(hint, soon_ends_with_announced_work)
{
    CUstream top = rig_stream(), low = stream_at(0);
    rig_warm(low);
    work(top);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_hint_soon(60 * 1000 * 1000));
    held_launch(x, low);
    work(top);
    rig_expect(x, rig_mixed(3, 5, 7), low);
}

Test(hint, soon_expires)
{
    CUstream low = stream_at(0);
    rig_warm(low);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_hint_soon(60 * 1000 * 1000)); /* else a late host would launch behind its end */
    held_launch(x, low);
    ok(cutin_hint_soon(100 * 1000));
    rig_expect(x, rig_mixed(3, 5, 7), low);
}

Test(hint, section_holds_between_its_launches)
{
    CUstream top = rig_stream(), low = stream_at(0);
    rig_warm(low);
    CUdeviceptr x = rig_buffer(3), y = rig_buffer(3);
    ok(cutin_section_begin());
    ok(cutin_section_begin());
    ok(rig_launch(y, 5, 7, top));
    ok(cuStreamSynchronize(top));
    held_launch(x, low);
    ok(rig_launch(y, 5, 7, top));
    ok(cuStreamSynchronize(top));
    ok(cutin_section_end());
    cr_assert_eq(state_of(low).buffered, 1);
    ok(cutin_section_end());
    rig_expect(x, rig_mixed(3, 5, 7), low);
    answers(CUDA_ERROR_INVALID_VALUE, cutin_section_end());
}

static void section_left_open(void *unused)
{
    ok(cutin_section_begin());
}

Test(hint, section_ends_with_its_thread)
{
    CUstream low = stream_at(0);
    struct rig_thread t;
    rig_warm(low);
    rig_start(&t, section_left_open, NULL);
    rig_join(&t);
    CUdeviceptr x = rig_buffer(3);
    ok(rig_launch(x, 5, 7, low));
    rig_expect(x, rig_mixed(3, 5, 7), low);
}

Test(hint, level_change_of_stream_loses_no_work)
{
    CUstream s = rig_stream();
    CUevent e;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr x = rig_buffer(3);
    uint32_t expected = 3;
    for (uint32_t i = 0; i < 12; i++) {
        ok(rig_launch(x, 5, i, s));
        expected = rig_mixed(expected, 5, i);
        ok(cuEventRecord(e, s));
        ok(cutin_stream_set_level(s, i % 4));
        cr_assert_eq(state_of(s).level, i % 4);
        ok(cuStreamWaitEvent(s, e, 0));
    }
    rig_expect(x, expected, s);
    ok(cutin_stream_set_level(s, 0));
    ok(rig_launch(x, 1, 0, s));
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 1, 1, s));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    ok(cutin_stream_release(s));
    rig_expect(x, expected + 1, s);
    ok(cuStreamDestroy(s));
    ok(cuEventDestroy(e));
    answers(CUDA_ERROR_NOT_SUPPORTED, cutin_stream_set_level(NULL, 0));
    answers(CUDA_ERROR_INVALID_VALUE, cutin_stream_set_level(rig_stream(), 4));
}

Test(hint, level_change_during_capture_is_refused)
{
    CUstream s = rig_stream();
    CUgraph g;
    work(s);
    ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    answers(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cutin_stream_set_level(s, 0));
    ok(cuStreamEndCapture(s, &g));
    ok(cuGraphDestroy(g));
}

static void rig_open_flat(void)
{
    setenv("CUTIN_STREAM_PRIORITY", "flat", 1);
    rig_open_with("CUTIN_PRIORITY", "be");
}

Test(hint_be, best_effort_refuses_hints_and_levels, .init = rig_open_flat, .fini = rig_close)
{
    answers(CUDA_ERROR_NOT_SUPPORTED, cutin_hint_soon(1000));
    answers(CUDA_ERROR_NOT_SUPPORTED, cutin_section_begin());
    answers(CUDA_ERROR_NOT_SUPPORTED, cutin_thread_set_level(0));
    answers(CUDA_ERROR_NOT_SUPPORTED, cutin_stream_set_level(rig_stream(), 0));
    ok(cutin_hint_deadline(0));
}

static void rig_open_at_2(void)
{
    rig_open_with("CUTIN_PRIORITY", "2");
}

Test(hint_2, level_above_process_is_refused, .init = rig_open_at_2, .fini = rig_close)
{
    answers(CUDA_ERROR_NOT_PERMITTED, cutin_thread_set_level(3));
    answers(CUDA_ERROR_NOT_PERMITTED, cutin_stream_set_level(rig_stream(), 3));
    ok(cutin_thread_set_level(2));
}

/* ---- streams that go with work in flight ----------------------------------------------------- */

static CUdeviceptr words;
static _Atomic uint32_t *ran; /* pinned; 1: the work has run */

/* Work that waits for nothing: a wait may be for something outside, and such work does not hold for
 * long. */
static void work_for_long(CUstream s)
{
    uint32_t a = 5, b = 7, n = N;
    uint64_t ns = 200000000;
    void *params[] = {&words, &a, &b, &n, &ns};
    atomic_store(ran, 0);
    ok(cuLaunchKernel(rig_mix_spin, N / 256, 1, 1, 256, 1, 1, 0, s, params, NULL));
    ok(cuStreamWriteValue32(s, (CUdeviceptr)(uintptr_t)ran, 1, 0));
}

static void work_open(void)
{
    words = rig_buffer(3);
    ok(cuMemHostAlloc((void **)&ran, sizeof(*ran), 0));
}

static void *work_of_a_thread(void *unused)
{
    ok(cuCtxSetCurrent(rig_context));
    work_for_long(CU_STREAM_PER_THREAD);
    return unused;
}

static void holds_until_it_ends(CUstream low)
{
    for (bool ended = false; !ended;) {
        bool held = state_of(low).held == CUTIN_HELD_BY_OTHERS;
        ended = atomic_load(ran);
        cr_assert(held || ended);
    }
    rig_until_open(low);
}

Test(hint, work_of_destroyed_stream_holds_until_done)
{
    CUstream low = stream_at(0);
    work_open();
    for (int i = 0; i < 3; i++) {
        CUstream top = rig_stream();
        work_for_long(top);
        ok(cuStreamDestroy(top));
        holds_until_it_ends(low);
    }
}

Test(hint, work_of_ended_thread_holds_until_done)
{
    CUstream low = stream_at(0);
    work_open();
    for (int i = 0; i < 3; i++) {
        pthread_t t;
        cr_assert_eq(pthread_create(&t, NULL, work_of_a_thread, NULL), 0);
        pthread_join(t, NULL);
        holds_until_it_ends(low);
    }
}

Test(hint, destroyed_context_leaves_no_hold)
{
    CUstream low = stream_at(0);
    CUcontext other = rig_context_new();
    CUstream top = rig_stream();
    CUdeviceptr x;
    ok(cuMemAlloc(&x, 4 * N));
    for (int i = 0; i < 100; i++)
        ok(cuMemsetD32Async(x, 1, N, top));
    ok(cuStreamDestroy(top));
    ok(cuCtxDestroy(other));
    ok(cuCtxSetCurrent(rig_context));
    cr_assert_eq(state_of(low).held, 0);
}
