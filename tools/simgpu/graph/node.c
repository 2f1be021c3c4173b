/*
 * node.c - what nodes do: from the API's parameters to works and back, for each type of node. The
 * same builders serve nodes of graphs (add, set) and nodes of executable graphs
 * (cuGraphExec*SetParams).
 */
#include "tools/simgpu/graph/node.h"
#include "tools/simgpu/memory/copy.h"
#include "tools/simgpu/program/module.h"
#include "tools/simgpu/memory/graph_memory.h"
#include "tools/simgpu/stream/event.h"
#include "tools/simgpu/stream/submit.h"

/* ---- builders: parameters -> one or more works, kept in a struct parts ----------------------- */

/* Keeps a copy of `w`. The parts take its reference, if it has one. */
static CUresult parts_one(struct parts *p, struct work *w)
{
    *p = (struct parts){works_copy(w, 1), 1};
    if (w->drop)
        w->drop(w);
    return p->works ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The context that a node's parameters name; NULL: the current one. */
static CUresult node_context(CUcontext named, struct sim_context **ctx)
{
    if (!named)
        return context_current_ok(ctx);
    *ctx = context_find(named);
    return *ctx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult parts_kernel(const CUDA_KERNEL_NODE_PARAMS *n, struct parts *p)
{
    struct sim_context *ctx;
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    CUfunction func = n->func ? n->func : (CUfunction)(void *)n->kern;
    const struct sim_function *f = function_find(func);
    /* A function of a module has its context, whatever is named. A kernel of a library has none. */
    if (f && f->module)
        ctx = f->module->context;
    else
        TRY(node_context(n->ctx, &ctx));
    CUlaunchConfig config = {
        .gridDimX = n->gridDimX,
        .gridDimY = n->gridDimY,
        .gridDimZ = n->gridDimZ,
        .blockDimX = n->blockDimX,
        .blockDimY = n->blockDimY,
        .blockDimZ = n->blockDimZ,
        .sharedMemBytes = n->sharedMemBytes,
    };
    struct work w;
    void *packed = malloc(LAUNCH_PACKED_MAX);
    CUresult rc = packed ? launch_prepare(ctx, &config, func, n->kernelParams, n->extra, packed, &w)
                         : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS) {
        w.context = context_handle(ctx);
        rc = parts_one(p, &w);
    }
    free(packed);
    return rc;
}

CUresult node_kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *old, CUDA_KERNEL_NODE_PARAMS *params)
{
    if (!old)
        return CUDA_ERROR_INVALID_VALUE;
    memset(params, 0, sizeof(*params));
    memcpy(params, old, sizeof(*old));
    return CUDA_SUCCESS;
}

static void kernel_params(const struct sim_node *n, CUDA_KERNEL_NODE_PARAMS *out)
{
    const uint64_t *a = n->works[0].args.u64;
    const struct sim_function *f = n->works[0].func;
    *out = (CUDA_KERNEL_NODE_PARAMS){
        .func = function_handle(f),
        .gridDimX = (unsigned int)a[0],
        .gridDimY = (unsigned int)a[1],
        .gridDimZ = (unsigned int)a[2],
        .blockDimX = (unsigned int)a[3],
        .blockDimY = (unsigned int)a[4],
        .blockDimZ = (unsigned int)a[5],
        .sharedMemBytes = (unsigned int)a[6],
        .kernelParams = n->params,
        .kern = !f->module ? (CUkernel)(void *)function_handle(f) : NULL,
        .ctx = n->works[0].context,
    };
}

CUresult parts_memcpy(const CUDA_MEMCPY3D *n, CUcontext named, struct parts *p)
{
    struct sim_context *ctx;
    struct work w;
    TRY(node_context(named, &ctx));
    TRY(copy_work(ctx, n, &w));
    w.context = context_handle(ctx);
    return parts_one(p, &w);
}

