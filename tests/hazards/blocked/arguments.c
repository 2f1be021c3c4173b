/*
 * arguments.c - see arguments.h.
 */
#include "tests/hazards/blocked/arguments.h"

#include <stdlib.h>
#include <string.h>

#include "tests/hazards/blocked/world.h"
#include "tests/hazards/hazard.h"

word dev, dev1, ctx;
word mem, mem2, mems, mems2, pinned, managed, manageds, array, array2, mipmap, pool;
word mod, lib, kern, fn, image, empty_fn, empty_callback;
word event, timed, ipc_event;
word graph, kernel_node, copy_node, set_node, host_node, child_node, record_node, wait_node,
    memop_node, empty_node, alloc_node, free_node, inner, exec, object;
word green, multiprocessors, backing, location_word;
word copy_2d, copy_3d, copy_peer, batch_3d, attributes, zeros, ones, fours, outs, sizes, array_2d,
    array_3d, config, params, launches, memops, backing_prop, access_to, location, pool_prop;
word kernel_params, set_params, host_params, memop_params, alloc_params, node_params,
    node_params_set;
word out, out2, out3, out4, out5, out6, pair_from, pair_to;

enum { OUT = 4096, OUTS = 6 };
static char written[OUTS][OUT] __attribute__((aligned(64)));
static char nought[OUT] __attribute__((aligned(64)));
static uint64_t one[OUT / 8];

void arguments_clear(void)
{
    memset(written, 0, sizeof(written));
}

/* ---- new ones -------------------------------------------------------------------------------- */

#define NEW(name, type, make)                                                                      \
    word new_##name(void)                                                                          \
    {                                                                                              \
        type made;                                                                                 \
        MUST(make);                                                                                \
        return W(made);                                                                            \
    }

NEW(stream, CUstream, cuStreamCreate(&made, CU_STREAM_NON_BLOCKING))
NEW(event, CUevent, cuEventCreate(&made, CU_EVENT_DEFAULT))
NEW(memory, CUdeviceptr, cuMemAlloc(&made, BYTES))
NEW(pinned, void *, cuMemHostAlloc(&made, BYTES, 0))
NEW(array, CUarray, cuArrayCreate(&made, (CUDA_ARRAY_DESCRIPTOR *)array_2d))
NEW(mipmap, CUmipmappedArray, cuMipmappedArrayCreate(&made, (CUDA_ARRAY3D_DESCRIPTOR *)array_3d, 1))
NEW(pool, CUmemoryPool, cuMemPoolCreate(&made, (CUmemPoolProps *)pool_prop))
NEW(range, CUdeviceptr, cuMemAddressReserve(&made, PAGE, 0, 0, 0))
NEW(backing, CUmemGenericAllocationHandle,
    cuMemCreate(&made, PAGE, (CUmemAllocationProp *)backing_prop, 0))
NEW(module, CUmodule, cuModuleLoadData(&made, (void *)image))
NEW(library, CUlibrary, cuLibraryLoadData(&made, (void *)image, NULL, NULL, 0, NULL, NULL, 0))
NEW(graph, CUgraph, cuGraphCreate(&made, 0))
NEW(node, CUgraphNode, cuGraphAddEmptyNode(&made, (CUgraph)new_graph(), NULL, 0))
NEW(clone, CUgraph, cuGraphClone(&made, (CUgraph)graph))
NEW(exec, CUgraphExec, cuGraphInstantiate(&made, (CUgraph)graph, 0))
NEW(object, CUuserObject,
    cuUserObjectCreate(&made, nought, (CUhostFn)empty_fn, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC))

word new_context(void)
{
    CUcontext before;
    MUST(cuCtxGetCurrent(&before));
    CUcontext made = context_new();
    MUST(cuCtxSetCurrent(before));
    return named_context(W(made));
}

static CUstream capturing;

word to_capture(void)
{
    capturing = (CUstream)new_stream();
    return W(capturing);
}

