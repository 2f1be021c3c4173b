/*
 * capture_end.c - captures that no call ends. While a capture is under way, calls ask the driver
 * whether their stream takes part. So the number of questions tells whether cutin believes in one.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "tests/shim/wrap/rig.h"

#include "tests/shim/wrap/watch.h"

TestSuite(capture_end, .init = rig_open, .fini = rig_close);

static CUstream other;
static CUdeviceptr words;

static void ready(void)
{
    other = rig_stream();
    rig_warm(other);
    words = rig_buffer(3);
}

static unsigned questions(void)
{
    unsigned before = watch_count(WATCH_cuStreamIsCapturing);
    for (int i = 0; i < 10; i++)
        ok(rig_launch(words, 1, 0, other));
    return watch_count(WATCH_cuStreamIsCapturing) - before;
}

static CUstream capturing(void)
{
    CUstream s = rig_stream();
    ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    cr_assert_geq(questions(), 10);
    return s;
}

Test(capture_end, destroy_of_stream_ends_its_capture)
{
    ready();
    CUstream s = capturing();
    ok(cuStreamDestroy(s));
    cr_assert_eq(questions(), 0);
}

Test(capture_end, destroy_of_context_ends_its_capture)
{
    ready();
    CUcontext gone = rig_context_new();
    CUstream s = rig_stream();
    ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuCtxSetCurrent(rig_context));
    cr_assert_geq(questions(), 10);
    ok(cuCtxDestroy(gone));
    cr_assert_eq(questions(), 0);
}

Test(capture_end, end_of_one_capture_leaves_other)
{
    CUgraph graph;
    ready();
    CUstream s = capturing(), t = capturing();
    ok(cuStreamDestroy(s));
    cr_assert_geq(questions(), 10);
    ok(cuStreamEndCapture(t, &graph));
    cr_assert_eq(questions(), 0);
}

Test(capture_end, end_of_invalidated_capture_ends_it)
{
    CUgraph graph = NULL;
    ready();
    CUstream s = capturing();
    cr_assert_neq(cuStreamSynchronize(s), CUDA_SUCCESS);
    cr_assert_geq(questions(), 10);
    cr_assert_neq(cuStreamEndCapture(s, &graph), CUDA_SUCCESS);
    cr_assert_eq(questions(), 0);
}

static CUstream captured;

static void end_elsewhere(void *unused)
{
    CUgraph graph = NULL;
    answers(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cuStreamEndCapture(captured, &graph));
}

Test(capture_end, end_by_wrong_thread_ends_capture)
{
    CUgraph graph = NULL;
    ready();
    captured = rig_stream();
    for (int i = 0; i < 2; i++) {
        struct rig_thread t = {0};
        ok(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        cr_assert_geq(questions(), 10);
        rig_start(&t, end_elsewhere, NULL);
        rig_join(&t);
        cr_assert_eq(questions(), 0);
    }
    answers(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(captured, &graph));
    ok(rig_launch(words, 1, 0, captured));
    ok(cuStreamSynchronize(captured));
}

static struct rig_thread next;
static pthread_t asker;

static void begin_next(void *unused)
{
    ok(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
}

/* The driver says that it does not capture. Before that has arrived, the next capture begins. */
static int answer_late(const intptr_t *argument)
{
    if (!pthread_equal(pthread_self(), asker)) /* the client's thread asks now and then, too */
        return 0;
    watch_before(WATCH_cuStreamIsCapturing, NULL);
    rig_start(&next, begin_next, NULL);
    for (int i = 0; i < 50 && !atomic_load(&next.returned); i++)
        rig_nap();
    return WATCH_DONE;
}

Test(capture_end, next_capture_begun_during_end_is_kept)
{
    CUgraph graph = NULL;
    ready();
    captured = capturing();
    asker = pthread_self();
    watch_before(WATCH_cuStreamIsCapturing, answer_late);
    ok(cuStreamEndCapture(captured, &graph));
    rig_join(&next);
    cr_assert_geq(questions(), 10);
    ok(cuStreamEndCapture(captured, &graph));
    cr_assert_eq(questions(), 0);
}

Test(capture_end, destroy_of_joined_stream_ends_no_capture)
{
    CUevent fork;
    CUgraph graph = NULL;
    ready();
    CUstream s = capturing(), joined = rig_stream();
    ok(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    ok(cuEventRecord(fork, s));
    ok(cuStreamWaitEvent(joined, fork, 0));
    ok(cuStreamDestroy(joined));
    cr_assert_geq(questions(), 10);
    cuStreamEndCapture(s, &graph);
    cr_assert_eq(questions(), 0);
}

static int done(const intptr_t *argument)
{
    return WATCH_DONE;
}

/* A capture into a command list of a graphics API, which the simulated driver does not have. */
Test(capture_end, command_list_capture_ends_once)
{
    CUresult (*begin)(CUstream stream, void *params);
    CUresult (*end)(CUstream stream);
    char params[256] = "";
    *(void **)&begin =
        dlsym(RTLD_DEFAULT, "cuStreamBeginCaptureToCig"); /* newer than some cuda.h */
    *(void **)&end = dlsym(RTLD_DEFAULT, "cuStreamEndCaptureToCig");
    watch_before(WATCH_cuStreamBeginCaptureToCig, done);
    watch_before(WATCH_cuStreamEndCaptureToCig, done);
    ready();
    CUstream s = rig_stream();
    ok(begin(s, params));
    cr_assert_geq(questions(), 10);
    ok(end(s));
    cr_assert_eq(questions(), 0);
    ok(cuStreamDestroy(s));
    cr_assert_eq(questions(), 0);
}
