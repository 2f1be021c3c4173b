/*
 * run_graph.c - runs ops about graphs.
 */
#include "machine.h"

static CUresult capture_step(const struct graph_op *g, CUstream s)
{
    uint64_t dst = address(g->dst), src = address(g->src);
    uint32_t a = g->a, b = g->b, n = WORDS;
    switch (g->kind) {
    case OP_MIX:
        return cuLaunchKernel(m.f.mix, 1, 1, 1, WORDS, 1, 1, 0, s, (void *[]){&dst, &a, &b, &n},
                              NULL);
    case OP_FILL:
        return cuLaunchKernel(m.f.fill, 1, 1, 1, WORDS, 1, 1, 0, s, (void *[]){&dst, &a, &n}, NULL);
    case OP_COPY_KERNEL:
        return cuLaunchKernel(m.f.copy, 1, 1, 1, WORDS, 1, 1, 0, s, (void *[]){&dst, &src, &n},
                              NULL);
    case OP_MEMSET32:
        return cuMemsetD32Async(dst, a, WORDS, s);
    case OP_D2D:
        return cuMemcpyDtoDAsync_v2(dst, src, BYTES, s);
    default:
        return cuLaunchHostFunc(s, host_function, host_call_new(host_address(g->dst), a, b));
    }
}

static void forget(int exec)
{
    if (m.exec[exec])
        cuGraphExecDestroy(m.exec[exec]);
    if (m.graph[exec])
        cuGraphDestroy(m.graph[exec]);
    m.exec[exec] = NULL;
    m.graph[exec] = NULL;
}

/* Which of two ways to take. Older programs have only one. */
static bool other_way(const struct op *o, uint8_t bit)
{
    return m.p->forms >= FORMS_GRAPHS && (o->variant & bit);
}

static CUresult instantiate(const struct op *o)
{
    CUgraphExec *exec = &m.exec[o->exec];
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = 0};
    if (other_way(o, 32))
        return CALL(cuGraphInstantiateWithParams, o, exec, m.graph[o->exec], &params);
    return cuGraphInstantiateWithFlags(exec, m.graph[o->exec], 0);
}

static CUresult capture(const struct op *o)
{
    CUstream s = o->stream < CREATED ? CU_STREAM_PER_THREAD : m.stream[o->stream];
    CUstream side = m.side[o->thread];
    CUevent event = m.fork_event[o->thread];
    CUgraph *graph = &m.graph[o->exec];
    forget(o->exec);
    CUresult r = cuStreamBeginCapture_v2(s, o->variant & 8 ? CU_STREAM_CAPTURE_MODE_RELAXED
                                                           : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    for (int i = 0; !r && i < o->graph_count; i++) {
        if (!o->graph[i].fork) {
            r = capture_step(&o->graph[i], s);
            continue;
        }
        r = cuEventRecord(event, s);
        r = r ? r : cuStreamWaitEvent(side, event, 0);
        r = r ? r : capture_step(&o->graph[i], side);
        r = r ? r : cuEventRecord(event, side);
        r = r ? r : cuStreamWaitEvent(s, event, 0);
    }
    CUresult end = cuStreamEndCapture(s, graph);
    r = r ? r : end;
    return r ? r : instantiate(o);
}

/* ---- graphs made node by node -------------------------------------------------------------- */

static CUDA_KERNEL_NODE_PARAMS_v2 kernel_node(CUfunction f, void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS_v2){.func = f,
                                        .gridDimX = 1,
                                        .gridDimY = 1,
                                        .gridDimZ = 1,
                                        .blockDimX = WORDS,
                                        .blockDimY = 1,
                                        .blockDimZ = 1,
                                        .kernelParams = params};
}

static CUDA_MEMSET_NODE_PARAMS memset_node(const struct graph_op *g)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = address(g->dst), .elementSize = 4, .value = g->a, .width = WORDS, .height = 1};
}

static CUDA_MEMCPY3D copy_node(const struct graph_op *g)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = address(g->src),
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = address(g->dst),
                           .WidthInBytes = BYTES,
                           .Height = 1,
                           .Depth = 1};
}

