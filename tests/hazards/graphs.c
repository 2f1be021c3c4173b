/*
 * graphs.c - capture and executable graphs among held streams.
 */
#include "tests/hazards/hazard.h"

#include <stdatomic.h>
#include <string.h>

static CUdeviceptr x;
static CUstream s, other;

static void streams(void)
{
    s = stream_new(CU_STREAM_NON_BLOCKING);
    other = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    warm(other);
}

/* x = x * a + b as a graph of one node. */
static CUgraph mixing(uint32_t a, uint32_t b, CUgraphNode *node)
{
    struct mix_node m;
    CUgraph graph;
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddKernelNode(node, graph, NULL, 0, mix_node(&m, x, a, b)));
    return graph;
}

static CUgraphExec exec_of(CUgraph graph)
{
    CUgraphExec exec;
    MUST(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void set_params(CUgraphExec exec, CUgraphNode node, uint32_t a, uint32_t b)
{
    struct mix_node m;
    const CUDA_KERNEL_NODE_PARAMS *p = mix_node(&m, x, a, b);
    SAY(cuGraphExecKernelNodeSetParams(exec, node, p));
}

HAZARD(node_parameters_are_set_while_launches_are_buffered)
{
    CUgraphNode node;
    streams();
    CUgraphExec exec = exec_of(mixing(5, 7, &node));
    SAY(cuGraphLaunch(exec, s));
    for (uint32_t i = 0; i < 4; i++) {
        hold_ms = 5;
        hold(s);
        SAY(cuGraphLaunch(exec, s));
        set_params(exec, node, 11, i);
        SAY(cuGraphLaunch(exec, s));
        release(s);
    }
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(exec_is_updated_while_launches_are_buffered)
{
    CUgraphNode node;
    CUgraphExecUpdateResultInfo info = {0};
    streams();
    CUgraph first = mixing(5, 7, &node), second = mixing(11, 2, &node);
    CUgraphExec exec = exec_of(first);
    SAY(cuGraphLaunch(exec, s));
    hold(s);
    SAY(cuGraphLaunch(exec, s));
    SAY(cuGraphExecUpdate(exec, second, &info));
    SAY(cuGraphDestroy(first));
    SAY(cuGraphLaunch(exec, s));
    SAY(cuGraphUpload(exec, s));
    SAY(cuGraphDestroy(second));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(exec_is_destroyed_while_launches_are_buffered)
{
    CUgraphNode node;
    streams();
    for (uint32_t i = 0; i < 10; i++) {
        CUgraph graph = mixing(5, i, &node);
        CUgraphExec exec = exec_of(graph);
        MUST(cuGraphLaunch(exec, s));
        hold_ms = 3;
        hold(s);
        SAY(cuGraphLaunch(exec, s));
        SAY(cuGraphLaunch(exec, other));
        SAY(cuGraphExecDestroy(exec));
        SAY(cuGraphDestroy(graph));
        release(s);
        /* The next round launches into another stream, and another executable graph. */
        MUST(cuStreamSynchronize(other));
    }
    SAY(cuCtxSynchronize());
    show("x", x);
}

HAZARD(node_is_disabled_while_launches_are_buffered)
{
    CUgraphNode node;
    streams();
    CUgraphExec exec = exec_of(mixing(5, 7, &node));
    SAY(cuGraphLaunch(exec, s));
    hold(s);
    SAY(cuGraphLaunch(exec, s));
    SAY(cuGraphNodeSetEnabled(exec, node, 0));
    SAY(cuGraphLaunch(exec, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(module_of_a_graph_is_unloaded_while_launches_are_buffered)
{
    CUgraphNode node;
    streams();
    CUgraphExec exec = exec_of(mixing(5, 7, &node));
    SAY(cuGraphLaunch(exec, s));
    hold(s);
    SAY(cuGraphLaunch(exec, s));
    SAY(cuModuleUnload(module));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* The ownership is the field behind the graph, though older headers have no name for it. */
static void move_into(CUgraph graph, CUgraph child)
{
    const int move = 1; /* CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE */
    CUgraphNodeParams p;
    CUgraphNode node;
    memset(&p, 0, sizeof(p));
    p.type = CU_GRAPH_NODE_TYPE_GRAPH;
    p.graph.graph = child;
    memcpy((char *)&p.graph + sizeof(child), &move, sizeof(move));
    SAY(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &p));
}

HAZARD(nodes_of_a_moved_graph_are_set_while_launches_are_buffered)
{
    CUgraphNode node, unused;
    CUgraph outer;
    streams();
    CUgraph child = mixing(5, 7, &node);
    MUST(cuGraphCreate(&outer, 0));
    move_into(outer, child);
    move_into(mixing(1, 0, &unused), child);
    SAY(cuGraphDestroy(child));
    CUgraphExec exec = exec_of(outer);
    SAY(cuGraphLaunch(exec, s));
    for (uint32_t i = 0; i < 4; i++) {
        hold_ms = 5;
        hold(s);
        SAY(cuGraphLaunch(exec, s));
        set_params(exec, node, 11, i);
        SAY(cuGraphLaunch(exec, s));
        release(s);
    }
    SAY(cuGraphDestroy(outer));
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* ---- capture ------------------------------------------------------------------------------- */

static size_t nodes_of(CUgraph graph)
{
    size_t n = 0;
    if (graph)
        MUST(cuGraphGetNodes(graph, NULL, &n));
    return n;
}

static _Atomic bool capturing, stop;
static CUdeviceptr y;

static void defer_meanwhile(void *user)
{
    uint32_t i = 0;
    UNTIL(atomic_load(&capturing));
    while (!atomic_load(&stop) || i < 200) {
        MUST(launch_mix(y, 3, i, other));
        if (++i == 400)
            break;
    }
    while (i < 400)
        MUST(launch_mix(y, 3, i++, other));
}

HAZARD(capture_leaves_the_queues_of_other_threads_alone)
{
    CUgraph graph = NULL;
    streams();
    y = buffer_new(1);
    struct thread *t = thread_start(defer_meanwhile, NULL);
    hold_ms = 200;
    hold(other);
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    atomic_store(&capturing, true);
    for (uint32_t i = 0; i < 50; i++)
        MUST(launch_mix(x, 3, i, s));
    SAY(cuStreamEndCapture(s, &graph));
    atomic_store(&stop, true);
    release(other);
    thread_join(t);
    printf("nodes %zu\n", nodes_of(graph));
    CUgraphExec exec = exec_of(graph);
    SAY(cuGraphLaunch(exec, s));
    SAY(cuCtxSynchronize());
    show("x", x);
    show("y", y);
}

static void queue_meanwhile(void *user)
{
    uint32_t i;
    UNTIL(atomic_load(&capturing));
    for (i = 0; i < 100; i++) {
        MUST(launch_mix(y, 3, i, other));
        MUST(cuMemsetD32Async(y, i, 8, other));
    }
    atomic_store(&stop, true);
}

/* In global mode an unsafe call of any thread invalidates a capture: the library makes none. */
HAZARD(global_capture_is_not_invalidated_by_deferred_calls)
{
    CUgraph graph = NULL;
    streams();
    y = buffer_new(1);
    struct thread *t = thread_start(queue_meanwhile, NULL);
    hold_ms = 10;
    hold(other);
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    atomic_store(&capturing, true);
    MUST(launch_mix(x, 5, 7, s));
    UNTIL(atomic_load(&stop));
    MUST(launch_mix(x, 5, 7, s));
    SAY(cuStreamEndCapture(s, &graph));
    release(other);
    thread_join(t);
    printf("nodes %zu\n", nodes_of(graph));
    SAY(cuCtxSynchronize());
    show("y", y);
}

HAZARD(buffered_work_is_submitted_before_a_capture)
{
    CUgraph graph = NULL;
    streams();
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(launch_mix(x, 11, 1, s));
    SAY(cuMemsetD32Async(x, 1, 4, s));
    SAY(cuStreamEndCapture(s, &graph));
    release(s);
    printf("nodes %zu\n", nodes_of(graph));
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(capture_is_invalidated_by_the_same_calls_as_natively)
{
    CUgraph graph = NULL;
    streams();
    CUevent outside = event_new();
    hold_ms = 10;
    hold(other);
    SAY(launch_mix(x, 5, 7, other));
    SAY(cuEventRecord(outside, other));
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(cuStreamWaitEvent(s, outside, 0));
    SAY(cuStreamEndCapture(s, &graph));
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(cuStreamQuery(s));
    SAY(cuStreamSynchronize(s));
    SAY(cuStreamEndCapture(s, &graph));
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(cuCtxSynchronize());
    SAY(cuStreamEndCapture(s, &graph));
    release(other);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuCtxSynchronize());
    show("x", x);
}

HAZARD(legacy_stream_is_refused_while_a_blocking_one_captures)
{
    CUgraph graph = NULL;
    streams();
    CUstream blocking = stream_new(CU_STREAM_DEFAULT);
    warm(NULL);
    SAY(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(launch_mix(x, 5, 7, NULL));
    SAY(cuMemsetD32(x, 1, 1));
    SAY(cuStreamEndCapture(blocking, &graph));
    SAY(launch_mix(x, 5, 7, NULL));
    SAY(cuCtxSynchronize());
    show("x", x);
}

HAZARD(stream_joins_a_capture_with_its_own_work_held)
{
    CUgraph graph = NULL;
    streams();
    CUevent fork = event_new(), join = event_new();
    hold(other);
    SAY(launch_mix(x, 5, 7, other));
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuEventRecord(fork, s));
    SAY(cuStreamWaitEvent(other, fork, 0));
    SAY(launch_mix(x, 11, 1, other));
    SAY(cuEventRecord(join, other));
    SAY(cuStreamWaitEvent(s, join, 0));
    SAY(cuStreamEndCapture(s, &graph));
    release(other);
    printf("nodes %zu\n", nodes_of(graph));
    SAY(cuStreamSynchronize(other));
    show("x", x);
    CUgraphExec exec = exec_of(graph);
    SAY(cuGraphLaunch(exec, other));
    SAY(cuStreamSynchronize(other));
    show("x", x);
}

/* A record from before the capture is still buffered. It must not undo the one that the capture
 * takes, and the driver, which refuses a wait for it, must know it. */
HAZARD(event_is_recorded_by_a_capture_while_its_record_is_buffered)
{
    CUgraph graph = NULL;
    CUevent e = event_new(), back = event_new();
    CUstream held_one = stream_new(CU_STREAM_NON_BLOCKING);
    size_t nodes = 0;
    streams();
    y = buffer_new(1);
    warm(held_one);
    MUST(cuCtxSynchronize());
    hold(held_one);
    SAY(launch_mix(y, 5, 7, held_one));
    SAY(cuEventRecord(e, held_one));
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(launch_mix(x, 3, 1, s));
    SAY(cuEventRecord(e, s));
    release(held_one);
    SAY(cuStreamSynchronize(held_one));
    SAY(cuStreamWaitEvent(other, e, 0));
    SAY(launch_mix(x, 7, 2, other));
    SAY(cuEventRecord(back, other));
    SAY(cuStreamWaitEvent(s, back, 0));
    SAY(cuStreamEndCapture(s, &graph));
    SAY(cuGraphGetNodes(graph, NULL, &nodes));
    printf("%zu nodes\n", nodes);
    SAY(cuCtxSynchronize());
    show("x", x);
    show("y", y);
}

HAZARD(capture_waits_for_an_earlier_record_that_is_buffered)
{
    CUgraph graph = NULL;
    CUevent e = event_new();
    streams();
    MUST(cuCtxSynchronize());
    hold(other);
    SAY(launch_mix(x, 5, 7, other));
    SAY(cuEventRecord(e, other));
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuStreamWaitEvent(s, e, 0));
    SAY(cuStreamEndCapture(s, &graph));
    release(other);
    SAY(cuCtxSynchronize());
    show("x", x);
}

static void say_status(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    SAY(cuStreamIsCapturing(stream, &status));
    printf("status %d\n", (int)status);
}

static void end_there(void *unused)
{
    CUgraph graph = NULL;
    SAY(cuStreamEndCapture(s, &graph));
}

/* Such an end is an error, but ends the capture: what comes next is launched in its turn. */
HAZARD(capture_ended_by_the_wrong_thread_leaves_an_ordinary_stream)
{
    CUgraph graph = NULL;
    streams();
    for (CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
         mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        SAY(cuStreamBeginCapture(s, mode));
        SAY(launch_mix(x, 3, 1, s));
        thread_join(thread_start(end_there, NULL));
        say_status(s);
        SAY(cuStreamEndCapture(s, &graph));
        hold(s);
        SAY(launch_mix(x, 5, 7, s));
        buffered(s);
        release(s);
        SAY(cuStreamSynchronize(s));
        show("x", x);
    }
}

/* The launch is refused at once, though an earlier launch of the same graph is buffered. The
 * earlier one stays as it is. */
HAZARD(graph_launch_into_a_capture_invalidates_it)
{
    CUgraph graph = NULL;
    CUgraphNode node;
    streams();
    CUgraphExec exec = exec_of(mixing(5, 7, &node));
    SAY(cuGraphLaunch(exec, other));
    hold_for(20000);
    for (CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
         mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        hold(other);
        SAY(cuGraphLaunch(exec, other));
        buffered(other);
        SAY(cuStreamBeginCapture(s, mode));
        SAY(cuGraphLaunch(exec, s));
        say_status(s);
        SAY(launch_mix(x, 3, 1, s));
        SAY(cuStreamEndCapture(s, &graph));
        say_status(s);
        still_held(other);
        SAY(cuGraphLaunch(exec, s)); /* goes behind the buffered launch */
        release(other);
        SAY(cuStreamSynchronize(s));
        show("x", x);
    }
}

/* During the call the driver checks whether the memory of the launch before was freed: in stream
 * order, or by another graph. */
HAZARD(graph_whose_memory_another_stream_frees_is_launched_again)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
        .bytesize = BYTES};
    CUgraph graph, frees;
    CUgraphNode node;
    streams();
    hold_ms = 200;
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p));
    MUST(cuGraphCreate(&frees, 0));
    MUST(cuGraphAddMemFreeNode(&node, frees, NULL, 0, p.dptr));
    CUgraphExec exec = exec_of(graph), freeing = exec_of(frees);
    for (int i = 0; i < 4; i++) {
        SAY(cuGraphLaunch(exec, s));
        SAY(cuStreamSynchronize(s));
        hold(other);
        SAY(launch_mix(p.dptr, 5, 7, other));
        buffered(other);
        SAY(i % 2 ? cuMemFreeAsync(p.dptr, other) : cuGraphLaunch(freeing, other));
        SAY(cuGraphLaunch(exec, s));
        SAY(cuStreamSynchronize(s)); /* it has been launched now, even if its thread deferred it */
        release(other);
        SAY(cuStreamSynchronize(other));
        SAY(cuMemFreeAsync(p.dptr, s));
        SAY(cuStreamSynchronize(s));
    }
}
