/*
 * look.c - a hold ends when its work ends, however the program learns of that: by a host function,
 * or by memory that the device wrote, which cutin learns only by looks.
 */
#include "tests/shim/wrap/rig.h"

#include <stdlib.h>
#include <time.h>

#include "tests/shim/wrap/watch.h"

TestSuite(look, .init = rig_open, .fini = rig_close);

/* ---- host functions: no look finds anything complete ---------------------------------------- */

static int always_busy(const intptr_t *argument)
{
    return CUDA_ERROR_NOT_READY;
}

struct called {
    _Atomic bool begun, may_end;
};

static void CUDA_CB called(void *user)
{
    struct called *c = user;
    atomic_store(&c->begun, true);
    rig_until(&c->may_end);
}

static void CUDA_CB called_back(CUstream stream, CUresult status, void *user)
{
    called(user);
}

Test(look, host_function_ends_hold_of_work_before_it)
{
    CUstream s = rig_stream_first(), below = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    watch_before(WATCH_cuStreamQuery, always_busy);
    for (int i = 0; i < 200; i++) {
        struct called c = {.may_end = i % 2};
        ok(rig_launch(x, 1, 0, s));
        cr_assert(rig_held(below));
        if (i % 4 < 2)
            ok(cuLaunchHostFunc(s, called, &c));
        else
            ok(cuStreamAddCallback(s, called_back, &c, 0));
        rig_until(&c.begun);
        cr_assert(!rig_held(below), "call %d", i);
        atomic_store(&c.may_end, true);
        /* The hold goes on if this is not the last work. */
        struct called between = {0};
        ok(rig_launch(x, 1, 0, s));
        ok(cuLaunchHostFunc(s, called, &between));
        ok(rig_launch(x, 1, 0, s));
        rig_until(&between.begun);
        cr_assert(rig_held(below));
        atomic_store(&between.may_end, true);
        ok(cuStreamSynchronize(s));
        cr_assert(!rig_held(below));
    }
    watch_before(WATCH_cuStreamQuery, NULL);
}

Test(look, host_function_ends_hold_of_awaited_stream)
{
    CUstream main = rig_stream_first(), side = rig_stream_first(), below = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    struct called c = {0};
    CUevent e;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    watch_before(WATCH_cuStreamQuery, always_busy);
    ok(rig_launch(x, 1, 0, side));
    ok(cuEventRecord(e, side));
    ok(cuStreamWaitEvent(main, e, 0));
    ok(cuLaunchHostFunc(main, called, &c));
    rig_until(&c.begun);
    cr_assert(!rig_held(below));
    atomic_store(&c.may_end, true);
    ok(cuStreamSynchronize(main));
    watch_before(WATCH_cuStreamQuery, NULL);
}

/* ---- words: only looks tell ----------------------------------------------------------------- */

enum { REQUESTS = 61, MOST_REQUESTS = 6100, TICK_US = 10000, NAPS = 8 /* in a tick */ };

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* With one look a tick, the median would be half of a tick's naps. A busy machine delays the thread
 * that looks as much as this one, which naps. A request does not count if its thread had no
 * processor for so long (20 ms) that its wait no longer held other streams. */
Test(look, polled_word_ends_hold_within_quarter_tick)
{
    CUstream s = rig_stream_first(), below = rig_stream();
    CUdeviceptr x = rig_buffer(3), device;
    _Atomic uint32_t *word, *begin; /* the work begins only after the hold was seen */
    int naps[REQUESTS], n = 0;
    ok(cuMemHostAlloc((void **)&word, 2 * sizeof(*word), CU_MEMHOSTALLOC_DEVICEMAP));
    ok(cuMemHostGetDevicePointer(&device, (void *)word, 0));
    begin = word + 1;
    atomic_store(word, 0);
    atomic_store(begin, 0);
    for (uint32_t i = 0; n < REQUESTS && i < MOST_REQUESTS; i++) {
        ok(cuStreamWaitValue32(s, device + sizeof(*word), i + 1, CU_STREAM_WAIT_VALUE_GEQ));
        ok(rig_launch(x, 1, 0, s));
        ok(cuStreamWriteValue32(s, device, i + 1, 0));
        bool held = rig_held(below);
        atomic_store(begin, i + 1);
        while (atomic_load(word) != i + 1)
            ;
        for (naps[n] = 0; rig_held(below); naps[n]++)
            nanosleep(&(struct timespec){.tv_nsec = TICK_US / NAPS * 1000}, NULL);
        n += held;
        for (unsigned nap = i % 5; nap > 0; nap--) /* so that requests are not in step with ticks */
            rig_nap();
    }
    cr_assert_eq(n, REQUESTS, "%d of %d requests held others", n, MOST_REQUESTS);
    qsort(naps, REQUESTS, sizeof(naps[0]), by_value);
    cr_expect_leq(naps[REQUESTS / 2], NAPS / 4, "%d naps at the median", naps[REQUESTS / 2]);
    rig_expect(x, 3, s);
}

