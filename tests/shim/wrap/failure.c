/*
 * failure.c - deferred commands that the driver refuses when their turn comes.
 */
#include "tests/shim/wrap/rig.h"

#include <stdlib.h>

#include "tests/shim/wrap/watch.h"

TestSuite(failure, .init = rig_open, .fini = rig_close);

static CUstream stream;
static CUdeviceptr words;
static CUgraphExec graph;

static int no_memory(const intptr_t *argument)
{
    watch_before(WATCH_cuGraphLaunch, NULL);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool all_submitted(void)
{
    struct cutin_stream_state state = {.size = sizeof(state)};
    ok(cutin_stream_state(stream, &state));
    return state.buffered == 0;
}

/* Of two launches the driver refuses the first when its turn comes. Memory is as after the second
 * one alone. */
static void fail_later(void)
{
    stream = rig_stream();
    rig_warm(stream);
    words = rig_buffer(3);
    graph = rig_graph(words, 1, 0, 1);
    ok(cuGraphLaunch(graph, stream));
    ok(cuStreamSynchronize(stream));
    watch_before(WATCH_cuGraphLaunch, no_memory);
    ok(cutin_stream_hold(stream));
    ok(cuGraphLaunch(graph, stream));
    ok(rig_launch(words, 5, 7, stream));
    ok(cutin_stream_release(stream));
    while (!all_submitted())
        rig_nap();
}

static void expect_works(void)
{
    ok(cuStreamQuery(stream));
    ok(rig_launch(words, 2, 1, stream));
    ok(cuGraphLaunch(graph, stream));
    ok(cuCtxSynchronize());
    rig_expect(words, rig_mixed(rig_mixed(3, 5, 7), 2, 1), stream);
}

Test(failure, transient_error_is_returned_by_one_sync)
{
    fail_later();
    answers(CUDA_ERROR_OUT_OF_MEMORY, cuStreamSynchronize(stream));
    ok(cuStreamSynchronize(stream));
    expect_works();
}

Test(failure, transient_error_is_returned_by_one_skipped_launch)
{
    fail_later();
    answers(CUDA_ERROR_OUT_OF_MEMORY, rig_launch(words, 11, 13, stream));
    ok(cuStreamSynchronize(stream));
    expect_works();
}

Test(failure, transient_error_is_returned_by_one_record)
{
    CUevent e;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    fail_later();
    answers(CUDA_ERROR_OUT_OF_MEMORY, cuEventRecord(e, stream));
    ok(cuEventSynchronize(e));
    ok(cuStreamWaitEvent(stream, e, 0));
    ok(cuStreamSynchronize(stream));
    expect_works();
}

Test(failure, transient_error_is_returned_by_one_query)
{
    fail_later();
    answers(CUDA_ERROR_OUT_OF_MEMORY, cuStreamQuery(stream));
    ok(cuStreamSynchronize(stream));
    expect_works();
}

static int fault(const intptr_t *argument)
{
    watch_before(WATCH_cuGraphLaunch, NULL);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* A lasting error replaces one that does not last. */
Test(failure, lasting_error_is_returned_by_every_call)
{
    fail_later();
    watch_before(WATCH_cuGraphLaunch, fault);
    CUstream other = rig_stream();
    answers(CUDA_ERROR_OUT_OF_MEMORY, cuStreamSynchronize(other));
    ok(cutin_stream_hold(stream));
    ok(cuGraphLaunch(graph, stream));
    ok(cutin_stream_release(stream));
    answers(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    answers(CUDA_ERROR_ILLEGAL_ADDRESS, rig_launch(words, 2, 1, stream));
    answers(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(stream));
}
