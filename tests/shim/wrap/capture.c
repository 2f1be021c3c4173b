/*
 * capture.c - a capturing stream is left alone, and others are not disturbed by the capture.
 */
#include "tests/shim/wrap/rig.h"

TestSuite(capture, .init = rig_open, .fini = rig_close);

static size_t nodes_of(CUgraph graph)
{
    size_t n = 0;
    ok(cuGraphGetNodes(graph, NULL, &n));
    return n;
}

static CUgraph capture(CUdeviceptr x, CUstream s, CUstreamCaptureMode mode)
{
    CUgraph graph;
    ok(cuStreamBeginCapture(s, mode));
    ok(rig_launch(x, 5, 7, s));
    ok(rig_launch(x, 11, 1, s));
    ok(cuStreamEndCapture(s, &graph));
    return graph;
}

Test(capture, records_only_captured_calls)
{
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    CUgraphExec exec;
    rig_warm(s);
    for (uint32_t i = 0; i < 50; i++)
        ok(rig_launch(x, 1, 0, s)); /* leaves something in flight, and markers due */
    CUgraph graph = capture(x, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cr_assert_eq(nodes_of(graph), 2);
    rig_expect(x, 3, s);
    ok(cuGraphInstantiate(&exec, graph, 0));
    ok(cuGraphLaunch(exec, s));
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 11, 1), s);
}

Test(capture, other_streams_stay_held)
{
    CUstream s = rig_stream(), other = rig_stream();
    CUdeviceptr x = rig_buffer(3), y = rig_buffer(1);
    CUgraph graph;
    rig_warm(s);
    rig_warm(other);
    ok(cutin_stream_hold(other));
    ok(rig_launch(y, 3, 1, other));
    ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(rig_launch(x, 5, 7, s));
    ok(rig_launch(y, 5, 2, other));
    ok(cuStreamEndCapture(s, &graph));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
    ok(cutin_stream_release(other));
    rig_expect(y, rig_mixed(rig_mixed(1, 3, 1), 5, 2), other);
    cr_assert_eq(nodes_of(graph), 1);
}

struct behind {
    CUstream s;
    CUdeviceptr x;
    CUgraph graph;
};

static void capture_behind(void *user)
{
    struct behind *b = user;
    b->graph = capture(b->x, b->s, CU_STREAM_CAPTURE_MODE_RELAXED);
}

Test(capture, capture_begins_after_buffered_work)
{
    struct behind b = {.s = rig_stream(), .x = rig_buffer(3)};
    struct rig_thread t;
    uint32_t expect = 3;
    rig_warm(b.s);
    ok(cutin_stream_hold(b.s));
    for (uint32_t i = 0; i < 40; i++) {
        ok(rig_launch(b.x, 3, i, b.s));
        expect = rig_mixed(expect, 3, i);
    }
    rig_start(&t, capture_behind, &b);
    rig_blocked(&t);
    ok(cutin_stream_release(b.s));
    rig_join(&t);
    cr_assert_eq(nodes_of(b.graph), 2);
    rig_expect(b.x, expect, b.s);
}

Test(capture, second_stream_joins_by_event)
{
    CUstream a = rig_stream(), b = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    CUevent fork, join;
    CUgraph graph;
    CUgraphExec exec;
    ok(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    ok(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    rig_warm(a);
    rig_warm(b);
    for (uint32_t i = 0; i < 50; i++)
        ok(rig_launch(x, 1, 0, b));
    ok(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuEventRecord(fork, a));
    ok(cuStreamWaitEvent(b, fork, 0));
    ok(rig_launch(x, 5, 7, b));
    ok(cuEventRecord(join, b));
    ok(cuStreamWaitEvent(a, join, 0));
    ok(rig_launch(x, 11, 1, a));
    ok(cuStreamEndCapture(a, &graph));
    cr_assert_eq(nodes_of(graph), 2);
    ok(cuGraphInstantiate(&exec, graph, 0));
    ok(cuGraphLaunch(exec, b));
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 11, 1), b);
    ok(cuEventRecord(fork, a)); /* an ordinary event again */
    ok(cuEventSynchronize(fork));
}

#if CUDA_VERSION < 13030
CUresult cuStreamBeginRecaptureToGraph(CUstream s, CUstreamCaptureMode mode, CUgraph graph,
                                       void *changed, void *user);
#endif

Test(capture, recapture_records_only_its_calls)
{
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    CUgraphExec exec;
    rig_warm(s);
    CUgraph graph = capture(x, s, CU_STREAM_CAPTURE_MODE_GLOBAL), same = NULL;
    for (uint32_t i = 0; i < 50; i++)
        ok(rig_launch(x, 1, 0, s));
    ok(cuStreamBeginRecaptureToGraph(s, CU_STREAM_CAPTURE_MODE_GLOBAL, graph, NULL, NULL));
    for (uint32_t i = 0; i < 50; i++) /* markers would come if it were not known to capture */
        ok(rig_launch(x, 3, 1, s));
    ok(cuStreamEndCapture(s, &same));
    cr_assert_eq(same, graph);
    cr_assert_eq(nodes_of(graph), 50);
    uint32_t expect = 3;
    for (uint32_t i = 0; i < 50; i++)
        expect = rig_mixed(expect, 3, 1);
    ok(cuGraphInstantiate(&exec, graph, 0));
    ok(cuGraphLaunch(exec, s));
    rig_expect(x, expect, s);
}
