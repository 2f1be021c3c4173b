/*
 * graphs.c - graphs made by hand: structure, parameters, launches, updates.
 */
#include "rig.h"

#include <stdio.h>
#include <unistd.h>

TestSuite(graphs, .init = rig_open);

static void launch_and_wait(CUgraphExec x)
{
    OK(cuGraphLaunch(x, CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

/* In CUDA 13.0 the plain names of three calls got an argument for edge data. */
#if CUDA_VERSION >= 13000
#define ADD_EDGE(g, from, to)      cuGraphAddDependencies(g, from, to, NULL, 1)
#define REMOVE_EDGE(g, from, to)   cuGraphRemoveDependencies(g, from, to, NULL, 1)
#define DEPENDENCIES(node, out, n) cuGraphNodeGetDependencies(node, out, NULL, n)
#else
#define ADD_EDGE(g, from, to)      cuGraphAddDependencies(g, from, to, 1)
#define REMOVE_EDGE(g, from, to)   cuGraphRemoveDependencies(g, from, to, 1)
#define DEPENDENCIES(node, out, n) cuGraphNodeGetDependencies(node, out, n)
#endif

Test(graphs, nodes_run_in_order_of_edges)
{
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode last = mix_node(g, NULL, 0, p, 10, 5); /* made first, runs second */
    CUgraphNode first = mix_node(g, NULL, 0, p, 2, 1);
    OK(ADD_EDGE(g, &first, &last));
    launch_and_wait(exec_new(g));
    words_are(p, 35);
}

Test(graphs, node_runs_after_all_its_dependencies)
{
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1), q = words_new(2);
    CUgraphNode top, sides[2], copy, bottom;
    OK(cuGraphAddEmptyNode(&top, g, NULL, 0));
    sides[0] = mix_node(g, &top, 1, p, 3, 4);
    sides[1] = mix_node(g, &top, 1, q, 3, 4);
    CUDA_MEMCPY3D params = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                            .srcDevice = q,
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = p + BYTES / 2,
                            .WidthInBytes = BYTES / 2,
                            .Height = 1,
                            .Depth = 1};
    OK(cuGraphAddMemcpyNode(&copy, g, sides, 2, &params, rig.ctx));
    bottom = mix_node(g, &copy, 1, p, 2, 0);
    (void)bottom;
    launch_and_wait(exec_new(g));
    cr_assert_eq(word_of(p), 14);
    cr_assert_eq(word_of(p + BYTES / 2), 20);
}

Test(graphs, wide_graphs_run_every_node)
{
    enum { WIDE = 40 };
    CUgraph g = graph_new();
    CUgraphNode nodes[WIDE];
    CUdeviceptr p[WIDE];
    for (int i = 0; i < WIDE; i++) {
        p[i] = words_new(1);
        nodes[i] = mix_node(g, NULL, 0, p[i], 2, (uint32_t)i);
    }
    CUgraphNode join = mix_node(g, nodes, WIDE, p[0], 10, 0);
    (void)join;
    CUgraphExec x = exec_new(g);
    launch_and_wait(x);
    cr_assert_eq(word_of(p[0]), 20);
    for (int i = 1; i < WIDE; i++)
        cr_assert_eq(word_of(p[i]), 2u + (uint32_t)i);
}

Test(graphs, graph_launch_runs_in_stream_order)
{
    struct gate gate;
    CUstream s = stream_new();
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1), q = words_new(1);
    mix_node(g, NULL, 0, p, 2, 1);
    mix_node(g, NULL, 0, q, 2, 1);
    CUgraphExec x = exec_new(g);
    gate_queue(&gate, s);
    OK(launch_mix(s, p, 1, 1));
    OK(launch_mix(s, q, 1, 1));
    OK(cuGraphLaunch(x, s));
    OK(launch_mix(s, p, 10, 0));
    OK(launch_mix(s, q, 10, 0));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    words_are(p, 50);
    words_are(q, 50);
}

Test(graphs, launches_of_one_exec_do_not_overlap)
{
    struct gate gate;
    CUstream held = stream_new(), free_stream = stream_new();
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    mix_node(g, NULL, 0, p, 3, 1);
    CUgraphExec x = exec_new(g);
    gate_queue(&gate, held);
    OK(cuGraphLaunch(x, held));
    OK(cuGraphLaunch(x, free_stream));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(free_stream));
    gate_open(&gate);
    OK(cuStreamSynchronize(free_stream));
    words_are(p, 13);
}

