/*
 * graph_inside.c - graphs that are moved into another graph's node, and nodes that run on another
 * device than the one that the graph is launched on.
 */
#include <cuda.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(call) cr_assert_eq((call), CUDA_SUCCESS, "%s", #call)
#define FAILS(expected, call)                                                                      \
    do {                                                                                           \
        CUresult fails_rc = (call);                                                                \
        cr_assert_eq(fails_rc, (expected), "%s gave %d", #call, (int)fails_rc);                    \
    } while (0)

enum { WORDS = 256, COPY = 0, MOVE = 1 };

static struct gpu {
    CUcontext ctx;
    CUmodule module;
    CUfunction mix, spin;
    CUstream stream;
    CUdeviceptr x;
} one, two;

static void gpu_make(struct gpu *g, CUdevice device)
{
    OK(cuDevicePrimaryCtxRetain(&g->ctx, device));
    OK(cuCtxSetCurrent(g->ctx));
    OK(cuModuleLoad(&g->module, SOURCE_DIR "/examples/kernels.ptx"));
    OK(cuModuleGetFunction(&g->mix, g->module, "mix"));
    OK(cuModuleGetFunction(&g->spin, g->module, "spin"));
    OK(cuStreamCreate(&g->stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&g->x, WORDS * 4));
    OK(cuMemsetD32(g->x, 1, WORDS));
    OK(cuCtxSynchronize());
}

static void gpus_open(void)
{
    char id[32];
    snprintf(id, sizeof(id), "inside-%d", (int)getpid());
    setenv("SIMGPU_ID", id, 1);
    setenv("SIMGPU_DEVICES", "2", 1);
    OK(cuInit(0));
    gpu_make(&two, 1);
    gpu_make(&one, 0);
}

static CUDA_KERNEL_NODE_PARAMS node_params(CUfunction f, void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = f,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = WORDS,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

static CUgraphNode mix_n_add(CUgraph graph, const CUgraphNode *after, const struct gpu *g,
                             uint32_t a, uint32_t b, uint32_t n)
{
    CUdeviceptr x = g->x;
    CUDA_KERNEL_NODE_PARAMS p = node_params(g->mix, (void *[]){&x, &a, &b, &n});
    CUgraphNode node;
    OK(cuGraphAddKernelNode(&node, graph, after, !!after, &p));
    return node;
}

static CUgraphNode mix_add(CUgraph graph, const CUgraphNode *after, const struct gpu *g, uint32_t a,
                           uint32_t b)
{
    return mix_n_add(graph, after, g, a, b, WORDS);
}

static CUresult mix_set(CUgraphExec exec, CUgraphNode node, const struct gpu *g, uint32_t a,
                        uint32_t b)
{
    CUdeviceptr x = g->x;
    uint32_t n = WORDS;
    CUDA_KERNEL_NODE_PARAMS p = node_params(g->mix, (void *[]){&x, &a, &b, &n});
    return cuGraphExecKernelNodeSetParams(exec, node, &p);
}

static uint32_t word_of(const struct gpu *g)
{
    uint32_t word;
    OK(cuCtxSetCurrent(g->ctx));
    OK(cuMemcpyDtoH(&word, g->x, 4));
    OK(cuCtxSetCurrent(one.ctx));
    return word;
}

static CUgraph graph_make(void)
{
    CUgraph g;
    OK(cuGraphCreate(&g, 0));
    return g;
}

static void run(CUgraphExec exec)
{
    OK(cuGraphLaunch(exec, one.stream));
    OK(cuStreamSynchronize(one.stream));
}

/* ---- moved graphs ---------------------------------------------------------------------------- */

TestSuite(graph_moved, .init = gpus_open);

#if CUDA_VERSION >= 12030
/* The ownership is the field behind the graph, though older headers have no name for it. */
static CUresult child_add(CUgraphNode *node, CUgraph graph, CUgraph child, int ownership)
{
    CUgraphNodeParams p;
    memset(&p, 0, sizeof(p));
    p.type = CU_GRAPH_NODE_TYPE_GRAPH;
    p.graph.graph = child;
    memcpy((char *)&p.graph + sizeof(CUgraph), &ownership, sizeof(ownership));
    return cuGraphAddNode_v2(node, graph, NULL, NULL, 0, &p);
}

Test(graph_moved, node_handles_still_set_exec_parameters)
{
    CUgraph outer = graph_make(), child = graph_make(), inside;
    CUgraphNode first = mix_add(child, NULL, &one, 3, 0), node;
    mix_add(child, &first, &one, 1, 1);
    OK(child_add(&node, outer, child, MOVE));
    OK(cuGraphChildGraphNodeGetGraph(node, &inside));
    cr_assert_eq(inside, child);
    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, outer, 0));
    run(exec);
    cr_assert_eq(word_of(&one), 4);
    OK(mix_set(exec, first, &one, 5, 2));
    run(exec);
    cr_assert_eq(word_of(&one), 23);
    OK(cuGraphDestroy(outer));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(child));
}

