/*
 * graph.c - launches of graphs keep their place; updates and destruction of one wait for them.
 */
#include "tests/shim/rig.h"

TestSuite(graph, .init = rig_open, .fini = rig_close);

/* x = x * a + b, as a graph of one node. */
static CUgraphExec mixing(CUdeviceptr x, uint32_t a, uint32_t b)
{
    uint32_t n = N;
    void *params[] = {&x, &a, &b, &n};
    CUDA_KERNEL_NODE_PARAMS node = {.func = rig_mix,
                                    .gridDimX = N / 256,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 256,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .kernelParams = params};
    CUgraph graph;
    CUgraphNode added;
    CUgraphExec exec;
    ok(cuGraphCreate(&graph, 0));
    ok(cuGraphAddKernelNode(&added, graph, NULL, 0, &node));
    ok(cuGraphInstantiate(&exec, graph, 0));
    ok(cuGraphDestroy(graph));
    return exec;
}

Test(graph, launches_keep_their_place_among_kernels)
{
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    CUgraphExec g = mixing(x, 5, 7);
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
    CUgraphExec g = mixing(x, 5, 7);
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
    CUgraphExec g = mixing(x, 5, 7);
    ok(cuGraphLaunch(g, a));
    ok(cutin_stream_hold(a));
    ok(cuGraphLaunch(g, a));
    ok(cuGraphLaunch(g, b)); /* CUDA: launches of one exec follow each other */
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    ok(cutin_stream_release(a));
    rig_expect(x, rig_mixed(rig_mixed(rig_mixed(3, 5, 7), 5, 7), 5, 7), NULL);
}