static CUDA_HOST_NODE_PARAMS host_node(const struct graph_op *g)
{
    return (CUDA_HOST_NODE_PARAMS){.fn = host_function,
                                   .userData = host_call_new(host_address(g->dst), g->a, g->b)};
}

/* Adds the node to `graph`. If that is NULL, gives `node` of `exec` these parameters. */
static CUresult node_apply(const struct graph_op *g, CUgraph graph, CUgraphExec exec,
                           CUgraphNode *node, const CUgraphNode *after, size_t count)
{
    uint64_t dst = g->kind == OP_HOST_FUNC ? 0 : address(g->dst), src = address(g->src);
    uint32_t a = g->a, b = g->b, n = WORDS;
    switch (g->kind) {
    case OP_MIX:
    case OP_COPY_KERNEL: {
        bool mix = g->kind == OP_MIX;
        CUDA_KERNEL_NODE_PARAMS_v2 p =
            kernel_node(mix ? m.f.mix : m.f.copy,
                        mix ? (void *[]){&dst, &a, &b, &n} : (void *[]){&dst, &src, &n, NULL});
        return graph ? cuGraphAddKernelNode_v2(node, graph, after, count, &p)
                     : cuGraphExecKernelNodeSetParams_v2(exec, *node, &p);
    }
    case OP_MEMSET32: {
        CUDA_MEMSET_NODE_PARAMS p = memset_node(g);
        return graph ? cuGraphAddMemsetNode(node, graph, after, count, &p, m.ctx)
                     : cuGraphExecMemsetNodeSetParams(exec, *node, &p, m.ctx);
    }
    case OP_D2D: {
        CUDA_MEMCPY3D p = copy_node(g);
        return graph ? cuGraphAddMemcpyNode(node, graph, after, count, &p, m.ctx)
                     : cuGraphExecMemcpyNodeSetParams(exec, *node, &p, m.ctx);
    }
    case OP_HOST_FUNC: {
        CUDA_HOST_NODE_PARAMS p = host_node(g);
        return graph ? cuGraphAddHostNode(node, graph, after, count, &p)
                     : cuGraphExecHostNodeSetParams(exec, *node, &p);
    }
    case OP_RECORD:
        return graph ? cuGraphAddEventRecordNode(node, graph, after, count, m.event[g->event])
                     : cuGraphExecEventRecordNodeSetEvent(exec, *node, m.event[g->event]);
    default:
        return graph ? cuGraphAddEventWaitNode(node, graph, after, count, m.event[g->event])
                     : cuGraphExecEventWaitNodeSetEvent(exec, *node, m.event[g->event]);
    }
}

/* Puts the node alone into a graph of its own, which becomes the child. */
static CUresult child_apply(const struct graph_op *g, CUgraph graph, CUgraphExec exec,
                            CUgraphNode *node, const CUgraphNode *after, size_t count)
{
    CUgraph child;
    CUgraphNode inner;
    CUresult r = cuGraphCreate(&child, 0);
    if (r)
        return r;
    r = node_apply(g, child, NULL, &inner, NULL, 0);
    if (!r)
        r = graph ? cuGraphAddChildGraphNode(node, graph, after, count, child)
                  : cuGraphExecChildGraphNodeSetParams(exec, *node, child);
    cuGraphDestroy(child);
    return r;
}

static CUresult graph_make(const struct op *o, CUgraph *graph, CUgraphNode *nodes)
{
    CUresult r = cuGraphCreate(graph, 0);
    for (int i = 0; i < o->graph_count && !r; i++) {
        const struct graph_op *g = &o->graph[i];
        r = (g->fork ? child_apply : node_apply)(g, *graph, NULL, &nodes[i],
                                                 i ? &nodes[i - 1] : NULL, i ? 1 : 0);
    }
    return r;
}

/* Replaces the graph by its clone. */
static CUresult clone_take(int exec, int count)
{
    CUgraph copy;
    CUresult r = cuGraphClone(&copy, m.graph[exec]);
    if (r)
        return r;
    for (int i = 0; i < count && !r; i++)
        r = cuGraphNodeFindInClone(&m.node[exec][i], m.node[exec][i], copy);
    cuGraphDestroy(m.graph[exec]);
    m.graph[exec] = copy;
    return r;
}

