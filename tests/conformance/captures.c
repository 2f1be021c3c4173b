/*
 * captures.c - stream capture: what becomes a node, how streams join and leave, what is forbidden.
 */
#include "rig.h"

TestSuite(captures, .init = rig_open);

#define GLOBAL  CU_STREAM_CAPTURE_MODE_GLOBAL
#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED

static CUstreamCaptureStatus status_of(CUstream s)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    OK(cuStreamIsCapturing(s, &status));
    return status;
}

static size_t node_count(CUgraph g)
{
    size_t n = 0;
    OK(cuGraphGetNodes(g, NULL, &n));
    return n;
}

static size_t edge_count(CUgraph g)
{
    size_t n = 0;
#if CUDA_VERSION >= 13000
    OK(cuGraphGetEdges(g, NULL, NULL, NULL, &n));
#else
    OK(cuGraphGetEdges(g, NULL, NULL, &n));
#endif
    return n;
}

static void run(CUgraph g, CUstream s)
{
    CUgraphExec x;
    OK(cuGraphInstantiate(&x, g, 0));
    OK(cuGraphLaunch(x, s));
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(x));
}

/* The capture is invalidated: its status says so, and it ends without a graph. */
static void is_invalidated(CUstream s)
{
    CUgraph g = (CUgraph)1;
    cr_assert_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));
    cr_assert_null(g);
    cr_assert_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_NONE);
}

Test(captures, work_is_recorded_and_not_run)
{
    CUstream s = stream_new();
    CUgraph g;
    CUdeviceptr p = words_new(1);
    OK(cuStreamBeginCapture(s, GLOBAL));
    cr_assert_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(launch_mix(s, p, 2, 1));
    OK(launch_mix(s, p, 10, 5));
    OK(cuMemsetD32Async(p + 4, 9, 1, s));
    OK(cuStreamEndCapture(s, &g));
    cr_assert_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_NONE);
    cr_assert_eq(node_count(g), 3);
    cr_assert_eq(edge_count(g), 2);
    cr_assert_eq(word_of(p), 1);
    run(g, s);
    cr_assert_eq(word_of(p), 35);
    cr_assert_eq(word_of(p + 4), 9);
    OK(cuGraphDestroy(g));
}

Test(captures, graph_runs_once_per_launch)
{
    CUstream s = stream_new();
    CUgraph g;
    CUgraphExec x;
    CUdeviceptr p = words_new(0);
    OK(cuStreamBeginCapture(s, GLOBAL));
    OK(launch_mix(s, p, 3, 1));
    OK(launch_mix(s, p, 1, 2));
    OK(cuStreamEndCapture(s, &g));
    OK(cuGraphInstantiate(&x, g, 0));
    uint32_t expected = 0;
    for (int i = 0; i < 10; i++) {
        OK(cuGraphLaunch(x, s));
        expected = expected * 3 + 3;
    }
    OK(cuStreamSynchronize(s));
    words_are(p, expected);
}

Test(captures, streams_fork_and_join_by_events)
{
    CUstream a = stream_new(), b = stream_new();
    CUevent fork = event_new(), join = event_new();
    CUgraph g;
    CUdeviceptr p = words_new(1), q = words_new(1);
    OK(cuStreamBeginCapture(a, GLOBAL));
    OK(launch_mix(a, p, 2, 0));
    OK(cuEventRecord(fork, a));
    OK(cuStreamWaitEvent(b, fork, 0));
    cr_assert_eq(status_of(b), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(launch_copy(b, q, p));
    OK(launch_spin(a, 1000));
    OK(cuEventRecord(join, b));
    OK(cuStreamWaitEvent(a, join, 0));
    OK(launch_mix(a, q, 10, 1));
    OK(cuStreamEndCapture(a, &g));
    cr_assert_eq(status_of(b), CU_STREAM_CAPTURE_STATUS_NONE);
    cr_assert_eq(node_count(g), 4);
    cr_assert_eq(edge_count(g), 4);
    run(g, a);
    words_are(q, 21);
}

Test(captures, end_with_unjoined_work_fails)
{
    CUstream a = stream_new(), b = stream_new();
    CUevent fork = event_new();
    CUgraph g = (CUgraph)1;
    OK(cuStreamBeginCapture(a, GLOBAL));
    OK(cuEventRecord(fork, a));
    OK(cuStreamWaitEvent(b, fork, 0));
    OK(launch_spin(b, 1000));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &g));
    cr_assert_null(g);
    cr_assert_eq(status_of(b), CU_STREAM_CAPTURE_STATUS_NONE);
    OK(launch_spin(b, 1000)); /* an ordinary stream again */
    OK(cuStreamSynchronize(b));
}

