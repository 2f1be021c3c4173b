/*
 * launches.c - launches of kernels and of graphs, and changes of both, with drawn arguments (see
 * draw.h).
 */
#include "launches.h"

/* ---- kernels -------------------------------------------------------------------------------- */

static struct launch {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    CUdeviceptr x;
    uint32_t a, b, n;
    void *params[4];
} l;

/* A launch that is accepted ends soon. */
static struct launch *launch_draw(void)
{
    const unsigned sizes[] = {0, 1, 4, 256, 1025, 65536, ~0u};
    const CUfunction no[] = {others, NULL};
    const unsigned yes_shared[] = {0, 0, 1024}, no_shared[] = {48 << 10, 64 << 10, 1u << 30};
    l = (struct launch){.function = draw(3) ? mix : (CUfunction)kernel,
                        .grid = {4, 1, 1},
                        .block = {256, 1, 1},
                        .shared = EITHER(yes_shared, no_shared),
                        .x = x,
                        .a = 3,
                        .b = 1,
                        .n = N};
    if (odd())
        (draw(2) ? l.grid : l.block)[draw(3)] = PICK(sizes);
    if (odd())
        l.function = PICK(no);
    if (l.grid[0] * l.grid[1] * l.grid[2] > 64)
        l.grid[0] = l.grid[1] = l.grid[2] = ~0u; /* refused, or it would never end */
    l.params[0] = &l.x;
    l.params[1] = &l.a;
    l.params[2] = &l.b;
    l.params[3] = &l.n;
    return &l;
}

DRAWN(cuLaunchKernel)
{
    launch_draw();
    return CALL(cuLaunchKernel, l.function, l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1],
                l.block[2], l.shared, stream, l.params, NULL);
}

DRAWN(cuLaunchCooperativeKernel)
{
    launch_draw();
    return CALL(cuLaunchCooperativeKernel, l.function, l.grid[0], l.grid[1], l.grid[2], l.block[0],
                l.block[1], l.block[2], l.shared, stream, l.params);
}

enum { ATTRIBUTES = 2, COMPLETION_EVENT = 12 /* since CUDA 12.3 */ };

static void attribute_draw(CUlaunchAttribute *a)
{
    const int yes[] = {CU_LAUNCH_ATTRIBUTE_IGNORE,
                       CU_LAUNCH_ATTRIBUTE_PRIORITY,
                       CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                       CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                       CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                       CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT,
                       COMPLETION_EVENT};
    const int no[] = {CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, 99, -1};
    *a = (CUlaunchAttribute){.id = (CUlaunchAttributeID)EITHER(yes, no)};
    switch ((int)a->id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        a->value.cooperative = (int)draw(2);
        break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        a->value.clusterDim.x = odd() ? draw(5) : 2;
        a->value.clusterDim.y = a->value.clusterDim.z = odd() ? draw(3) : 1;
        break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case COMPLETION_EVENT: /* the event is at the same place */
        a->value.programmaticEvent.event = any_event();
        break;
    default:
        break;
    }
}

DRAWN(cuLaunchKernelEx)
{
    CUlaunchAttribute attributes[ATTRIBUTES];
    launch_draw();
    for (int i = 0; i < ATTRIBUTES; i++)
        attribute_draw(&attributes[i]);
    CUlaunchConfig c = {.gridDimX = l.grid[0],
                        .gridDimY = l.grid[1],
                        .gridDimZ = l.grid[2],
                        .blockDimX = l.block[0],
                        .blockDimY = l.block[1],
                        .blockDimZ = l.block[2],
                        .sharedMemBytes = l.shared,
                        .hStream = stream,
                        .attrs = odd() ? NULL : attributes,
                        .numAttrs = draw(ATTRIBUTES + 1)};
    return CALL(cuLaunchKernelEx, &c, l.function, l.params, NULL);
}

static CUfunction_attribute function_attribute(void)
{
    const int yes[] = {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                       CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT};
    const int no[] = {CU_FUNC_ATTRIBUTE_NUM_REGS, 99, -1};
    return (CUfunction_attribute)EITHER(yes, no);
}

static int function_value(void)
{
    const int yes[] = {0, 50, 64 << 10}, no[] = {-1, -2, 1 << 30};
    return EITHER(yes, no);
}