static CUresult build(const struct op *o)
{
    forget(o->exec);
    CUresult r = graph_make(o, &m.graph[o->exec], m.node[o->exec]);
    if (!r && other_way(o, 64))
        r = clone_take(o->exec, o->graph_count);
    return r ? r : instantiate(o);
}

/* ---- changing what runs -------------------------------------------------------------------- */

static CUresult update_first(const struct op *o)
{
    CUgraphNode root;
    size_t count = 1;
    uint64_t dst = address(o->dst);
    uint32_t a = o->a, b = o->b, n = WORDS;
    CUresult r = cuGraphGetRootNodes(m.graph[o->exec], &root, &count);
    if (r)
        return r;
    CUDA_KERNEL_NODE_PARAMS_v2 params = kernel_node(m.f.mix, (void *[]){&dst, &a, &b, &n});
    return cuGraphExecKernelNodeSetParams_v2(m.exec[o->exec], root, &params);
}

#if CUDA_VERSION >= 12020
/* By the one call that serves nodes of all types. */
static CUresult set_any(CUgraphExec exec, CUgraphNode node, const struct graph_op *g)
{
    uint64_t dst = address(g->dst);
    uint32_t a = g->a, b = g->b, n = WORDS;
    void *params[] = {&dst, &a, &b, &n};
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    if (g->kind == OP_MEMSET32) {
        p.type = CU_GRAPH_NODE_TYPE_MEMSET;
        p.memset = (CUDA_MEMSET_NODE_PARAMS_v2){
            .dst = dst, .elementSize = 4, .value = a, .width = WORDS, .height = 1, .ctx = m.ctx};
    } else {
        p.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.func = m.f.mix,
                                                .gridDimX = 1,
                                                .gridDimY = 1,
                                                .gridDimZ = 1,
                                                .blockDimX = WORDS,
                                                .blockDimY = 1,
                                                .blockDimZ = 1,
                                                .kernelParams = params};
    }
    return cuGraphExecNodeSetParams(exec, node, &p);
}
#endif

static CUresult set_node(const struct op *o)
{
    const struct graph_op *g = &o->graph[0];
#if CUDA_VERSION >= 12020
    if (other_way(o, 32) && !g->fork && (g->kind == OP_MIX || g->kind == OP_MEMSET32))
        return set_any(m.exec[o->exec], m.node[o->exec][o->flag], g);
#endif
    return (g->fork ? child_apply : node_apply)(g, NULL, m.exec[o->exec], &m.node[o->exec][o->flag],
                                                NULL, 0);
}

static CUresult replace(const struct op *o)
{
    CUgraph graph = NULL;
    CUgraphNode nodes[GRAPH_OPS];
    CUgraphExecUpdateResultInfo info;
    CUresult r = graph_make(o, &graph, nodes);
    r = r ? r : cuGraphExecUpdate_v2(m.exec[o->exec], graph, &info);
    if (graph)
        cuGraphDestroy(graph);
    return r;
}

static CUresult launch(const struct op *o)
{
    CUresult r = CUDA_SUCCESS;
    if (other_way(o, 32))
        r = CALL(cuGraphUpload, o, m.exec[o->exec], handle(o));
    return r ? r : CALL(cuGraphLaunch, o, m.exec[o->exec], handle(o));
}

static CUresult destroy(const struct op *o)
{
    CUresult r = cuGraphExecDestroy(m.exec[o->exec]);
    m.exec[o->exec] = NULL;
    return r;
}

CUresult run_graph(const struct op *o, uint32_t index)
{
    (void)index;
    switch (o->kind) {
    case OP_CAPTURE:
        return capture(o);
    case OP_GRAPH_BUILD:
        return build(o);
    case OP_GRAPH_LAUNCH:
        return launch(o);
    case OP_GRAPH_ENABLE:
        return cuGraphNodeSetEnabled(m.exec[o->exec], m.node[o->exec][o->flag], o->a);
    case OP_GRAPH_UPDATE:
        return update_first(o);
    case OP_GRAPH_SET:
        return set_node(o);
    case OP_GRAPH_REPLACE:
        return replace(o);
    default:
        return destroy(o);
    }
}