struct look {
    const uint32_t *word;
    uint32_t seen;
    int times;
};

static void CUDA_CB look_at(void *arg)
{
    struct look *look = arg;
    look->seen = *look->word;
    look->times++;
}

/* Copies the words to the host. */
static CUDA_MEMCPY3D copy_out(uint32_t *out, CUdeviceptr p)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = p,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = out,
                           .WidthInBytes = BYTES,
                           .Height = 1,
                           .Depth = 1};
}

Test(graphs, memset_and_host_nodes_run_in_order)
{
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(0);
    CUgraphNode set, mix, copy, host;
    struct look look = {.word = pinned_new()};
    CUDA_MEMCPY3D out = copy_out((uint32_t *)(uintptr_t)look.word, p);
    CUDA_HOST_NODE_PARAMS calls = {.fn = look_at, .userData = &look}, told;
    CUDA_MEMSET_NODE_PARAMS params = {
        .dst = p, .value = 4, .elementSize = 4, .width = WORDS, .height = 1};
    OK(cuGraphAddMemsetNode(&set, g, NULL, 0, &params, rig.ctx));
    mix = mix_node(g, &set, 1, p, 2, 2);
    OK(cuGraphAddMemcpyNode(&copy, g, &mix, 1, &out, rig.ctx));
    OK(cuGraphAddHostNode(&host, g, &copy, 1, &calls));
    mix_node(g, &host, 1, p, 3, 0);
    CUgraphExec x = exec_new(g);
    for (int times = 1; times <= 2; times++) {
        launch_and_wait(x);
        cr_assert_eq(look.times, times);
        cr_assert_eq(look.seen, 10);
        words_are(p, 30);
    }
    OK(cuGraphHostNodeGetParams(host, &told));
    cr_assert_eq(told.fn, calls.fn);
    cr_assert_eq(told.userData, &look);
    CUDA_MEMSET_NODE_PARAMS got;
    OK(cuGraphMemsetNodeGetParams(set, &got));
    cr_assert_eq(got.dst, p);
    cr_assert_eq(got.value, 4);
    cr_assert_eq(got.width, WORDS);
}

Test(graphs, kernel_node_parameters_can_be_read_and_changed)
{
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode node = mix_node(g, NULL, 0, p, 3, 4);
    CUDA_KERNEL_NODE_PARAMS got;
    struct mix_args args;
    OK(cuGraphKernelNodeGetParams(node, &got));
    cr_assert_eq(got.func, rig.mix);
    cr_assert_eq(got.blockDimX, 256);
    cr_assert_eq(*(uint32_t *)got.kernelParams[1], 3);
    got = mix_params(&args, p, 5, 6);
    OK(cuGraphKernelNodeSetParams(node, &got));
    launch_and_wait(exec_new(g));
    words_are(p, 11);
}

Test(graphs, nodes_roots_and_dependencies_can_be_queried)
{
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode a = mix_node(g, NULL, 0, p, 1, 1), b = mix_node(g, &a, 1, p, 1, 1);
    CUgraphNode nodes[3] = {NULL}, roots[2] = {NULL};
    size_t n = 3, roots_n = 2, deps = 1;
    CUgraphNodeType type;
    OK(cuGraphGetNodes(g, nodes, &n));
    cr_assert_eq(n, 2);
    cr_assert_null(nodes[2]);
    OK(cuGraphGetRootNodes(g, roots, &roots_n));
    cr_assert_eq(roots_n, 1);
    cr_assert_eq(roots[0], a);
    OK(DEPENDENCIES(b, nodes, &deps));
    cr_assert_eq(deps, 1);
    cr_assert_eq(nodes[0], a);
    OK(cuGraphNodeGetType(b, &type));
    cr_assert_eq(type, CU_GRAPH_NODE_TYPE_KERNEL);
}