CUresult parts_memset(const CUDA_MEMSET_NODE_PARAMS *n, CUcontext named, struct parts *p)
{
    struct sim_context *ctx;
    struct work w;
    TRY(node_context(named, &ctx));
    TRY(fill_work(n, &w));
    w.context = context_handle(ctx);
    return parts_one(p, &w);
}

CUresult parts_host(const CUDA_HOST_NODE_PARAMS *n, struct parts *p)
{
    struct work w;
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(host_prepare(n->fn, n->userData, &w));
    return parts_one(p, &w);
}

/* A record or a wait needs the event's state at the launch. So the work has only the name and the
 * event, and graph_launch.c does the rest. */
CUresult parts_event(CUevent event, bool record, struct parts *p)
{
    struct point last;
    TRY(event_last_point(event, &last));
    struct work w = {.kind = WORK_MARK,
                     .name = record ? "event_record" : "event_wait",
                     .node_type =
                         record ? CU_GRAPH_NODE_TYPE_EVENT_RECORD : CU_GRAPH_NODE_TYPE_WAIT_EVENT};
    w.args.ptr[0] = event;
    return parts_one(p, &w);
}

CUresult parts_memops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *n, struct parts *p)
{
    struct sim_context *ctx;
    if (!n || n->count == 0 || n->count > 256 || !n->paramArray || n->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(node_context(n->ctx, &ctx));
    struct work *works = calloc(n->count, sizeof(*works));
    CUresult rc = works ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned int i = 0; i < n->count && rc == CUDA_SUCCESS; i++) {
        rc = memop_prepare(&n->paramArray[i], &works[i]);
        works[i].context = context_handle(ctx);
    }
    if (rc == CUDA_SUCCESS) {
        *p = (struct parts){works_copy(works, n->count), n->count};
        rc = p->works ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    free(works);
    return rc;
}

/* ---- memory nodes ---------------------------------------------------------------------------- */

CUresult parts_alloc(CUDA_MEM_ALLOC_NODE_PARAMS *n, struct parts *p)
{
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    if (!n || n->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
        n->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        n->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        n->poolProps.location.id != ctx->ordinal)
        return CUDA_ERROR_INVALID_VALUE;
    struct work w;
    TRY(graph_memory_alloc(ctx, n->bytesize, &w, &n->dptr));
    return parts_one(p, &w);
}

CUresult parts_free_node(CUdeviceptr ptr, struct parts *p)
{
    struct work w;
    TRY(graph_memory_free(ptr, &w));
    return parts_one(p, &w);
}

/* ---- asking and changing --------------------------------------------------------------------- */

/* The node if it is live and of this type, else NULL. Under lock. */
static struct sim_node *node_of(CUgraphNode handle, CUgraphNodeType type)
{
    struct sim_node *n = node_find(handle);
    return n && n->type == type ? n : NULL;
}

static CUresult change(CUgraphNode handle, CUgraphNodeType type, CUresult built_rc, struct parts *p)
{
    if (built_rc != CUDA_SUCCESS)
        return built_rc;
    SCOPED_LOCK(&graph_lock);
    struct sim_node *n = node_of(handle, type);
    CUresult rc = n ? node_fill(n, p) : CUDA_ERROR_INVALID_VALUE;
    parts_free(p);
    return rc;
}

#define SET(type, build)                                                                           \
    struct parts p = {.count = 0};                                                                 \
    TRY(driver_ready());                                                                           \
    return change(node, CU_GRAPH_NODE_TYPE_##type, build, &p)

/* `answer` runs under the lock, with the node as `n`. */
#define GET(type, out_pointer, answer)                                                             \
    TRY(driver_ready());                                                                           \
    if (!(out_pointer))                                                                            \
        return CUDA_ERROR_INVALID_VALUE;                                                           \
    SCOPED_LOCK(&graph_lock);                                                                      \
    const struct sim_node *n = node_of(node, CU_GRAPH_NODE_TYPE_##type);                           \
    if (n)                                                                                         \
        answer;                                                                                    \
    return n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE

SIM_BODY(cuGraphKernelNodeGetParams_v2, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out),
         GET(KERNEL, out, kernel_params(n, out)))

SIM_EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *out)
{
    CUDA_KERNEL_NODE_PARAMS all;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(cuGraphKernelNodeGetParams_v2(node, &all));
    memcpy(out, &all, sizeof(*out));
    return CUDA_SUCCESS;
}

SIM_BODY(cuGraphKernelNodeSetParams_v2, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *in),
         SET(KERNEL, parts_kernel(in, &p)))