word new_current(void)
{
    return named_context(W(context_new()));
}

word new_capture(void)
{
    to_capture();
    MUST(cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
    return W(capturing);
}

void captures_end(void)
{
    CUgraph made;
    if (capturing)
        cuStreamEndCapture(capturing, &made);
    capturing = NULL;
}

word new_page(void)
{
    void *p = aligned_alloc(4096, BYTES);
    if (!p)
        give_up("no memory");
    memset(p, 0, BYTES);
    return W(p);
}

word new_registered(void)
{
    word p = new_page();
    MUST(cuMemHostRegister((void *)p, BYTES, 0));
    return p;
}

word new_of_pool(void)
{
    CUdeviceptr made;
    CUstream s = (CUstream)new_stream();
    MUST(cuMemAllocFromPoolAsync(&made, BYTES, (CUmemoryPool)pool, s));
    MUST(cuStreamSynchronize(s));
    return made;
}

word new_mapping(void)
{
    word at = new_range();
    MUST(cuMemMap(at, PAGE, 0, new_backing(), 0));
    return at;
}

word new_file(void)
{
    int fd;
    MUST(cuMemExportToShareableHandle(&fd, new_backing(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      0));
    return W(fd);
}

word new_green_desc(void)
{
    CUdevResource part;
    CUdevResourceDesc desc;
    unsigned int parts = 1;
    MUST(cuDevSmResourceSplitByCount(&part, &parts, (CUdevResource *)multiprocessors, NULL, 0, 8));
    MUST(cuDevResourceGenerateDesc(&desc, &part, 1));
    return W(desc);
}

NEW(green, CUgreenCtx,
    cuGreenCtxCreate(&made, (CUdevResourceDesc)new_green_desc(), (CUdevice)dev,
                     CU_GREEN_CTX_DEFAULT_STREAM))

word new_holder(void)
{
    word g = new_graph();
    MUST(cuGraphRetainUserObject((CUgraph)g, (CUuserObject)object, 1, 0));
    return g;
}

static CUgraphNode pair[2];

word new_pair(void)
{
    word g = new_graph();
    for (int i = 0; i < 2; i++)
        MUST(cuGraphAddEmptyNode(&pair[i], (CUgraph)g, NULL, 0));
    return g;
}

/* The function of CUDA 12, which newer headers call by another name. */
CUresult cuGraphAddDependencies_v2(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *data, size_t count);

word new_edge(void)
{
    word g = new_pair();
    MUST(cuGraphAddDependencies_v2((CUgraph)g, &pair[0], &pair[1], NULL, 1));
    return g;
}

/* ---- the other device ------------------------------------------------------------------------ */

word far_retained(void)
{
    CUcontext made;
    MUST(cuDevicePrimaryCtxRetain(&made, (CUdevice)dev1));
    named_context(W(made));
    return dev1;
}

static CUcontext far;

word far_context(void)
{
    cuCtxDisablePeerAccess(far);
    return W(far);
}

word far_accessed(void)
{
    cuCtxEnablePeerAccess(far, 0);
    return W(far);
}

/* ---- once ------------------------------------------------------------------------------------ */

static void nothing(void *unused)
{
    (void)unused;
}

static void nothing_more(CUstream s, CUresult r, void *unused)
{
    (void)s, (void)r, (void)unused;
}

static void devices_open(void)
{
    CUdevice second;
    int count;
    MUST(cuDeviceGetCount(&count));
    if (count < 2)
        give_up("two devices are needed");
    MUST(cuDeviceGet(&second, 1));
    dev = W(device);
    dev1 = W(second);
    ctx = W(context);
    device = second;
    far = context_new();
    device = (CUdevice)dev;
    MUST(cuCtxSetCurrent(context));
}

static void memory_open(void)
{
    static CUdeviceptr list[2];
    static CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    static CUmemAllocationProp backed = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .requestedHandleTypes =
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    static CUmemPoolProps pooled = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    static CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    static CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = 16, .Height = 16, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    static CUDA_ARRAY3D_DESCRIPTOR deep = {
        .Width = 16, .Height = 16, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    static size_t size[1] = {BYTES};
    static CUdeviceptr managed_list[1];
    location = W(&here);
    location_word = W(CU_MEM_LOCATION_TYPE_DEVICE); /* on the first device */
    backing_prop = W(&backed);
    pool_prop = W(&pooled);
    access_to = W(&desc);
    array_2d = W(&flat);
    array_3d = W(&deep);
    sizes = W(size);
    mem = list[0] = new_memory();
    mem2 = list[1] = new_memory();
    mems = W(&list[0]);
    mems2 = W(&list[1]);
    pinned = new_pinned();
    MUST(cuMemAllocManaged(&managed_list[0], BYTES, CU_MEM_ATTACH_GLOBAL));
    managed = managed_list[0];
    manageds = W(managed_list);
    array = new_array();
    array2 = new_array();
    mipmap = new_mipmap();
    pool = new_pool();
    backing = new_backing();
}

static void copies_open(void)
{
    static CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .srcPitch = BYTES_2D,
                                 .dstPitch = BYTES_2D,
                                 .WidthInBytes = 64,
                                 .Height = 8};
    static CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .srcPitch = BYTES_2D,
                                 .dstPitch = BYTES_2D,
                                 .srcHeight = 8,
                                 .dstHeight = 8,
                                 .WidthInBytes = 64,
                                 .Height = 8,
                                 .Depth = 1};
    static CUDA_MEMCPY3D_PEER peers;
    flat.srcDevice = deep.srcDevice = mem;
    flat.dstDevice = deep.dstDevice = mem2;
    peers = (CUDA_MEMCPY3D_PEER){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .srcDevice = mem,
                                 .srcContext = context,
                                 .srcPitch = BYTES_2D,
                                 .srcHeight = 8,
                                 .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .dstDevice = mem2,
                                 .dstContext = context,
                                 .dstPitch = BYTES_2D,
                                 .dstHeight = 8,
                                 .WidthInBytes = 64,
                                 .Height = 8,
                                 .Depth = 1};
    static CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    static CUDA_MEMCPY3D_BATCH_OP op = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
                                        .extent = {64, 8, 1}};
    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.ptr = mem;
    op.dst.op.ptr.ptr = mem2;
    copy_2d = W(&flat);
    copy_3d = W(&deep);
    copy_peer = W(&peers);
    attributes = W(&how);
    batch_3d = W(&op);
}