Test(graphs, cycles_and_duplicate_edges_are_refused)
{
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode a = mix_node(g, NULL, 0, p, 1, 1), b = mix_node(g, &a, 1, p, 1, 1);
    FAILS(CUDA_ERROR_INVALID_VALUE, ADD_EDGE(g, &a, &b));
    CUgraphExec x;
    CUresult rc = ADD_EDGE(g, &b, &a);
    cr_assert(rc != CUDA_SUCCESS || cuGraphInstantiate(&x, g, 0) != CUDA_SUCCESS);
}

Test(graphs, nodes_and_edges_can_be_removed)
{
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode a = mix_node(g, NULL, 0, p, 1, 1), b = mix_node(g, &a, 1, p, 7, 0);
    size_t n = 0;
    OK(REMOVE_EDGE(g, &a, &b));
    OK(DEPENDENCIES(b, NULL, &n));
    cr_assert_eq(n, 0);
    OK(cuGraphDestroyNode(a));
    OK(cuGraphGetNodes(g, NULL, &n));
    cr_assert_eq(n, 1);
    launch_and_wait(exec_new(g));
    words_are(p, 7);
}

Test(graphs, clone_is_independent_of_its_original)
{
    CUgraph g = graph_new(), clone;
    CUdeviceptr p = words_new(1);
    CUgraphNode a = mix_node(g, NULL, 0, p, 2, 1), found = NULL;
    CUgraphNode b = mix_node(g, &a, 1, p, 10, 5);
    struct mix_args args;
    CUDA_KERNEL_NODE_PARAMS params;
    size_t n[2] = {0};
    OK(cuGraphClone(&clone, g));
    OK(cuGraphNodeFindInClone(&found, a, clone));
    cr_assert_neq(found, a);
    mix_node(g, &b, 1, p, 1, 100);
    params = mix_params(&args, p, 6, 0);
    OK(cuGraphKernelNodeSetParams(a, &params));
    params = mix_params(&args, p, 4, 1);
    OK(cuGraphKernelNodeSetParams(found, &params));
    OK(cuGraphGetNodes(g, NULL, &n[0]));
    OK(cuGraphGetNodes(clone, NULL, &n[1]));
    cr_assert_eq(n[0], 3);
    cr_assert_eq(n[1], 2);
    launch_and_wait(exec_new(g));
    words_are(p, 165); /* (1 * 6) * 10 + 5 + 100 */
    OK(cuGraphDestroy(g));
    launch_and_wait(exec_new(clone));
    words_are(p, 6615); /* (165 * 4 + 1) * 10 + 5 */
}

Test(graphs, exec_outlives_its_graph)
{
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    mix_node(g, NULL, 0, p, 2, 1);
    CUgraphExec x = exec_new(g);
    OK(cuGraphDestroy(g));
    launch_and_wait(x);
    words_are(p, 3);
}

Test(graphs, exec_destroyed_while_pending_still_runs)
{
    struct gate gate;
    CUstream s = stream_new();
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1), q = words_new(1);
    mix_node(g, NULL, 0, p, 2, 1);
    mix_node(g, NULL, 0, q, 2, 1);
    CUgraphExec x = exec_new(g);
    gate_queue(&gate, s);
    OK(cuGraphLaunch(x, s));
    OK(cuGraphExecDestroy(x));
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    words_are(p, 3);
    words_are(q, 3);
}

Test(graphs, exec_kernel_parameters_can_be_changed)
{
    struct mix_args args;
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode node = mix_node(g, NULL, 0, p, 2, 1);
    CUgraphExec x = exec_new(g);
    CUDA_KERNEL_NODE_PARAMS params = mix_params(&args, p, 9, 9);
    OK(cuGraphExecKernelNodeSetParams(x, node, &params));
    launch_and_wait(x);
    words_are(p, 18);
}

Test(graphs, pending_launch_keeps_its_parameters)
{
    struct gate gate;
    struct mix_args args;
    CUstream s = stream_new();
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode node = mix_node(g, NULL, 0, p, 2, 1);
    CUgraphExec x = exec_new(g);
    CUDA_KERNEL_NODE_PARAMS params = mix_params(&args, p, 100, 0);
    gate_queue(&gate, s);
    OK(cuGraphLaunch(x, s));
    OK(cuGraphExecKernelNodeSetParams(x, node, &params));
    OK(cuGraphLaunch(x, s));
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    words_are(p, 300);
}