/* The programming guide does not forbid cuStreamDestroy while a stream captures. Warp's own tests
 * (test_graph.py, a transient stream) call it then, on a GPU. */
Test(captures, joined_stream_may_be_destroyed)
{
    CUstream a = stream_new(), b = stream_new();
    CUevent fork = event_new(), join = event_new();
    CUgraph g;
    CUdeviceptr p = words_new(1);
    OK(cuStreamBeginCapture(a, GLOBAL));
    OK(cuEventRecord(fork, a));
    OK(cuStreamWaitEvent(b, fork, 0));
    OK(launch_fill(b, p, 7));
    OK(cuEventRecord(join, b));
    OK(cuStreamWaitEvent(a, join, 0));
    OK(cuStreamDestroy(b));
    cr_assert_eq(status_of(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(launch_mix(a, p, 1, 1));
    OK(cuStreamEndCapture(a, &g));
    cr_assert_eq(node_count(g), 2);
    cr_assert_eq(edge_count(g), 1);
    run(g, a);
    words_are(p, 8);
}

Test(captures, work_of_destroyed_stream_must_be_joined)
{
    CUstream a = stream_new(), b = stream_new();
    CUevent fork = event_new();
    CUgraph g;
    OK(cuStreamBeginCapture(a, GLOBAL));
    OK(cuEventRecord(fork, a));
    OK(cuStreamWaitEvent(b, fork, 0));
    OK(launch_spin(b, 1000));
    OK(cuStreamDestroy(b));
    cr_assert_eq(status_of(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &g));
    cr_assert_null(g);
}

Test(captures, end_on_forked_stream_is_unmatched)
{
    CUstream a = stream_new(), b = stream_new();
    CUevent fork = event_new();
    CUgraph g;
    OK(cuStreamBeginCapture(a, GLOBAL));
    OK(cuEventRecord(fork, a));
    OK(cuStreamWaitEvent(b, fork, 0));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(b, &g));
    is_invalidated(a);
}

Test(captures, end_without_begin_fails)
{
    CUgraph g;
    FAILS(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream_new(), &g));
}

Test(captures, second_begin_fails)
{
    CUstream s = stream_new();
    CUgraph g;
    OK(cuStreamBeginCapture(s, GLOBAL));
    FAILS(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture(s, GLOBAL));
    OK(cuStreamEndCapture(s, &g));
}

Test(captures, legacy_stream_cannot_be_captured)
{
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture(NULL, GLOBAL));
}

Test(captures, stream_synchronize_invalidates_capture)
{
    CUstream s = stream_new();
    OK(cuStreamBeginCapture(s, RELAXED));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(s));
    is_invalidated(s);
}

Test(captures, stream_query_invalidates_capture)
{
    CUstream s = stream_new();
    OK(cuStreamBeginCapture(s, RELAXED));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(s));
    is_invalidated(s);
}

Test(captures, context_synchronize_invalidates_capture)
{
    CUstream s = stream_new();
    OK(cuStreamBeginCapture(s, RELAXED));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
    is_invalidated(s);
}

Test(captures, allocation_invalidates_global_mode_capture)
{
    CUstream s = stream_new();
    CUdeviceptr p;
    OK(cuStreamBeginCapture(s, GLOBAL));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&p, 4));
    is_invalidated(s);
}

Test(captures, allocation_is_allowed_in_relaxed_mode)
{
    CUstream s = stream_new();
    CUgraph g;
    CUdeviceptr p;
    OK(cuStreamBeginCapture(s, RELAXED));
    OK(cuMemAlloc(&p, 4));
    OK(cuStreamEndCapture(s, &g));
}

Test(captures, thread_may_switch_to_relaxed_mode)
{
    CUstream s = stream_new();
    CUgraph g;
    CUdeviceptr p;
    CUstreamCaptureMode mode = RELAXED;
    OK(cuStreamBeginCapture(s, GLOBAL));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    cr_assert_eq(mode, GLOBAL);
    OK(cuMemAlloc(&p, 4));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    cr_assert_eq(mode, RELAXED);
    OK(cuStreamEndCapture(s, &g));
}

Test(captures, legacy_launch_invalidates_blocking_streams_capture)
{
    CUstream s = stream_new_blocking();
    OK(cuStreamBeginCapture(s, RELAXED));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, launch_spin(NULL, 1000));
    is_invalidated(s);
}