/* In a copy the handles of the original's nodes name nothing. */
Test(graph_moved, copied_graph_has_new_node_handles)
{
    CUgraph outer = graph_make(), child = graph_make();
    CUgraphNode inner = mix_add(child, NULL, &one, 3, 0), node;
    CUgraphExec exec;
    OK(child_add(&node, outer, child, COPY));
    OK(cuGraphInstantiate(&exec, outer, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, mix_set(exec, inner, &one, 5, 2));
    OK(cuGraphDestroy(child));
    OK(cuGraphDestroy(outer));
}

/* What cuda.h says about CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE. */
Test(graph_moved, graph_cannot_be_destroyed_or_used_elsewhere)
{
    CUgraph outer = graph_make(), other = graph_make(), child = graph_make();
    CUgraphNode node, again;
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    mix_add(child, NULL, &one, 3, 0);
    OK(cuGraphInstantiate(&exec, child, 0));
    OK(child_add(&node, outer, child, MOVE));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(child));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphExecUpdate(exec, child, &info));
    FAILS(CUDA_ERROR_INVALID_VALUE, child_add(&again, other, child, MOVE));
    FAILS(CUDA_ERROR_INVALID_VALUE, child_add(&again, other, child, COPY));
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = 4096};
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemAllocNode(&again, child, NULL, 0, &alloc));
    CUgraphExec refused;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&refused, child, 0));
    mix_add(child, NULL, &one, 1, 0); /* nodes of other kinds may be added */
    OK(cuGraphDestroy(outer));
    OK(cuGraphDestroy(other));
}

Test(graph_moved, graph_cannot_be_moved_into_itself)
{
    CUgraph outer = graph_make(), inner = graph_make();
    CUgraphNode node;
    FAILS(CUDA_ERROR_INVALID_VALUE, child_add(&node, outer, outer, MOVE));
    OK(child_add(&node, outer, inner, MOVE));
    FAILS(CUDA_ERROR_INVALID_VALUE, child_add(&node, inner, outer, MOVE));
    FAILS(CUDA_ERROR_INVALID_VALUE, child_add(&node, inner, graph_make(), 7));
}

/* A graph that allocates can be moved but not copied. */
Test(graph_moved, graph_with_allocations_moves_but_cannot_be_copied)
{
    CUgraph outer = graph_make(), child = graph_make(), copy;
    CUgraphNode node, alloc_node, free_node;
    CUgraphExec exec;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = 4096};
    OK(cuGraphAddMemAllocNode(&alloc_node, child, NULL, 0, &alloc));
    OK(cuGraphAddMemFreeNode(&free_node, child, &alloc_node, 1, alloc.dptr));
    FAILS(CUDA_ERROR_INVALID_VALUE, child_add(&node, outer, child, COPY));
    OK(child_add(&node, outer, child, MOVE));
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&copy, outer));
    OK(cuGraphInstantiate(&exec, outer, 0));
    run(exec);
    OK(cuGraphDestroy(outer));
}