/* Such looks come at any moment. */
Test(look, never_invalidates_capture)
{
    CUstream s = rig_stream_first(), below = rig_stream();
    double until = now_us() + 1000000;
    CUevent e;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    while (now_us() < until) {
        CUgraph graph;
        ok(cuEventRecord(e, s));
        ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        ok(cuStreamEndCapture(s, &graph));
        ok(cuGraphDestroy(graph));
    }
    rig_until_open(below);
}

/* A program that tells of completion itself has no such looks. */
static _Atomic unsigned queries;

static int query_counted(const intptr_t *argument)
{
    atomic_fetch_add(&queries, 1);
    return 0;
}

Test(look, synchronising_program_gets_at_most_two_queries_a_tick)
{
    CUstream s = rig_stream_first(), below = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    watch_before(WATCH_cuStreamQuery, query_counted);
    double from = now_us(), until = from + 500000;
    while (now_us() < until) {
        ok(rig_launch(x, 1, 0, s));
        ok(cuStreamSynchronize(s));
        rig_until_open(below);
    }
    watch_before(WATCH_cuStreamQuery, NULL);
    cr_expect_gt(queries, 0);
    cr_expect_leq(queries, 2 * (unsigned)((now_us() - from) / TICK_US) + 2);
    rig_expect(x, 3, s);
}

/* ---- the host waits for another process, and what runs waits for the host ------------------- */

static _Atomic bool answer;
static CUevent shared;
static _Atomic uint32_t *resident;

static int until_answered(const intptr_t *argument)
{
    for (int i = rig_patience(); i > 0 && !atomic_load(&answer); i--)
        rig_nap();
    return WATCH_DONE;
}

static int answered_yet(const intptr_t *argument)
{
    if ((CUevent)argument[0] != shared)
        return 0;
    return atomic_load(&answer) ? WATCH_DONE : CUDA_ERROR_NOT_READY;
}

static void CUDA_CB give_answer(void *user)
{
    atomic_store(&answer, true);
}

/* Work below real time gives `answer`; a real-time kernel that waits for it holds that work. */
static void resident_kernel(void)
{
    CUstream below = rig_stream();
    CUipcEventHandle handle;
    CUdeviceptr x = rig_buffer(3);
    ok(cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    ok(cuIpcGetEventHandle(&handle, shared));
    rig_warm(below);
    resident = rig_resident(rig_stream_first());
    ok(rig_launch(x, 5, 7, below));
    ok(cuLaunchHostFunc(below, give_answer, NULL));
}

static void resident_end(void)
{
    bool passed = atomic_load(&answer);
    atomic_store(resident, 1);
    ok(cuCtxSynchronize());
    cr_assert(passed);
}

Test(look, wait_for_other_process_lets_held_work_pass)
{
    resident_kernel();
    watch_before(WATCH_cuEventSynchronize, until_answered);
    ok(cuEventSynchronize(shared));
    resident_end();
}

Test(look, query_for_other_process_lets_held_work_pass)
{
    resident_kernel();
    watch_before(WATCH_cuEventQuery, answered_yet);
    for (int i = rig_patience(); i > 0 && cuEventQuery(shared) == CUDA_ERROR_NOT_READY; i--)
        rig_nap();
    resident_end();
}