Test(captures, legacy_launch_leaves_non_blocking_streams_capture_valid)
{
    CUstream s = stream_new();
    CUgraph g;
    OK(cuStreamBeginCapture(s, RELAXED));
    OK(launch_spin(NULL, 1000));
    OK(cuStreamEndCapture(s, &g));
    OK(cuStreamSynchronize(NULL));
}

Test(captures, wait_for_uncaptured_event_invalidates_capture)
{
    CUstream s = stream_new(), other = stream_new();
    CUevent e = event_new();
    OK(cuEventRecord(e, other));
    OK(cuStreamBeginCapture(s, RELAXED));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(s, e, 0));
    is_invalidated(s);
}

Test(captures, two_captures_cannot_merge)
{
    CUstream a = stream_new(), b = stream_new();
    CUevent e = event_new();
    OK(cuStreamBeginCapture(a, RELAXED));
    OK(cuStreamBeginCapture(b, RELAXED));
    OK(cuEventRecord(e, a));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(b, e, 0));
    is_invalidated(b);
}

Test(captures, query_of_captured_event_invalidates_the_capture)
{
    CUstream s = stream_new();
    CUevent e = event_new();
    CUstreamCaptureMode mode = RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(cuStreamBeginCapture(s, RELAXED));
    OK(cuEventRecord(e, s));
    FAILS(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(e));
    /* The programming guide: an invalid operation invalidates the captures that it belongs to. */
    is_invalidated(s);
    OK(cuEventRecord(e, s)); /* and is an ordinary event again */
    OK(cuEventSynchronize(e));
}

static void end_in_other_thread(void *stream)
{
    CUgraph g;
    FAILS(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cuStreamEndCapture(stream, &g));
}

/* The capture ends all the same: seen on an H100, 580.159.04. */
Test(captures, end_in_wrong_thread_fails_and_ends_capture)
{
    CUstream s = stream_new();
    CUgraph g;
    for (CUstreamCaptureMode mode = GLOBAL; mode < RELAXED; mode++) {
        OK(cuStreamBeginCapture(s, mode));
        in_thread(end_in_other_thread, s);
        cr_assert_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_NONE);
        FAILS(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(s, &g));
        OK(launch_spin(s, 1000)); /* an ordinary stream again */
        OK(cuStreamSynchronize(s));
    }
}

static void allocate(void *unused)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 4));
}

Test(captures, thread_local_mode_allows_allocation_in_other_threads)
{
    CUstream s = stream_new();
    CUgraph g;
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    in_thread(allocate, NULL);
    OK(cuStreamEndCapture(s, &g));
}

/* In CUDA 13.0 the plain name got an argument for edge data. */
static CUresult capture_info(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *g,
                             const CUgraphNode **nodes, size_t *n)
{
#if CUDA_VERSION >= 13000
    return cuStreamGetCaptureInfo(s, status, id, g, nodes, NULL, n);
#else
    return cuStreamGetCaptureInfo(s, status, id, g, nodes, n);
#endif
}

Test(captures, info_returns_dependencies_of_next_node)
{
    CUstream s = stream_new();
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    CUgraph g = NULL, end;
    const CUgraphNode *nodes = NULL;
    size_t n = 99;
    OK(cuStreamBeginCapture(s, GLOBAL));
    OK(capture_info(s, &status, &id, &g, &nodes, &n));
    cr_assert_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    cr_assert_eq(n, 0);
    cr_assert_neq(id, 0);
    OK(launch_spin(s, 1000));
    OK(capture_info(s, &status, &id, &g, &nodes, &n));
    cr_assert_eq(n, 1);
    CUgraphNodeType type;
    OK(cuGraphNodeGetType(nodes[0], &type));
    cr_assert_eq(type, CU_GRAPH_NODE_TYPE_KERNEL);
    OK(cuStreamEndCapture(s, &end));
    cr_assert_eq(end, g);
}

