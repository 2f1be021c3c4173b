/*
 * conditional.c - conditional nodes: which of the graphs inside run and how often, how they are
 * filled, what may be in them, and how long all that lives.
 */
#include "tests/simgpu/sim.h"

#include <stdlib.h>
#include <string.h>

TestSuite(conditional, .init = sim_open, .fini = sim_close);

#if CUDA_VERSION < 12030
Test(conditional, headers_before_cuda_12_3_skip_this_suite)
{
    cr_skip_test("conditional nodes came with CUDA 12.3");
}
#else

enum { IF, WHILE, SWITCH, WORDS = 64 };

static CUmodule module;
static CUfunction set, count;
static CUdeviceptr x, left;
static CUstream s;

static CUgraph graph_new(void)
{
    CUgraph g;
    CHECK(cuGraphCreate(&g, 0));
    return g;
}

static void open_all(void)
{
    CHECK(cuModuleLoad(&module, CONDITIONS));
    CHECK(cuModuleGetFunction(&set, module, "set_condition"));
    CHECK(cuModuleGetFunction(&count, module, "count_condition"));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&x, WORDS * 4));
    CHECK(cuMemAlloc(&left, 64));
    CHECK(cuMemsetD32(x, 1, WORDS));
    CHECK(cuMemsetD32(left, 0, 16));
    CHECK(cuCtxSynchronize());
}

static CUgraphConditionalHandle handle_new(CUgraph g, unsigned int initial, unsigned int flags)
{
    CUgraphConditionalHandle handle;
    CHECK(cuGraphConditionalHandleCreate(&handle, g, sim.ctx, initial, flags));
    return handle;
}

static CUresult node_try(CUgraphNode *node, CUgraph g, const CUgraphNode *after,
                         CUgraphConditionalHandle handle, int type, unsigned int size,
                         CUgraph **bodies)
{
    CUgraphNodeParams p;
    memset(&p, 0, sizeof(p));
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = handle;
    p.conditional.type = (CUgraphConditionalNodeType)type;
    p.conditional.size = size;
    p.conditional.ctx = sim.ctx;
    CUresult rc = cuGraphAddNode_v2(node, g, after, NULL, !!after, &p);
    if (rc == CUDA_SUCCESS)
        *bodies = p.conditional.phGraph_out;
    return rc;
}

static CUgraph *node_new(CUgraph g, const CUgraphNode *after, CUgraphConditionalHandle handle,
                         int type, unsigned int size)
{
    CUgraphNode node;
    CUgraph *bodies = NULL;
    CHECK(node_try(&node, g, after, handle, type, size, &bodies));
    return bodies;
}

static CUgraphNode kernel(CUgraph g, const CUgraphNode *after, CUfunction f, unsigned int threads,
                          void **params)
{
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS p = {.func = f,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = threads,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = params};
    CHECK(cuGraphAddKernelNode(&node, g, after, !!after, &p));
    return node;
}

static CUgraphNode mix(CUgraph g, const CUgraphNode *after, uint32_t a, uint32_t b)
{
    uint32_t n = WORDS;
    return kernel(g, after, sim.mix, WORDS, (void *[]){&x, &a, &b, &n});
}

static CUgraphNode set_to(CUgraph g, const CUgraphNode *after, CUgraphConditionalHandle handle,
                          uint32_t value)
{
    return kernel(g, after, set, 1, (void *[]){&handle, &value});
}

/* left[at] -= 1; the loop goes on while that is not 0. */
static CUgraphNode count_down(CUgraph g, const CUgraphNode *after, CUgraphConditionalHandle handle,
                              unsigned int at)
{
    CUdeviceptr word = left + 4 * at;
    return kernel(g, after, count, 1, (void *[]){&handle, &word});
}

static CUgraphExec exec_new(CUgraph g)
{
    CUgraphExec exec;
    CHECK(cuGraphInstantiate(&exec, g, 0));
    return exec;
}

static uint32_t word(CUdeviceptr at)
{
    uint32_t value;
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemcpyDtoH(&value, at, 4));
    return value;
}