DRAWN(cuFuncSetAttribute)
{
    const CUfunction no[] = {others, NULL};
    return cuFuncSetAttribute(odd() ? PICK(no) : mix, function_attribute(), function_value());
}

DRAWN(cuKernelSetAttribute)
{
    CUdevice to = odd() ? (CUdevice)draw(3) - 1 : device;
    return cuKernelSetAttribute(function_attribute(), function_value(), odd() ? NULL : kernel, to);
}

/* ---- graphs --------------------------------------------------------------------------------- */

enum node { MEMSET, KERNEL, COPY, HOST, CHILD, MEMOP, RECORD, WAIT, NODES };

static CUgraph graph, inner, another;
static CUgraphExec exec;
static CUgraphNode nodes[NODES];

static CUDA_MEMSET_NODE_PARAMS memset_params(void)
{
    return (CUDA_MEMSET_NODE_PARAMS){.dst = address(),
                                     .elementSize = odd() ? draw(5) : 4,
                                     .value = 9,
                                     .width = length() / 4,
                                     .height = odd() ? draw(3) : 1,
                                     .pitch = pitch()};
}

static CUDA_MEMCPY3D copy_params(void)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = address(),
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = address(),
                           .WidthInBytes = length(),
                           .Height = odd() ? draw(3) : 1,
                           .Depth = odd() ? draw(3) : 1};
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(void)
{
    launch_draw();
    return (CUDA_KERNEL_NODE_PARAMS){.func = l.function,
                                     .gridDimX = l.grid[0],
                                     .gridDimY = l.grid[1],
                                     .gridDimZ = l.grid[2],
                                     .blockDimX = l.block[0],
                                     .blockDimY = l.block[1],
                                     .blockDimZ = l.block[2],
                                     .sharedMemBytes = l.shared,
                                     .kernelParams = l.params};
}

static CUDA_BATCH_MEM_OP_NODE_PARAMS memop_params(void)
{
    static CUstreamBatchMemOpParams op;
    op = (CUstreamBatchMemOpParams){
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = words, .value = 1}};
    if (odd())
        op.writeValue.address += draw(4);
    if (odd())
        op.writeValue.flags = flag();
    return (CUDA_BATCH_MEM_OP_NODE_PARAMS){
        .ctx = any_context(), .count = odd() ? draw(2) : 1, .paramArray = &op, .flags = flag()};
}

/* A driver may have no memory operations. While there is a graph with events nothing that it could
 * collide with is buffered, so only some programs have such a graph. */
void graphs_new(bool events)
{
    CUDA_MEMSET_NODE_PARAMS set = memset_params();
    CUDA_MEMCPY3D copy = copy_params();
    CUDA_KERNEL_NODE_PARAMS launch = kernel_params();
    CUDA_BATCH_MEM_OP_NODE_PARAMS memop = memop_params();
    CUDA_HOST_NODE_PARAMS host = {.fn = nothing};
    CUgraphNode in;
    MUST(cuGraphCreate(&inner, 0));
    MUST(cuGraphAddMemsetNode(&in, inner, NULL, 0, &set, context));
    MUST(cuGraphCreate(&another, 0));
    MUST(cuGraphAddHostNode(&in, another, NULL, 0, &host));
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemsetNode(&nodes[MEMSET], graph, NULL, 0, &set, context));
    MUST(cuGraphAddKernelNode_v2(&nodes[KERNEL], graph, &nodes[MEMSET], 1, &launch));
    MUST(cuGraphAddMemcpyNode(&nodes[COPY], graph, &nodes[KERNEL], 1, &copy, context));
    MUST(cuGraphAddHostNode(&nodes[HOST], graph, &nodes[COPY], 1, &host));
    MUST(cuGraphAddChildGraphNode(&nodes[CHILD], graph, &nodes[HOST], 1, inner));
    cuGraphAddBatchMemOpNode(&nodes[MEMOP], graph, &nodes[CHILD], 1, &memop);
    if (events) {
        MUST(cuGraphAddEventRecordNode(&nodes[RECORD], graph, &nodes[CHILD], 1, event));
        MUST(cuGraphAddEventWaitNode(&nodes[WAIT], graph, NULL, 0, event));
    }
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
}

static CUgraphExec any_exec(void)
{
    return odd() ? NULL : exec;
}

static CUgraphNode any_node(enum node right)
{
    return odd() ? nodes[draw(NODES)] : nodes[right];
}