SIM_EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
    CUDA_KERNEL_NODE_PARAMS params;
    TRY(node_kernel_v1(old, &params));
    return cuGraphKernelNodeSetParams_v2(node, &params);
}

SIM_BODY(cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D *out),
         GET(MEMCPY, out, memcpy(out, n->works[0].blob, sizeof(*out))))
SIM_BODY(cuGraphMemcpyNodeSetParams, (CUgraphNode node, const CUDA_MEMCPY3D *in),
         SET(MEMCPY, parts_memcpy(in, NULL, &p)))
SIM_BODY(cuGraphMemsetNodeGetParams, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *out),
         GET(MEMSET, out, fill_params(&n->works[0], out)))
SIM_BODY(cuGraphMemsetNodeSetParams, (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *in),
         SET(MEMSET, parts_memset(in, NULL, &p)))

static void host_params(const struct work *w, CUDA_HOST_NODE_PARAMS *out)
{
    *out = (CUDA_HOST_NODE_PARAMS){.userData = w->args.ptr[1]};
    memcpy(&out->fn, &w->args.ptr[0], sizeof(out->fn));
}

SIM_BODY(cuGraphHostNodeGetParams, (CUgraphNode node, CUDA_HOST_NODE_PARAMS *out),
         GET(HOST, out, host_params(&n->works[0], out)))
SIM_BODY(cuGraphHostNodeSetParams, (CUgraphNode node, const CUDA_HOST_NODE_PARAMS *in),
         SET(HOST, parts_host(in, &p)))
SIM_BODY(cuGraphEventRecordNodeGetEvent, (CUgraphNode node, CUevent *out),
         GET(EVENT_RECORD, out, *out = n->works[0].args.ptr[0]))
SIM_BODY(cuGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event),
         SET(EVENT_RECORD, parts_event(event, true, &p)))
SIM_BODY(cuGraphEventWaitNodeGetEvent, (CUgraphNode node, CUevent *out),
         GET(WAIT_EVENT, out, *out = n->works[0].args.ptr[0]))
SIM_BODY(cuGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent event),
         SET(WAIT_EVENT, parts_event(event, false, &p)))

static void memop_params(const struct sim_node *n, CUDA_BATCH_MEM_OP_NODE_PARAMS *out)
{
    *out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
        .ctx = n->works[0].context, .count = (unsigned int)n->count, .paramArray = n->memops};
}

SIM_BODY(cuGraphBatchMemOpNodeGetParams, (CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *out),
         GET(BATCH_MEM_OP, out, memop_params(n, out)))
SIM_BODY(cuGraphBatchMemOpNodeSetParams,
         (CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *in),
         SET(BATCH_MEM_OP, parts_memops(in, &p)))

static void alloc_params(const struct work *w, CUDA_MEM_ALLOC_NODE_PARAMS *out)
{
    memset(out, 0, sizeof(*out));
    out->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    out->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    out->poolProps.location.id = (int)w->args.u64[ALLOC_DEVICE];
    out->bytesize = w->args.u64[ALLOC_BYTES];
    out->dptr = w->args.u64[ALLOC_PTR];
}

SIM_BODY(cuGraphMemAllocNodeGetParams, (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out),
         GET(MEM_ALLOC, out, alloc_params(&n->works[0], out)))