Test(graphs, exec_update_accepts_same_topology)
{
    CUgraph g = graph_new(), h = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode a = mix_node(g, NULL, 0, p, 2, 1), b = mix_node(h, NULL, 0, p, 5, 0);
    CUgraphExecUpdateResultInfo info;
    mix_node(g, &a, 1, p, 1, 1);
    mix_node(h, &b, 1, p, 5, 1);
    CUgraphExec x = exec_new(g);
    OK(cuGraphExecUpdate(x, h, &info));
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    launch_and_wait(x);
    words_are(p, 26);
}

Test(graphs, exec_update_refuses_changed_topology)
{
    CUgraph g = graph_new(), h = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphExecUpdateResultInfo info;
    CUgraphNode a = mix_node(g, NULL, 0, p, 2, 1);
    mix_node(g, &a, 1, p, 1, 1);
    mix_node(h, NULL, 0, p, 5, 0);
    mix_node(h, NULL, 0, p, 5, 0);
    CUgraphExec x = exec_new(g);
    FAILS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(x, h, &info));
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    launch_and_wait(x); /* it is unchanged */
    words_are(p, 4);
}

Test(graphs, disabled_nodes_do_nothing)
{
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode a = mix_node(g, NULL, 0, p, 2, 1);
    unsigned int on = 9;
    mix_node(g, &a, 1, p, 10, 5);
    CUgraphExec x = exec_new(g);
    OK(cuGraphNodeSetEnabled(x, a, 0));
    OK(cuGraphNodeGetEnabled(x, a, &on));
    cr_assert_eq(on, 0);
    launch_and_wait(x);
    words_are(p, 15);
    OK(cuGraphNodeSetEnabled(x, a, 1));
    launch_and_wait(x);
    words_are(p, 315);
}

Test(graphs, child_graph_runs_in_order_of_parents_edges)
{
    CUgraph inner = graph_new(), outer = graph_new(), seen = NULL;
    CUdeviceptr p = words_new(1);
    CUgraphNode a = mix_node(inner, NULL, 0, p, 2, 1), first, child;
    mix_node(inner, &a, 1, p, 3, 0);
    first = mix_node(outer, NULL, 0, p, 1, 4);
    OK(cuGraphAddChildGraphNode(&child, outer, &first, 1, inner));
    mix_node(outer, &child, 1, p, 10, 0);
    OK(cuGraphDestroy(inner));
    OK(cuGraphChildGraphNodeGetGraph(child, &seen));
    cr_assert_not_null(seen);
    launch_and_wait(exec_new(outer));
    words_are(p, 330);
}

