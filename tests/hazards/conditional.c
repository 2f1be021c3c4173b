/*
 * conditional.c - graphs that decide on the device what they run: the host cannot know how much.
 */
#include "tests/hazards/hazard.h"

#include <string.h>

#if CUDA_VERSION >= 12030
static CUdeviceptr x, left;
static CUstream s;
static CUfunction count;

/* A loop of left[0] rounds; `*inside` becomes the node in it that runs mix. */
static CUgraph looping(uint32_t a, uint32_t b, CUgraphNode *inside)
{
    struct mix_node m;
    CUgraph graph;
    CUgraphNode node;
    CUgraphConditionalHandle handle;
    CUgraphNodeParams p;
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphConditionalHandleCreate(&handle, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    memset(&p, 0, sizeof(p));
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = handle;
    p.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    p.conditional.size = 1;
    p.conditional.ctx = context;
    MUST(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &p));
    MUST(
        cuGraphAddKernelNode(inside, p.conditional.phGraph_out[0], NULL, 0, mix_node(&m, x, a, b)));
    CUDA_KERNEL_NODE_PARAMS counting = m.node;
    counting.func = count;
    counting.gridDimX = counting.blockDimX = 1;
    counting.kernelParams = (void *[]){&handle, &left};
    MUST(cuGraphAddKernelNode(&node, p.conditional.phGraph_out[0], inside, 1, &counting));
    return graph;
}

static CUgraphExec loop_of(CUgraph graph)
{
    CUgraphExec exec;
    MUST(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void loops_open(void)
{
    CUmodule conditions;
    MUST(cuModuleLoad(&conditions, SOURCE_DIR "/examples/conditions.ptx"));
    MUST(cuModuleGetFunction(&count, conditions, "count_condition"));
    s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    left = buffer_new(0);
    warm(s);
}

HAZARD(while_node_keeps_its_order_and_runs_all_iterations)
{
    CUgraphNode inside;
    loops_open();
    CUgraph graph = looping(5, 7, &inside);
    CUgraphExec exec = loop_of(graph);
    SAY(cuGraphLaunch(exec, s)); /* the first goes inline */
    for (uint32_t i = 1; i < 5; i++) {
        hold(s);
        SAY(cuMemsetD32Async(left, i, 1, s));
        SAY(launch_mix(x, 11, i, s));
        SAY(cuGraphLaunch(exec, s));
        SAY(launch_mix(x, 2, 1, s));
        buffered(s);
        release(s);
    }
    SAY(cuStreamSynchronize(s));
    show("x", x);
    show("left", left);
    SAY(cuGraphExecDestroy(exec));
    SAY(cuGraphDestroy(graph));
}

HAZARD(nodes_in_a_while_node_are_set_while_launches_are_buffered)
{
    CUgraphNode inside;
    loops_open();
    CUgraphExec exec = loop_of(looping(5, 7, &inside));
    SAY(cuGraphLaunch(exec, s));
    for (uint32_t i = 1; i < 4; i++) {
        struct mix_node m;
        const CUDA_KERNEL_NODE_PARAMS *p = mix_node(&m, x, 11, i);
        hold_ms = 5;
        hold(s);
        SAY(cuMemsetD32Async(left, 3, 1, s));
        SAY(cuGraphLaunch(exec, s));
        SAY(cuGraphExecKernelNodeSetParams(exec, inside, p));
        SAY(cuMemsetD32Async(left, 2, 1, s));
        SAY(cuGraphLaunch(exec, s));
        release(s);
    }
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(while_node_is_destroyed_while_launches_are_buffered)
{
    CUgraphNode inside;
    loops_open();
    for (uint32_t i = 0; i < 5; i++) {
        CUgraph graph = looping(3, i, &inside);
        CUgraphExec exec = loop_of(graph);
        MUST(cuGraphLaunch(exec, s));
        hold_ms = 5;
        hold(s);
        SAY(cuMemsetD32Async(left, 4, 1, s));
        SAY(cuGraphLaunch(exec, s));
        SAY(cuGraphExecDestroy(exec));
        SAY(cuGraphDestroy(graph));
        release(s);
    }
    SAY(cuCtxSynchronize());
    show("x", x);
}
#endif