Test(captures, dependencies_can_be_replaced)
{
    CUstream s = stream_new();
    CUgraph g;
    size_t roots = 0;
    OK(cuStreamBeginCapture(s, GLOBAL));
    OK(launch_spin(s, 1000));
#if CUDA_VERSION >= 13000
    OK(cuStreamUpdateCaptureDependencies(s, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
#else
    OK(cuStreamUpdateCaptureDependencies(s, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
#endif
    OK(launch_spin(s, 1000));
    OK(cuStreamEndCapture(s, &g));
    OK(cuGraphGetRootNodes(g, NULL, &roots));
    cr_assert_eq(roots, 2);
    cr_assert_eq(edge_count(g), 0);
}

Test(captures, pageable_memory_is_read_when_the_graph_runs)
{
    static uint32_t in[WORDS];
    CUstream s = stream_new();
    CUgraph g;
    CUdeviceptr p = words_new(0);
    in[0] = 1;
    OK(cuStreamBeginCapture(s, GLOBAL));
    OK(cuMemcpyHtoDAsync(p, in, BYTES, s));
    OK(cuStreamEndCapture(s, &g));
    in[0] = 2;
    run(g, s);
    cr_assert_eq(word_of(p), 2);
}

static void CUDA_CB count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

Test(captures, host_functions_become_nodes)
{
    CUstream s = stream_new();
    CUgraph g;
    CUgraphNode node;
    size_t n = 1;
    atomic_int ran = 0;
    CUDA_HOST_NODE_PARAMS params = {0};
    OK(cuStreamBeginCapture(s, GLOBAL));
    OK(cuLaunchHostFunc(s, count_up, &ran));
    OK(cuStreamEndCapture(s, &g));
    cr_assert_eq(atomic_load(&ran), 0);
    OK(cuGraphGetNodes(g, &node, &n));
    OK(cuGraphHostNodeGetParams(node, &params));
    cr_assert_eq(params.fn, count_up);
    cr_assert_eq(params.userData, &ran);
    run(g, s);
    run(g, s);
    cr_assert_eq(atomic_load(&ran), 2);
}

Test(captures, stream_ordered_allocations_become_nodes)
{
    CUstream s = stream_new();
    CUgraph g;
    CUdeviceptr p = 0, out = words_new(0);
    if (!rig_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        cr_skip_test("no memory pools");
    OK(cuStreamBeginCapture(s, GLOBAL));
    OK(cuMemAllocAsync(&p, BYTES, s));
    OK(launch_fill(s, p, 6));
    OK(launch_copy(s, out, p));
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamEndCapture(s, &g));
    cr_assert_eq(node_count(g), 4);
    run(g, s);
    words_are(out, 6);
    OK(cuGraphDestroy(g));
}

/* The launch invalidates the capture in every mode: seen on an H100, 580.159.04. */
Test(captures, graph_launch_invalidates_capture_in_every_mode)
{
    CUstream s = stream_new(), other = stream_new();
    CUgraph inner, outer;
    CUgraphExec x;
    CUdeviceptr p = words_new(1);
    OK(cuStreamBeginCapture(s, GLOBAL));
    OK(launch_mix(s, p, 2, 1));
    OK(cuStreamEndCapture(s, &inner));
    OK(cuGraphInstantiate(&x, inner, 0));
    for (CUstreamCaptureMode mode = GLOBAL; mode <= RELAXED; mode++) {
        OK(cuStreamBeginCapture(s, mode));
        FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuGraphLaunch(x, s));
        is_invalidated(s);
    }
    OK(cuStreamBeginCapture(s, GLOBAL));
    OK(cuGraphLaunch(x, other)); /* which does not capture */
    OK(cuStreamEndCapture(s, &outer));
    OK(cuStreamSynchronize(other));
    words_are(p, 3);
}

#if CUDA_VERSION >= 12030
Test(captures, begin_capture_to_graph_extends_that_graph)
{
    CUstream s = stream_new();
    CUgraph g, end = NULL;
    CUgraphNode root;
    int version = 0;
    OK(cuDriverGetVersion(&version));
    if (version < 12030)
        cr_skip_test("came with CUDA 12.3");
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddEmptyNode(&root, g, NULL, 0));
    OK(cuStreamBeginCaptureToGraph(s, g, &root, NULL, 1, GLOBAL));
    OK(launch_spin(s, 1000));
    OK(cuStreamEndCapture(s, &end));
    cr_assert_eq(end, g);
    cr_assert_eq(node_count(g), 2);
    cr_assert_eq(edge_count(g), 1);
    run(g, s);
}
#endif

Test(captures, other_streams_execute_during_capture)
{
    CUstream s = stream_new(), other = stream_new();
    CUdeviceptr p = words_new(1);
    CUgraph g;
    OK(cuStreamBeginCapture(s, RELAXED));
    OK(launch_mix(other, p, 5, 5));
    OK(cuStreamSynchronize(other));
    OK(cuStreamEndCapture(s, &g));
    words_are(p, 10);
    cr_assert_eq(node_count(g), 0);
    run(g, s);
}