static uint32_t run(CUgraphExec exec)
{
    CHECK(cuMemsetD32(x, 1, WORDS));
    CHECK(cuCtxSynchronize());
    CHECK(cuGraphLaunch(exec, s));
    return word(x);
}

/* x = 2 if the condition holds, else 3. */
static CUgraphExec if_else(uint32_t value)
{
    CUgraph g = graph_new();
    CUgraphConditionalHandle handle = handle_new(g, 0, 0);
    CUgraphNode before = set_to(g, NULL, handle, value);
    CUgraph *bodies = node_new(g, &before, handle, IF, 2);
    mix(bodies[0], NULL, 2, 0);
    mix(bodies[1], NULL, 3, 0);
    return exec_new(g);
}

/* A loop of left[0] rounds, each x = x * a + b. */
static CUgraph loop(uint32_t a, uint32_t b, CUgraphNode *inside)
{
    CUgraph g = graph_new();
    CUgraphConditionalHandle handle = handle_new(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    CUgraph body = node_new(g, NULL, handle, WHILE, 1)[0];
    *inside = mix(body, NULL, a, b);
    count_down(body, inside, handle, 0);
    return g;
}

static size_t logged(const char *name)
{
    static struct log_line lines[4096];
    size_t n = log_read(lines, 4096), found = 0;
    for (size_t i = 0; i < n; i++)
        found += strcmp(lines[i].name, name) == 0;
    return found;
}

Test(conditional, nonzero_runs_if_body_and_zero_runs_else_body)
{
    open_all();
    cr_expect_eq(run(if_else(1)), 2);
    cr_expect_eq(run(if_else(77)), 2);
    cr_expect_eq(run(if_else(0)), 3);
    cr_expect_eq(logged("conditional_if"), 3);
}

Test(conditional, false_if_without_else_runs_nothing)
{
    open_all();
    CUgraph g = graph_new();
    CUgraphConditionalHandle handle = handle_new(g, 0, CU_GRAPH_COND_ASSIGN_DEFAULT);
    mix(node_new(g, NULL, handle, IF, 1)[0], NULL, 2, 0);
    cr_expect_eq(run(exec_new(g)), 1);
}

Test(conditional, while_runs_until_a_kernel_ends_it)
{
    CUgraphNode inside;
    open_all();
    CUgraphExec exec = exec_new(loop(2, 1, &inside));
    CHECK(cuMemsetD32(left, 5, 1));
    cr_expect_eq(run(exec), 63);
    CHECK(cuMemsetD32(left, 1, 1));
    cr_expect_eq(run(exec), 3);
    cr_expect_eq(logged("conditional_while"), 2);
    cr_expect_eq(logged("mix"), 6);
}

Test(conditional, switch_runs_body_of_its_value_or_none)
{
    open_all();
    for (uint32_t value = 0; value < 5; value++) {
        CUgraph g = graph_new();
        CUgraphConditionalHandle handle = handle_new(g, value, CU_GRAPH_COND_ASSIGN_DEFAULT);
        CUgraph *bodies = node_new(g, NULL, handle, SWITCH, 4);
        for (uint32_t i = 0; i < 4; i++)
            mix(bodies[i], NULL, 10, i);
        cr_expect_eq(run(exec_new(g)), value < 4 ? 10 + value : 1);
    }
}

Test(conditional, default_value_is_restored_at_every_launch)
{
    open_all();
    CUgraph g = graph_new();
    CUgraphConditionalHandle handle = handle_new(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    CUgraph body = node_new(g, NULL, handle, IF, 1)[0];
    CUgraphNode inside = mix(body, NULL, 2, 0);
    set_to(body, &inside, handle, 0);
    CUgraphExec exec = exec_new(g);
    cr_expect_eq(run(exec), 2);
    cr_expect_eq(run(exec), 2);
}

/* Most simulated kernels have no effect, so a loop that one should end must not run for ever. */
Test(conditional, while_whose_condition_no_kernel_sets_runs_once)
{
    open_all();
    CUgraph g = graph_new();
    CUgraphConditionalHandle handle = handle_new(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    mix(node_new(g, NULL, handle, WHILE, 1)[0], NULL, 2, 0);
    cr_expect_eq(run(exec_new(g)), 2);
    cr_expect_eq(logged("while_not_set"), 1);
}

Test(conditional, following_work_waits_for_the_loop)
{
    CUgraphNode node;
    CUgraph *bodies = NULL;
    open_all();
    CUgraph g = graph_new();
    CUgraphConditionalHandle handle = handle_new(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    CUgraphNode before = mix(g, NULL, 1, 1);
    CHECK(node_try(&node, g, &before, handle, WHILE, 1, &bodies));
    CUgraphNode inside = mix(bodies[0], NULL, 3, 0);
    count_down(bodies[0], &inside, handle, 0);
    mix(g, &node, 1, 1);
    CHECK(cuMemsetD32(left, 3, 1));
    CUgraphExec exec = exec_new(g);
    CHECK(cuCtxSynchronize());
    CHECK(cuGraphLaunch(exec, s));
    launch_mix(s, x, 2, 0, WORDS);
    cr_expect_eq(word(x), 2 * (2 * 27 + 1));
}

Test(conditional, while_loops_nest)
{
    CUgraphNode node;
    CUgraph *inner = NULL;
    open_all();
    CUgraph g = graph_new();
    CUgraphConditionalHandle outer = handle_new(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    CUgraph body = node_new(g, NULL, outer, WHILE, 1)[0];
    CUgraphConditionalHandle again = handle_new(body, 0, 0);
    uint32_t four = 4, one = 1;
    CUdeviceptr second = left + 4;
    CUgraphNode fill = kernel(body, NULL, sim.fill, 1, (void *[]){&second, &four, &one});
    CUgraphNode on = set_to(body, &fill, again, 1);
    CHECK(node_try(&node, body, &on, again, WHILE, 1, &inner));
    CUgraphNode inside = mix(inner[0], NULL, 1, 1);
    count_down(inner[0], &inside, again, 1);
    count_down(body, &node, outer, 0);
    CHECK(cuMemsetD32(left, 3, 1));
    cr_expect_eq(run(exec_new(g)), 1 + 3 * 4);
}

Test(conditional, stream_capture_fills_a_body)
{
    CUgraph ended;
    CUgraphNode nodes[8];
    size_t n = 8;
    uint32_t value = 0;
    open_all();
    CUgraph g = graph_new();
    CUgraphConditionalHandle handle = handle_new(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    CUgraph body = node_new(g, NULL, handle, WHILE, 1)[0];
    CHECK(cuStreamBeginCaptureToGraph(s, body, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    launch_mix(s, x, 2, 5, WORDS);
    CHECK(cuLaunchKernel(set, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&handle, &value}, NULL));
    CHECK(cuStreamEndCapture(s, &ended));
    cr_expect_eq(ended, body);
    CHECK(cuGraphGetNodes(body, nodes, &n));
    cr_expect_eq(n, 2);
    cr_expect_eq(run(exec_new(g)), 7);
}

/* A framework that captures adds the node to the graph that is being captured. */
Test(conditional, node_can_be_added_during_capture)
{
    CUgraph g, *bodies = NULL, ended;
    CUgraphNode node;
    CUstreamCaptureStatus status;
    const CUgraphNode *before;
    size_t n;
    open_all();
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    launch_mix(s, x, 2, 0, WORDS);
    CHECK(cuStreamGetCaptureInfo_v3(s, &status, NULL, &g, &before, NULL, &n));
    CUgraphConditionalHandle handle = handle_new(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    CHECK(node_try(&node, g, before, handle, IF, 1, &bodies));
    CHECK(cuStreamUpdateCaptureDependencies_v2(s, &node, NULL, 1,
                                               CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    mix(bodies[0], NULL, 1, 3);
    launch_mix(s, x, 10, 0, WORDS);
    CHECK(cuStreamEndCapture(s, &ended));
    cr_expect_eq(run(exec_new(ended)), 50);
}

Test(conditional, invalid_parameters_are_refused)
{
    CUgraphNode node;
    CUgraph *bodies = NULL, g, other;
    CUgraphConditionalHandle handle;
    open_all();
    g = graph_new();
    other = graph_new();
    EXPECT(cuGraphConditionalHandleCreate(&handle, g, sim.ctx, 0, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphConditionalHandleCreate(NULL, g, sim.ctx, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphConditionalHandleCreate(&handle, NULL, sim.ctx, 0, 0), CUDA_ERROR_INVALID_VALUE);
    handle = handle_new(g, 0, 0);
    EXPECT(node_try(&node, g, NULL, handle, IF, 0, &bodies), CUDA_ERROR_INVALID_VALUE);
    EXPECT(node_try(&node, g, NULL, handle, IF, 3, &bodies), CUDA_ERROR_INVALID_VALUE);
    EXPECT(node_try(&node, g, NULL, handle, WHILE, 2, &bodies), CUDA_ERROR_INVALID_VALUE);
    EXPECT(node_try(&node, g, NULL, handle, SWITCH, 0, &bodies), CUDA_ERROR_INVALID_VALUE);
    EXPECT(node_try(&node, g, NULL, handle, 3, 1, &bodies), CUDA_ERROR_INVALID_VALUE);
    EXPECT(node_try(&node, g, NULL, 4711, IF, 1, &bodies), CUDA_ERROR_INVALID_VALUE);
    EXPECT(node_try(&node, other, NULL, handle, IF, 1, &bodies), CUDA_ERROR_INVALID_VALUE);
    CHECK(node_try(&node, g, NULL, handle, IF, 1, &bodies));
    EXPECT(node_try(&node, g, NULL, handle, IF, 1, &bodies), CUDA_ERROR_INVALID_VALUE);
}

static void nothing(void *unused)
{
    (void)unused;
}

Test(conditional, body_refuses_host_and_event_nodes)
{
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph ended;
    CUevent event;
    open_all();
    CUgraph g = graph_new();
    CUgraph body = node_new(g, NULL, handle_new(g, 0, 0), IF, 1)[0];
    CUDA_HOST_NODE_PARAMS host = {.fn = nothing};
    CHECK(cuEventCreate(&event, 0));
    EXPECT(cuGraphAddHostNode(&node, body, NULL, 0, &host), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphAddEventRecordNode(&node, body, NULL, 0, event), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGraphAddEmptyNode(&node, body, NULL, 0));
    CUgraph child = graph_new();
    CHECK(cuGraphAddHostNode(&node, child, NULL, 0, &host));
    CHECK(cuGraphAddChildGraphNode(&node, body, NULL, 0, child));
    EXPECT(cuGraphInstantiate(&exec, g, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGraphDestroyNode(node));
    CHECK(cuGraphInstantiate(&exec, g, 0));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuStreamBeginCaptureToGraph(s, body, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuLaunchHostFunc(s, nothing, NULL));
    CHECK(cuStreamEndCapture(s, &ended));
    EXPECT(cuGraphInstantiate(&exec, g, 0), CUDA_ERROR_INVALID_VALUE);
}

Test(conditional, graph_refuses_clone_nesting_and_second_exec)
{
    CUgraphNode inside, node;
    CUgraphExec exec, second;
    CUgraph copy;
    open_all();
    CUgraph g = loop(2, 0, &inside), other = graph_new();
    EXPECT(cuGraphClone(&copy, g), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT(cuGraphAddChildGraphNode(&node, other, NULL, 0, g), CUDA_ERROR_INVALID_VALUE);
    exec = exec_new(g);
    EXPECT(cuGraphInstantiate(&second, g, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphInstantiate(&second, g, 0));
    CHECK(cuMemsetD32(left, 2, 1));
    cr_expect_eq(run(second), 4);
}

Test(conditional, unused_handle_fails_instantiation)
{
    CUgraphExec exec;
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = 0};
    open_all();
    CUgraph g = graph_new();
    handle_new(g, 0, 0);
    EXPECT(cuGraphInstantiateWithParams(&exec, g, &params), CUDA_ERROR_INVALID_VALUE);
    cr_expect_eq((int)params.result_out, 5);
}

Test(conditional, bodies_belong_to_their_node)
{
    CUgraphNode node, inside;
    CUgraph *bodies = NULL, g, body;
    CUgraphExec exec;
    open_all();
    g = graph_new();
    CHECK(node_try(&node, g, NULL, handle_new(g, 0, 0), IF, 2, &bodies));
    body = bodies[1];
    inside = mix(body, NULL, 2, 0);
    EXPECT(cuGraphDestroy(body), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphInstantiate(&exec, body, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGraphDestroyNode(node));
    EXPECT(cuGraphDestroyNode(inside), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGraphDestroy(g));
}

Test(conditional, launch_outlives_destroyed_graph_and_exec)
{
    CUgraphNode inside;
    open_all();
    CUgraph g = loop(2, 1, &inside);
    CUgraphExec exec = exec_new(g);
    CHECK(cuMemsetD32(left, 5, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuGraphDestroy(g));
    launch_spin(s, 1, 5 * MS);
    CHECK(cuGraphLaunch(exec, s));
    CHECK(cuGraphExecDestroy(exec));
    cr_expect_eq(word(x), 63);
}

/* A launch keeps the parameters that it was made with, even if it runs later. */
Test(conditional, body_node_changes_spare_pending_launches)
{
    CUgraphNode inside;
    uint32_t a = 10, b = 0, n = WORDS;
    CUDA_KERNEL_NODE_PARAMS p = {.func = sim.mix,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = WORDS,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = (void *[]){&x, &a, &b, &n}};
    open_all();
    CUgraphExec exec = exec_new(loop(2, 1, &inside));
    CHECK(cuMemsetD32(left, 3, 1));
    CHECK(cuCtxSynchronize());
    launch_spin(s, 1, 5 * MS);
    CHECK(cuGraphLaunch(exec, s));
    CHECK(cuGraphExecKernelNodeSetParams(exec, inside, &p));
    CHECK(cuMemsetD32Async(left, 2, 1, s));
    CHECK(cuGraphLaunch(exec, s));
    CHECK(cuGraphNodeSetEnabled(exec, inside, 0));
    CHECK(cuMemsetD32Async(left, 2, 1, s));
    CHECK(cuGraphLaunch(exec, s));
    cr_expect_eq(word(x), 1500);
}

Test(conditional, exec_update_takes_only_a_matching_graph)
{
    CUgraphNode inside;
    CUgraphExecUpdateResultInfo info;
    open_all();
    CUgraph g = loop(2, 1, &inside), like = loop(3, 0, &inside), shorter = graph_new();
    CUgraphExec exec = exec_new(g);
    CUgraphConditionalHandle handle = handle_new(shorter, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    mix(node_new(shorter, NULL, handle, WHILE, 1)[0], NULL, 2, 0);
    EXPECT(cuGraphExecUpdate(exec, shorter, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CHECK(cuGraphExecUpdate(exec, like, &info));
    CHECK(cuMemsetD32(left, 4, 1));
    cr_expect_eq(run(exec), 81);
    CHECK(cuGraphExecUpdate(exec, g, &info));
    CHECK(cuMemsetD32(left, 2, 1));
    cr_expect_eq(run(exec), 7);
}

Test(conditional, body_kernel_fault_fails_the_context)
{
    open_all();
    CUgraph g = graph_new();
    CUgraphConditionalHandle handle = handle_new(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    set_to(node_new(g, NULL, handle, WHILE, 1)[0], NULL, 4711, 1);
    CUgraphExec exec = exec_new(g);
    CHECK(cuGraphLaunch(exec, s));
    EXPECT(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cuGraphLaunch(exec, s), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cuMemsetD32(x, 1, WORDS), CUDA_ERROR_ILLEGAL_ADDRESS);
}
#endif