SIM_BODY(cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr *out),
         GET(MEM_FREE, out, *out = n->works[0].args.u64[ALLOC_PTR]))
SIM_BODY(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph *out),
         GET(GRAPH, out, *out = graph_handle(n->child)))

/* ---- attributes of kernel nodes: they are kept for queries and have no effect ---------------- */

static bool attribute_valid(CUkernelNodeAttrID id)
{
    return (int)id > 0 && (int)id < NODE_ATTRIBUTES;
}

SIM_EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                                  CUkernelNodeAttrValue *out)
{
    if (!attribute_valid(id))
        return CUDA_ERROR_INVALID_VALUE;
    GET(KERNEL, out, *out = n->attributes[id]);
}

SIM_EXPORT CUresult cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                                  const CUkernelNodeAttrValue *value)
{
    TRY(driver_ready());
    SCOPED_LOCK(&graph_lock);
    struct sim_node *n = node_of(handle, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!n || !value || !attribute_valid(id))
        return CUDA_ERROR_INVALID_VALUE;
    n->attributes[id] = *value;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
    TRY(driver_ready());
    SCOPED_LOCK(&graph_lock);
    struct sim_node *to = node_of(dst, CU_GRAPH_NODE_TYPE_KERNEL);
    const struct sim_node *from = node_of(src, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!to || !from)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(to->attributes, from->attributes, sizeof(to->attributes));
    return CUDA_SUCCESS;
}

/* ---- the calls for any type of node (12.2; with edge data 12.3) ------------------------------ */

#if CUDA_VERSION >= 12020
/* Versions 2 and 3 of a structure begin like the version of the typed call. */
static CUresult kernel_any(const CUDA_KERNEL_NODE_PARAMS_v3 *k, struct parts *p)
{
    CUDA_KERNEL_NODE_PARAMS params;
    _Static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS, ctx) ==
                       offsetof(CUDA_KERNEL_NODE_PARAMS_v3, ctx),
                   "alike up to there");
    memcpy(&params, k, sizeof(params));
    return parts_kernel(&params, p);
}

static CUresult alloc_any(CUDA_MEM_ALLOC_NODE_PARAMS_v2 *a, struct parts *p)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = a->poolProps, .bytesize = a->bytesize};
    CUresult rc = parts_alloc(&params, p);
    a->dptr = params.dptr;
    return rc;
}

CUresult parts_any(CUgraphNodeParams *n, struct parts *p)
{
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMSET_NODE_PARAMS_v2 *m = &n->memset;
    const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *b = &n->memOp;
    switch (n->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_any(&n->kernel, p);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return parts_memcpy(&n->memcpy.copyParams, n->memcpy.copyCtx, p);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return parts_memset(&(CUDA_MEMSET_NODE_PARAMS){m->dst, m->pitch, m->value, m->elementSize,
                                                       m->width, m->height},
                            m->ctx, p);
    case CU_GRAPH_NODE_TYPE_HOST:
        return parts_host(&(CUDA_HOST_NODE_PARAMS){n->host.fn, n->host.userData}, p);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return parts_event(n->eventRecord.event, true, p);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return parts_event(n->eventWait.event, false, p);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return parts_memops(
            &(CUDA_BATCH_MEM_OP_NODE_PARAMS){b->ctx, b->count, b->paramArray, b->flags}, p);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return alloc_any(&n->alloc, p);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return parts_free_node(n->free.dptr, p);
    default:
        return CUDA_ERROR_NOT_SUPPORTED; /* semaphores; and conditional nodes never change */
    }
}

SIM_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    struct parts p = {.count = 0};
    CUresult rc = driver_ready();
    if (rc == CUDA_SUCCESS)
        rc = parts_any(params, &p);
    return change(node, rc == CUDA_SUCCESS ? params->type : CU_GRAPH_NODE_TYPE_EMPTY, rc, &p);
}
#endif