DRAWN_CALL(cuGraphLaunch, any_exec(), stream)
DRAWN_CALL(cuGraphUpload, any_exec(), stream)

DRAWN(cuGraphExecDestroy)
{
    CUgraphExec made = NULL;
    if (odd())
        return cuGraphExecDestroy(NULL);
    MUST(cuGraphInstantiateWithFlags(&made, another, 0));
    MUST(cuGraphLaunch(made, stream));
    return cuGraphExecDestroy(made);
}

DRAWN(cuGraphExecKernelNodeSetParams_v2)
{
    CUDA_KERNEL_NODE_PARAMS p = kernel_params();
    return cuGraphExecKernelNodeSetParams_v2(any_exec(), any_node(KERNEL), &p);
}

DRAWN(cuGraphExecKernelNodeSetParams)
{
    CUDA_KERNEL_NODE_PARAMS p = kernel_params();
    CUDA_KERNEL_NODE_PARAMS_v1 first = {.func = p.func,
                                        .gridDimX = p.gridDimX,
                                        .gridDimY = p.gridDimY,
                                        .gridDimZ = p.gridDimZ,
                                        .blockDimX = p.blockDimX,
                                        .blockDimY = p.blockDimY,
                                        .blockDimZ = p.blockDimZ,
                                        .sharedMemBytes = p.sharedMemBytes,
                                        .kernelParams = p.kernelParams};
    return cuGraphExecKernelNodeSetParams(any_exec(), any_node(KERNEL), &first);
}

DRAWN(cuGraphExecMemcpyNodeSetParams)
{
    CUDA_MEMCPY3D p = copy_params();
    return cuGraphExecMemcpyNodeSetParams(any_exec(), any_node(COPY), &p, any_context());
}

DRAWN(cuGraphExecMemsetNodeSetParams)
{
    CUDA_MEMSET_NODE_PARAMS p = memset_params();
    return cuGraphExecMemsetNodeSetParams(any_exec(), any_node(MEMSET), &p, any_context());
}

DRAWN(cuGraphExecHostNodeSetParams)
{
    CUDA_HOST_NODE_PARAMS p = {.fn = odd() ? NULL : nothing};
    return cuGraphExecHostNodeSetParams(any_exec(), any_node(HOST), &p);
}

DRAWN(cuGraphExecChildGraphNodeSetParams)
{
    const CUgraph no[] = {another, NULL};
    return cuGraphExecChildGraphNodeSetParams(any_exec(), any_node(CHILD),
                                              odd() ? PICK(no) : inner);
}

DRAWN(cuGraphExecBatchMemOpNodeSetParams)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = memop_params();
    return cuGraphExecBatchMemOpNodeSetParams(any_exec(), any_node(MEMOP), &p);
}

DRAWN(cuGraphExecEventRecordNodeSetEvent)
{
    return cuGraphExecEventRecordNodeSetEvent(any_exec(), any_node(RECORD), any_event());
}

DRAWN(cuGraphExecEventWaitNodeSetEvent)
{
    return cuGraphExecEventWaitNodeSetEvent(any_exec(), any_node(WAIT), any_event());
}

DRAWN(cuGraphNodeSetEnabled)
{
    const enum node yes[] = {MEMSET, KERNEL, COPY}, no[] = {HOST, CHILD, MEMOP, RECORD};
    return cuGraphNodeSetEnabled(any_exec(), nodes[EITHER(yes, no)], draw(2));
}

static CUgraph any_graph(void)
{
    const CUgraph no[] = {another, inner, NULL};
    return odd() ? PICK(no) : graph;
}

DRAWN(cuGraphExecUpdate)
{
    CUgraphNode error;
    CUgraphExecUpdateResult result;
    return cuGraphExecUpdate(any_exec(), any_graph(), &error, &result);
}

DRAWN(cuGraphExecUpdate_v2)
{
    CUgraphExecUpdateResultInfo info;
    return cuGraphExecUpdate_v2(any_exec(), any_graph(), &info);
}

DRAWN(cuGraphExecNodeSetParams)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    const CUgraph no[] = {another, NULL};
    p.graph.graph = odd() ? PICK(no) : inner;
    if (odd()) /* without fields for a type that could run */
        p = (CUgraphNodeParams){.type = (CUgraphNodeType)draw(16)};
    return cuGraphExecNodeSetParams(any_exec(), any_node(CHILD), &p);
}