static void programs_open(void)
{
    static CUdeviceptr x;
    static uint32_t a = 1, b, n = N;
    static void *list[] = {&x, &a, &b, &n};
    static CUlaunchConfig how = {.gridDimX = 4,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 256,
                                 .blockDimY = 1,
                                 .blockDimZ = 1};
    static CUDA_LAUNCH_PARAMS all = {.gridDimX = 4,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 256,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = list};
    static CUstreamBatchMemOpParams op;
    CUkernel k;
    x = mem;
    image = W(kernels_text());
    mod = new_module();
    lib = new_library();
    MUST(cuLibraryGetKernel(&k, (CUlibrary)lib, "mix"));
    kern = W(k);
    fn = W(mix);
    empty_fn = W(nothing);
    empty_callback = W(nothing_more);
    params = W(list);
    how.hStream = (CUstream)busy;
    config = W(&how);
    all.function = mix;
    all.hStream = (CUstream)busy;
    launches = W(&all);
    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = mem;
    memops = W(&op);
}

static void graphs_open(void)
{
    static CUDA_KERNEL_NODE_PARAMS kernel = {.gridDimX = 4,
                                             .gridDimY = 1,
                                             .gridDimZ = 1,
                                             .blockDimX = 256,
                                             .blockDimY = 1,
                                             .blockDimZ = 1};
    static CUDA_MEMSET_NODE_PARAMS set = {.elementSize = 4, .width = 16, .height = 1};
    static CUDA_HOST_NODE_PARAMS host = {.fn = nothing};
    static CUDA_BATCH_MEM_OP_NODE_PARAMS ops = {.count = 1};
    static CUDA_MEM_ALLOC_NODE_PARAMS alloc = {.bytesize = BYTES};
    static CUgraphNodeParams none = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    static CUgraphNodeParams memset_node = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    CUgraphNode node;
    CUgraph g, small, memory;
    kernel.func = mix;
    kernel.kernelParams = (void **)params;
    set.dst = mem;
    ops.ctx = context;
    ops.paramArray = (CUstreamBatchMemOpParams *)memops;
    alloc.poolProps = *(CUmemPoolProps *)pool_prop;
    kernel_params = W(&kernel);
    set_params = W(&set);
    host_params = W(&host);
    memop_params = W(&ops);
    alloc_params = W(&alloc);
    node_params = W(&none);
    memset_node.memset = (CUDA_MEMSET_NODE_PARAMS_v2){
        .dst = mem, .elementSize = 4, .width = 16, .height = 1, .ctx = context};
    node_params_set = W(&memset_node);
    graph = new_graph();
    inner = new_graph();
    g = (CUgraph)graph;
    small = (CUgraph)inner;
    MUST(cuGraphAddEmptyNode(&node, small, NULL, 0));
#define NODE(name, add)                                                                            \
    MUST(add);                                                                                     \
    name = W(node)
    NODE(kernel_node, cuGraphAddKernelNode(&node, g, NULL, 0, &kernel));
    NODE(copy_node, cuGraphAddMemcpyNode(&node, g, NULL, 0, (CUDA_MEMCPY3D *)copy_3d, context));
    NODE(set_node, cuGraphAddMemsetNode(&node, g, NULL, 0, &set, context));
    NODE(host_node, cuGraphAddHostNode(&node, g, NULL, 0, &host));
    NODE(child_node, cuGraphAddChildGraphNode(&node, g, NULL, 0, small));
    NODE(record_node, cuGraphAddEventRecordNode(&node, g, NULL, 0, (CUevent)event));
    NODE(wait_node, cuGraphAddEventWaitNode(&node, g, NULL, 0, (CUevent)event));
    NODE(memop_node, cuGraphAddBatchMemOpNode(&node, g, NULL, 0, &ops));
    NODE(empty_node, cuGraphAddEmptyNode(&node, g, NULL, 0));
    MUST(cuGraphCreate(&memory, 0));
    NODE(alloc_node, cuGraphAddMemAllocNode(&node, memory, NULL, 0, &alloc));
    NODE(free_node, cuGraphAddMemFreeNode(&node, memory, &node, 1, alloc.dptr));
#undef NODE
    exec = new_exec();
    object = new_object();
}

void arguments_open(void)
{
    word *const places[OUTS] = {&out, &out2, &out3, &out4, &out5, &out6};
    for (int i = 0; i < OUTS; i++)
        *places[i] = W(written[i]);
    for (int i = 0; i < OUT / 8; i++)
        one[i] = 1;
    static size_t four[1] = {4};
    static void *first[1] = {written[0]};
    zeros = W(nought);
    fours = W(four);
    outs = W(first);
    ones = W(one);
    devices_open();
    memory_open();
    copies_open();
    programs_open();
    event = new_event();
    timed = new_event();
    MUST(cuEventRecord((CUevent)timed, (CUstream)idle));
    MUST(cuEventSynchronize((CUevent)timed));
    CUevent shared;
    MUST(cuEventCreate(&shared, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    ipc_event = W(shared);
    graphs_open();
    static CUdevResource all;
    MUST(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    multiprocessors = W(&all);
    green = new_green();
    pair_from = W(&pair[0]);
    pair_to = W(&pair[1]);
}
