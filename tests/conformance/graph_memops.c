/*
 * graph_memops.c - nodes that wait for a value in memory, and what can be done to a clone. Gates in
 * graphs need both (shim/graph/graph_copy.c).
 */
#include "rig.h"

static _Atomic uint32_t *word; /* [0], [1]: waited for; [2]: written */
static CUdeviceptr address;

static void open_words(void)
{
    rig_open_words(&word, &address);
}

TestSuite(graph_memops, .init = open_words);

#if CUDA_VERSION >= 13000
#define ADD_EDGE(g, from, to)    cuGraphAddDependencies(g, from, to, NULL, 1)
#define REMOVE_EDGE(g, from, to) cuGraphRemoveDependencies(g, from, to, NULL, 1)
#else
#define ADD_EDGE(g, from, to)    cuGraphAddDependencies(g, from, to, 1)
#define REMOVE_EDGE(g, from, to) cuGraphRemoveDependencies(g, from, to, 1)
#endif

static CUstreamBatchMemOpParams wait_op(int which)
{
    return (CUstreamBatchMemOpParams){.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                                    .address = address + 4 * (unsigned)which,
                                                    .value = 0,
                                                    .flags = CU_STREAM_WAIT_VALUE_EQ}};
}

static CUgraphNode op_node(CUgraph g, const CUgraphNode *after, CUstreamBatchMemOpParams op)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = {.ctx = rig.ctx, .count = 1, .paramArray = &op};
    CUgraphNode node;
    OK(cuGraphAddBatchMemOpNode(&node, g, after, !!after, &p));
    return node;
}

/* Writes 1 to word[2]. */
static CUgraphNode write_node(CUgraph g, const CUgraphNode *after)
{
    return op_node(
        g, after,
        (CUstreamBatchMemOpParams){.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                                                  .address = address + 8,
                                                  .value = 1}});
}

static CUgraphNode mix_after(CUgraph g, const CUgraphNode *after, CUdeviceptr p, uint32_t a,
                             uint32_t b)
{
    return mix_node(g, after, !!after, p, a, b);
}

/* The stream has passed the write and waits. */
static void stands(CUstream s)
{
    UNTIL(atomic_load(&word[2]) != 0);
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
}

Test(graph_memops, wait_node_blocks_graph_until_word_is_zero)
{
    CUstream s = stream_new();
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode first = mix_after(g, NULL, p, 2, 1), written = write_node(g, &first),
                wait = op_node(g, &written, wait_op(0));
    mix_after(g, &wait, p, 10, 5);
    CUgraphExec x = exec_new(g);
    atomic_store(&word[0], 1);
    OK(cuGraphLaunch(x, s));
    stands(s);
    atomic_store(&word[0], 0);
    OK(cuStreamSynchronize(s));
    words_are(p, 35);
    OK(cuGraphLaunch(x, s)); /* the word is 0 already */
    OK(cuStreamSynchronize(s));
    words_are(p, 715);
}

Test(graph_memops, exec_wait_node_can_be_moved_to_another_word)
{
    CUstream s = stream_new();
    CUgraph g = graph_new();
    CUdeviceptr p = words_new(1);
    CUgraphNode written = write_node(g, NULL), wait = op_node(g, &written, wait_op(0));
    mix_after(g, &wait, p, 10, 5);
    CUgraphExec x = exec_new(g);
    CUstreamBatchMemOpParams other = wait_op(1);
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {.ctx = rig.ctx, .count = 1, .paramArray = &other};
    atomic_store(&word[0], 1);
    OK(cuGraphLaunch(x, s));
    stands(s);
    OK(cuGraphExecBatchMemOpNodeSetParams(x, wait, &params));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s)); /* this launch came before */
    atomic_store(&word[0], 0);
    OK(cuStreamSynchronize(s));
    atomic_store(&word[0], 1);
    OK(cuGraphLaunch(x, s));
    OK(cuStreamSynchronize(s));
    words_are(p, 155);
    atomic_store(&word[1], 1);
    atomic_store(&word[2], 0);
    OK(cuGraphLaunch(x, s));
    stands(s);
    atomic_store(&word[1], 0);
    OK(cuStreamSynchronize(s));
    words_are(p, 1555);
}

Test(graph_memops, node_can_be_inserted_between_nodes_of_a_clone)
{
    CUgraph g = graph_new(), clone;
    CUdeviceptr p = words_new(1);
    CUgraphNode a = mix_after(g, NULL, p, 2, 1), b = mix_after(g, &a, p, 10, 5), own[2], gate;
    size_t count = 0;
    OK(cuGraphClone(&clone, g));
    OK(cuGraphNodeFindInClone(&own[0], a, clone));
    OK(cuGraphNodeFindInClone(&own[1], b, clone));
    gate = op_node(clone, &own[0], wait_op(0));
    OK(REMOVE_EDGE(clone, &own[0], &own[1]));
    OK(ADD_EDGE(clone, &gate, &own[1]));
    OK(cuGraphGetNodes(clone, NULL, &count));
    cr_expect_eq(count, 3);
    OK(cuGraphGetNodes(g, NULL, &count));
    cr_expect_eq(count, 2);
    OK(cuGraphLaunch(exec_new(clone), CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    words_are(p, 35);
}

/* The graph inside a child graph node of a clone is a clone of the graph inside the original's. */
Test(graph_memops, nodes_of_child_graphs_are_found_in_clones)
{
    CUgraph g = graph_new(), inside = graph_new(), clone, own_inside;
    CUdeviceptr p = words_new(1);
    CUgraphNode child, own_child, node, own, gate;
    size_t one = 1;
    mix_after(inside, NULL, p, 2, 1);
    OK(cuGraphAddChildGraphNode(&child, g, NULL, 0, inside));
    OK(cuGraphDestroy(inside));
    OK(cuGraphChildGraphNodeGetGraph(child, &inside));
    OK(cuGraphGetNodes(inside, &node, &one));
    OK(cuGraphClone(&clone, g));
    OK(cuGraphNodeFindInClone(&own_child, child, clone));
    OK(cuGraphChildGraphNodeGetGraph(own_child, &own_inside));
    cr_assert_neq(own_inside, inside);
    OK(cuGraphNodeFindInClone(&own, node, own_inside));
    gate = op_node(own_inside, NULL, wait_op(0));
    OK(ADD_EDGE(own_inside, &gate, &own));
    OK(cuGraphLaunch(exec_new(clone), CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    words_are(p, 3);
}

Test(graph_memops, exec_update_moves_waits_and_keeps_node_handles)
{
    CUdeviceptr p = words_new(1);
    CUgraph g[2];
    CUgraphNode last[2];
    for (int i = 0; i < 2; i++) {
        g[i] = graph_new();
        CUgraphNode first = mix_after(g[i], NULL, p, 2 + (uint32_t)i, 1),
                    wait = op_node(g[i], &first, wait_op(i));
        last[i] = mix_after(g[i], &wait, p, 10, 5);
    }
    CUgraphExec x = exec_new(g[0]);
    CUgraphExecUpdateResultInfo info;
    struct mix_args args;
    CUDA_KERNEL_NODE_PARAMS params = mix_params(&args, p, 100, 7);
    atomic_store(&word[0], 1); /* the updated graph does not wait for it */
    OK(cuGraphExecUpdate(x, g[1], &info));
    OK(cuGraphDestroy(g[1]));
    OK(cuGraphExecKernelNodeSetParams(x, last[0], &params));
    OK(cuGraphLaunch(x, CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    words_are(p, 407); /* (1 * 3 + 1) * 100 + 7 */
}
