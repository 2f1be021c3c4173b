/*
 * graph.c - launches of graphs keep their place; updates and destruction of a graph wait for them.
 */
#include "tests/shim/wrap/rig.h"

#include <stdlib.h>
#include <string.h>

TestSuite(graph, .init = rig_open, .fini = rig_close);

static unsigned buffered(CUstream s)
{
    struct cutin_stream_state state = {.size = sizeof(state)};
    ok(cutin_stream_state(s, &state));
    return state.buffered;
}

/* Keeps its stream waiting while *word is 0. */
struct gate {
    _Atomic uint32_t *word;
    CUdeviceptr at;
};

static struct gate gate_new(void)
{
    struct gate g;
    if (getenv("SIMGPU_MEMOPS") || getenv("CUTIN_BUDGET_US"))
        cr_skip_test("needs a wait for a word, and the cap as it is by default");
    ok(cuMemHostAlloc((void **)&g.word, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    ok(cuMemHostGetDevicePointer(&g.at, g.word, 0));
    return g;
}

static CUgraphExec few(CUdeviceptr x)
{
    return rig_graph(x, 1, 1, 2);
}

static CUgraphExec many(CUdeviceptr x)
{
    return rig_graph(x, 1, 1, 800);
}

/* How many of the launches behind `second` are buffered while the device runs nothing. 200 kernels
 * of unknown time count as 4 ms. With no client above, 16 budgets may be in flight; a 16th of that
 * if the device was measured to be slow, as on a busy machine. Time that passes is credit only for
 * the oldest, so a small graph goes first. After 100 ms without progress the cap lifts, so the look
 * is repeated. Launches are timed, so each look has new graphs. */
static unsigned buffered_behind(CUgraphExec (*second)(CUdeviceptr x), CUdeviceptr x, CUstream s)
{
    struct gate gate = gate_new();
    unsigned count;
    uint64_t began;
    do {
        CUgraphExec first = rig_graph(x, 1, 1, 20), then = second(x), last = few(x);
        ok(cuGraphLaunch(last, s)); /* the first goes inline */
        ok(cuStreamSynchronize(s));
        atomic_store(gate.word, 0);
        began = rig_now_ms();
        ok(cuStreamWaitValue32(s, gate.at, 1, CU_STREAM_WAIT_VALUE_GEQ));
        ok(cuGraphLaunch(first, s));
        ok(cuGraphLaunch(then, s));
        ok(cuGraphLaunch(last, s));
        count = buffered(s);
        began = rig_now_ms() - began;
        atomic_store(gate.word, 1);
        ok(cuStreamSynchronize(s));
        ok(cuGraphExecDestroy(first));
        ok(cuGraphExecDestroy(then));
        ok(cuGraphExecDestroy(last));
    } while (began > 90);
    return count;
}

static void rig_open_with_room(void)
{
    rig_open_with("CUTIN_BUDGET_US", "800");
}

Test(graph, launch_counts_as_sum_of_its_kernels, .init = rig_open_with_room, .fini = rig_close)
{
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    rig_settle(s);
    cr_expect_eq(buffered_behind(few, x, s), 0);
    cr_expect_eq(buffered_behind(many, x, s), 1);
}

#if CUDA_VERSION >= 12030
static CUgraphExec deciding(CUdeviceptr unused)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    ok(cuGraphCreate(&graph, 0));
    for (int i = 0; i < 200; i++) {
        CUgraphNodeParams p;
        memset(&p, 0, sizeof(p));
        p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
        p.conditional.type = CU_GRAPH_COND_TYPE_IF;
        p.conditional.size = 1;
        ok(cuGraphConditionalHandleCreate(&p.conditional.handle, graph, rig_context, 0, 0));
        ok(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &p));
    }
    ok(cuGraphInstantiate(&exec, graph, 0));
    ok(cuGraphDestroy(graph));
    return exec;
}

/* What a conditional node runs cannot be seen. */
Test(graph, conditional_node_counts_as_unknown_kernel)
{
    cr_expect_eq(buffered_behind(deciding, rig_buffer(3), rig_stream()), 1);
}
#endif

Test(graph, launches_keep_their_place_among_kernels)
{
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    CUgraphExec g = rig_graph(x, 5, 7, 1);
    rig_warm(s);
    ok(cuGraphLaunch(g, s)); /* the first goes inline */
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 11, 1, s));
    ok(cuGraphLaunch(g, s));
    ok(rig_launch(x, 2, 9, s));
    ok(cuGraphLaunch(g, s));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    ok(cutin_stream_release(s));
    uint32_t expect = rig_mixed(rig_mixed(rig_mixed(3, 5, 7), 11, 1), 5, 7);
    rig_expect(x, rig_mixed(rig_mixed(expect, 2, 9), 5, 7), s);
}

Test(graph, may_be_destroyed_with_a_launch_buffered)
{
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    CUgraphExec g = rig_graph(x, 5, 7, 1);
    rig_warm(s);
    ok(cuGraphLaunch(g, s));
    ok(cutin_stream_hold(s));
    ok(cuGraphLaunch(g, s));
    ok(cuGraphExecDestroy(g));
    ok(cutin_stream_release(s));
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 5, 7), s);
}

Test(graph, launches_in_two_streams_are_in_order)
{
    CUstream a = rig_stream(), b = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    CUgraphExec g = rig_graph(x, 5, 7, 1);
    ok(cuGraphLaunch(g, a));
    ok(cutin_stream_hold(a));
    ok(cuGraphLaunch(g, a));
    ok(cuGraphLaunch(g, b)); /* CUDA: launches of one exec follow each other */
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    ok(cutin_stream_release(a));
    rig_expect(x, rig_mixed(rig_mixed(rig_mixed(3, 5, 7), 5, 7), 5, 7), NULL);
}