Test(graph_moved, clone_of_outer_graph_has_its_own_nodes)
{
    CUgraph outer = graph_make(), child = graph_make(), clone, inside;
    CUgraphNode first = mix_add(child, NULL, &one, 3, 0), node, in_clone, inner;
    CUgraphExec exec;
    OK(child_add(&node, outer, child, MOVE));
    OK(cuGraphClone(&clone, outer));
    OK(cuGraphNodeFindInClone(&in_clone, node, clone));
    OK(cuGraphChildGraphNodeGetGraph(in_clone, &inside));
    OK(cuGraphNodeFindInClone(&inner, first, inside));
    OK(cuGraphInstantiate(&exec, clone, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, mix_set(exec, first, &one, 5, 0));
    OK(mix_set(exec, inner, &one, 5, 0));
    run(exec);
    cr_assert_eq(word_of(&one), 5);
}
#endif

/* ---- other devices --------------------------------------------------------------------------- */

TestSuite(graph_devices, .init = gpus_open);

Test(graph_devices, node_runs_on_the_device_of_its_function)
{
    CUgraph g = graph_make();
    CUgraphExec exec;
    CUgraphNode here = mix_add(g, NULL, &one, 3, 0), there = mix_add(g, &here, &two, 5, 1);
    mix_add(g, &there, &one, 1, 4);
    OK(cuGraphInstantiate(&exec, g, 0));
    run(exec); /* devices are no peers: a kernel on the wrong one would have failed its context */
    cr_assert_eq(word_of(&one), 7);
    cr_assert_eq(word_of(&two), 6);
    OK(mix_set(exec, there, &two, 2, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, mix_set(exec, there, &one, 2, 0));
    run(exec);
    cr_assert_eq(word_of(&two), 12);
}

Test(graph_devices, node_context_counts_only_without_a_function)
{
    uint32_t a = 3, b = 0, n = WORDS;
    CUDA_KERNEL_NODE_PARAMS p = node_params(two.mix, (void *[]){&two.x, &a, &b, &n}), back;
    CUgraph g = graph_make();
    CUgraphNode node;
    CUgraphExec exec;
    p.ctx = one.ctx;
    OK(cuGraphAddKernelNode(&node, g, NULL, 0, &p));
    OK(cuGraphKernelNodeGetParams(node, &back));
    cr_assert_eq(back.ctx, two.ctx);
    OK(cuGraphInstantiate(&exec, g, 0));
    run(exec);
    cr_assert_eq(word_of(&two), 3);
    CUlibrary library;
    OK(cuLibraryLoadFromFile(&library, SOURCE_DIR "/examples/kernels.ptx", NULL, NULL, 0, NULL,
                             NULL, 0));
    p.func = NULL;
    p.ctx = two.ctx;
    OK(cuLibraryGetKernel(&p.kern, library, "mix"));
    g = graph_make();
    OK(cuGraphAddKernelNode(&node, g, NULL, 0, &p));
    OK(cuGraphKernelNodeGetParams(node, &back));
    cr_assert_eq(back.ctx, two.ctx);
    OK(cuGraphInstantiate(&exec, g, 0));
    run(exec);
    cr_assert_eq(word_of(&two), 9);
}

/* A stream of the second device joins the capture. */
Test(graph_devices, capture_spans_two_devices)
{
    CUgraph g;
    CUgraphExec exec;
    CUevent fork, join;
    uint32_t a = 3, b = 1, n = WORDS;
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(one.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(fork, one.stream));
    OK(cuCtxSetCurrent(two.ctx));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamWaitEvent(two.stream, fork, 0));
    OK(cuLaunchKernel(two.mix, 1, 1, 1, WORDS, 1, 1, 0, two.stream, (void *[]){&two.x, &a, &b, &n},
                      NULL));
    OK(cuEventRecord(join, two.stream));
    OK(cuCtxSetCurrent(one.ctx));
    OK(cuStreamWaitEvent(one.stream, join, 0));
    OK(cuStreamEndCapture(one.stream, &g));
    OK(cuGraphInstantiate(&exec, g, 0));
    for (int i = 0; i < 3; i++)
        run(exec);
    cr_assert_eq(word_of(&two), 40);
}

/* More branches than an executable graph has streams. */
Test(graph_devices, more_branches_than_lanes_run_on_both_devices)
{
    enum { BRANCHES = 40, LONG = 12 };
    CUgraph g = graph_make();
    CUgraphExec exec;
    CUgraphNode last[BRANCHES];
    uint32_t expected[BRANCHES], word;
    for (uint32_t i = 0; i < BRANCHES; i++) {
        struct gpu at = i % 2 ? two : one;
        at.x += 4 * i; /* each branch has a word of its own */
        expected[i] = 1;
        for (uint32_t k = 0; k < LONG; k++) {
            last[i] = mix_n_add(g, k ? &last[i] : NULL, &at, 3, i + k, 1);
            expected[i] = expected[i] * 3 + i + k;
        }
    }
    OK(cuGraphInstantiate(&exec, g, 0));
    run(exec);
    for (uint32_t i = 0; i < BRANCHES; i++) {
        struct gpu at = i % 2 ? two : one;
        at.x += 4 * i;
        word = word_of(&at);
        cr_assert_eq(word, expected[i], "branch %u: %u, not %u", i, word, expected[i]);
    }
}