Test(graphs, event_record_node_records_its_event)
{
    struct gate gate;
    CUstream s = stream_new();
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUevent e = event_new(), got = NULL;
    CUgraphNode a = mix_node(g, NULL, 0, p, 2, 1), record;
    OK(cuGraphAddEventRecordNode(&record, g, &a, 1, e));
    OK(cuGraphEventRecordNodeGetEvent(record, &got));
    cr_assert_eq(got, e);
    CUgraphExec x = exec_new(g);
    OK(cuEventQuery(e));
    gate_queue(&gate, s);
    OK(cuGraphLaunch(x, s));
    FAILS(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    gate_open(&gate);
    OK(cuEventSynchronize(e));
    OK(cuStreamSynchronize(s));
}

Test(graphs, event_wait_node_waits_for_its_event)
{
    struct gate gate;
    CUstream s = stream_new(), other = stream_new();
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUevent e = event_new();
    CUgraphNode wait;
    OK(cuGraphAddEventWaitNode(&wait, g, NULL, 0, e));
    mix_node(g, &wait, 1, p, 10, 5);
    CUgraphExec x = exec_new(g);
    gate_queue(&gate, other);
    OK(launch_mix(other, p, 2, 1));
    OK(cuEventRecord(e, other));
    OK(cuGraphLaunch(x, s));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    words_are(p, 35);
}

static void CUDA_CB count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

Test(graphs, user_object_is_destroyed_after_graph_and_exec)
{
    atomic_int destroyed = 0;
    CUgraph g = graph_new();
    CUuserObject object;
    CUdeviceptr p = words_new(1);
    mix_node(g, NULL, 0, p, 2, 1);
    OK(cuUserObjectCreate(&object, &destroyed, count_up, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuGraphRetainUserObject(g, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    CUgraphExec x = exec_new(g);
    OK(cuGraphDestroy(g));
    cr_assert_eq(atomic_load(&destroyed), 0);
    launch_and_wait(x);
    OK(cuGraphExecDestroy(x));
    UNTIL(atomic_load(&destroyed) == 1);
}

Test(graphs, unfreed_allocation_forbids_second_launch)
{
    CUgraph g = graph_new();
    CUgraphNode node;
    if (!rig_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        cr_skip_test("no memory pools");
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, rig.dev}},
        .bytesize = BYTES};
    OK(cuGraphAddMemAllocNode(&node, g, NULL, 0, &params));
    CUgraphExec x = exec_new(g);
    launch_and_wait(x);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(x, CU_STREAM_PER_THREAD));
    OK(cuMemFreeAsync(params.dptr, CU_STREAM_PER_THREAD));
    launch_and_wait(x);
    OK(cuMemFree(params.dptr));
}

/* What drawing a graph writes to a file; the caller frees it. */
static char *drawn(CUgraph g, unsigned int flags)
{
    char path[] = "/tmp/graph-XXXXXX", *text;
    size_t room = 1 << 16;
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    close(fd);
    OK(cuGraphDebugDotPrint(g, path, flags));
    FILE *f = fopen(path, "re");
    cr_assert(f && (text = calloc(1, room)));
    cr_assert_gt(fread(text, 1, room - 1, f), 0);
    fclose(f);
    unlink(path);
    return text;
}

/* "prints DOT files describing graph structure"; "Output all debug data as if every debug flag is
 * enabled" (cuda.h). */
Test(graphs, debug_dot_print_writes_the_edges)
{
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode first = mix_node(g, NULL, 0, p, 2, 1);

    mix_node(g, &first, 1, p, 3, 1);
    char *plain = drawn(g, 0), *verbose = drawn(g, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
    cr_expect(strncmp(plain, "digraph", 7) == 0, "%s", plain);
    cr_expect_not_null(strstr(plain, "->"), "no edge: %s", plain);
    cr_expect_gt(strlen(verbose), strlen(plain), "%s", verbose);
    free(plain);
    free(verbose);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphDebugDotPrint(NULL, "/tmp/graph-of-none", 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphDebugDotPrint(g, NULL, 0));
}

#if CUDA_VERSION >= 12020
/* Adds a node after `node`, if that is one, and makes it the new one. */
static void add(CUgraph g, CUgraphNode *node, CUgraphNodeType type, CUgraphNodeParams params)
{
    CUgraphNode after = *node;
    CUgraphNodeType is;
    params.type = type;
#if CUDA_VERSION >= 13000
    OK(cuGraphAddNode(node, g, &after, NULL, !!after, &params));
#else
    OK(cuGraphAddNode(node, g, &after, !!after, &params));
#endif
    OK(cuGraphNodeGetType(*node, &is));
    cr_assert_eq(is, type);
}

Test(graphs, generic_add_node_adds_a_node_of_any_type)
{
    struct mix_args args;
    struct look look = {.word = pinned_new()};
    CUgraph g = graph_new(), inner = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode node = NULL;
    CUgraphNodeParams params;
    CUDA_KERNEL_NODE_PARAMS mix = mix_params(&args, p, 2, 1);
    int version = 0;
    OK(cuDriverGetVersion(&version));
    if (version < 12020)
        cr_skip_test("came with CUDA 12.2");
    memset(&params, 0, sizeof(params));
    params.memset.dst = p;
    params.memset.value = 4;
    params.memset.elementSize = 4;
    params.memset.width = WORDS;
    params.memset.height = 1;
    params.memset.ctx = rig.ctx;
    add(g, &node, CU_GRAPH_NODE_TYPE_MEMSET, params);
    memset(&params, 0, sizeof(params));
    params.kernel.func = mix.func;
    params.kernel.gridDimX = mix.gridDimX;
    params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = 256;
    params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = mix.kernelParams;
    add(g, &node, CU_GRAPH_NODE_TYPE_KERNEL, params);
    memset(&params, 0, sizeof(params));
    add(g, &node, CU_GRAPH_NODE_TYPE_EMPTY, params);
    params.memcpy.copyCtx = rig.ctx;
    params.memcpy.copyParams = copy_out((uint32_t *)(uintptr_t)look.word, p);
    add(g, &node, CU_GRAPH_NODE_TYPE_MEMCPY, params);
    memset(&params, 0, sizeof(params));
    params.host.fn = look_at;
    params.host.userData = &look;
    add(g, &node, CU_GRAPH_NODE_TYPE_HOST, params);
    mix_node(inner, NULL, 0, p, 10, 5);
    memset(&params, 0, sizeof(params));
    params.graph.graph = inner;
    add(g, &node, CU_GRAPH_NODE_TYPE_GRAPH, params);
    launch_and_wait(exec_new(g));
    cr_assert_eq(look.times, 1);
    cr_assert_eq(look.seen, 9);
    words_are(p, 95);
}
#endif

Test(graphs, null_graph_is_refused)
{
    CUgraph g = graph_new();
    CUgraphExec x = exec_new(g);
    size_t n = 0;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphGetNodes(NULL, NULL, &n));
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
}

typedef CUresult graph_id(CUgraph, unsigned int *);
typedef CUresult exec_id(CUgraphExec, unsigned int *);
typedef CUresult node_id(CUgraphNode, unsigned int *);
typedef CUresult node_tools_id(CUgraphNode, unsigned long long *);
typedef CUresult node_graph(CUgraphNode, CUgraph *);

/* cuda.h 13.1: "The local nodeId and graphId together can uniquely identify the node", "If hNode is
 * in a child graph, the child graph it is in is returned"; CUDA_ERROR_INVALID_VALUE. */
Test(newest, graphs_and_nodes_have_distinct_ids, .init = rig_open_newest)
{
    graph_id *id_of = (graph_id *)rig_function("cuGraphGetId", 13010);
    exec_id *id_of_exec = (exec_id *)rig_function("cuGraphExecGetId", 13010);
    node_id *local_id_of = (node_id *)rig_function("cuGraphNodeGetLocalId", 13010);
    node_tools_id *tools_id_of = (node_tools_id *)rig_function("cuGraphNodeGetToolsId", 13010);
    node_graph *graph_of = (node_graph *)rig_function("cuGraphNodeGetContainingGraph", 13010);
    CUgraph g = graph_new(), other = graph_new(), inner, home;
    CUgraphNode a, b, child, inside;
    CUgraphExec x;
    unsigned int ids[5];
    unsigned long long tools[2];
    size_t n = 1;
    OK(cuGraphAddEmptyNode(&a, g, NULL, 0));
    OK(cuGraphAddEmptyNode(&b, g, NULL, 0));
    OK(cuGraphAddEmptyNode(&inside, other, NULL, 0));
    OK(cuGraphAddChildGraphNode(&child, g, NULL, 0, other));
    OK(cuGraphChildGraphNodeGetGraph(child, &inner));
    OK(cuGraphGetNodes(inner, &inside, &n));
    OK(cuGraphInstantiate(&x, g, 0));
    OK(id_of(g, &ids[0]));
    OK(id_of(other, &ids[1]));
    OK(id_of_exec(x, &ids[2]));
    cr_assert_neq(ids[0], ids[1]);
    cr_assert_neq(ids[0], ids[2]);
    OK(local_id_of(a, &ids[3]));
    OK(local_id_of(b, &ids[4]));
    cr_assert_neq(ids[3], ids[4]);
    OK(tools_id_of(a, &tools[0]));
    OK(tools_id_of(b, &tools[1]));
    cr_assert_neq(tools[0], tools[1]);
    OK(graph_of(a, &home));
    cr_assert_eq(home, g);
    OK(graph_of(inside, &home));
    cr_assert_eq(home, inner);
    FAILS(CUDA_ERROR_INVALID_VALUE, id_of(NULL, ids));
    FAILS(CUDA_ERROR_INVALID_VALUE, id_of(g, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, local_id_of(a, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, graph_of(NULL, &home));
}
