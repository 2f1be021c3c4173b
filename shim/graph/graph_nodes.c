/*
 * graph_nodes.c - reading graphs, and the places of gates in them (see graph_nodes.h).
 *
 * A gate is in front of one kernel: it follows what the kernel followed, and the kernel follows the
 * gate alone. So branches stay as parallel as they were, and each is stopped by its own gates.
 */
#include "shim/graph/graph_nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/list.h"
#include "shim/learn/function.h"

enum { DEEPEST = 16, DEVICE_UPDATABLE = 13 /* CU_LAUNCH_ATTRIBUTE_..._KERNEL_NODE, 12.4 */ };
#define TYPE_CONDITIONAL ((CUgraphNodeType)13) /* CU_GRAPH_NODE_TYPE_CONDITIONAL, from 12.3 on */

/* ---- reading -------------------------------------------------------------------------------- */

/* True: kernels may change the node on the device, by a handle that no copy has. */
static bool device_updatable(CUgraphNode node)
{
    CUlaunchAttributeValue value;
    int updatable = 0;
    memset(&value, 0, sizeof(value));
    if (REAL(cuGraphKernelNodeGetAttribute)(node, (CUlaunchAttributeID)DEVICE_UPDATABLE, &value) ==
        CUDA_SUCCESS)
        memcpy(&updatable, &value, sizeof(updatable));
    return updatable != 0;
}

static void other_device_add(struct graph_nodes *n, struct shim_context *ctx, uint64_t est_ns)
{
    uint32_t i = 0;
    while (i < n->other_devices && n->device[i].ctx->gpu != ctx->gpu)
        i++;
    if (i == GRAPH_DEVICES_MOST)
        return;
    if (i == n->other_devices)
        n->device[n->other_devices++] = (struct graph_device){.ctx = ctx};
    n->device[i].est_ns += est_ns;
    n->copyable = false; /* gates would look at one device's hold word for all */
}

static void read_kernel(struct graph_nodes *n, struct graph_node *node, struct shim_context *ctx)
{
    CUDA_KERNEL_NODE_PARAMS_v2 p = {.func = NULL};
    struct shim_context *home = ctx;
    uint32_t est_ns = 0;
    if (REAL(cuGraphKernelNodeGetParams_v2)(node->handle, &p) == CUDA_SUCCESS) {
        CUfunction handle = p.func ? p.func : (CUfunction)(void *)p.kern;
        if (gpu_device_several()) {
            /* It runs where the driver says, or else where the function was launched before. */
            const struct shim_function *known = p.ctx ? NULL : function_known(handle, ctx);
            if (known)
                home = context_find((CUcontext)(uintptr_t)known->context);
            else if (p.ctx && p.ctx != ctx->handle)
                home = context_adopt(p.ctx);
            home = home ? home : ctx;
        }
        uint64_t blocks = (uint64_t)p.gridDimX * p.gridDimY * p.gridDimZ;
        struct shim_function *f = home->set ? function_of(handle, home) : NULL;
        const struct estimate *e = f ? &f->estimate[estimate_bucket(blocks)] : NULL;
        if (f)
            function_seed(f, handle, home->gpu);
        if (e && estimate_known(e))
            est_ns = (uint32_t)estimate_ns(e);
    }
    bool unknown = est_ns == 0;
    est_ns = unknown ? VHQ_UNKNOWN_NS : est_ns;
    if (home->gpu != ctx->gpu) {
        other_device_add(n, home, est_ns);
        return;
    }
    node->est_ns = est_ns;
    node->unknown = unknown;
    n->est_ns += est_ns;
    n->unknown += unknown;
}

/* If the memory is another device's, that device takes part. */
static void read_pointer(struct graph_nodes *n, CUdeviceptr at, const struct shim_context *ctx)
{
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    int ordinal = ctx->gpu->handle;
    if (!at || REAL(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) ||
        type != CU_MEMORYTYPE_DEVICE ||
        REAL(cuPointerGetAttribute)(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) ||
        ordinal == ctx->gpu->handle)
        return;
    struct shim_context *home = context_of_device(ordinal);
    if (home)
        other_device_add(n, home, 0);
}

/* Free `*handles`, also after an error. Returns 0 or -errno. */
static int graph_handles(CUgraph graph, int depth, CUgraphNode **handles, size_t *count)
{
    *handles = NULL;
    if (depth > DEEPEST || REAL(cuGraphGetNodes)(graph, NULL, count) != CUDA_SUCCESS)
        return -EINVAL;
    if (!(*handles = calloc(*count + 1, sizeof(**handles))))
        return -ENOMEM;
    return *count && REAL(cuGraphGetNodes)(graph, *handles, count) != CUDA_SUCCESS ? -EINVAL : 0;
}

static int read_graph(struct graph_nodes *n, CUgraph graph, struct shim_context *ctx, int depth);

static int read_node(struct graph_nodes *n, CUgraphNode handle, struct shim_context *ctx, int depth)
{
    CUgraphNodeType type;
    if (list_grow(&n->node, &n->room, n->count, sizeof(*n->node)) != 0)
        return -ENOMEM;
    struct graph_node *node = &n->node[n->count++];
    *node = (struct graph_node){.handle = handle};
    if (REAL(cuGraphNodeGetType)(handle, &type) != CUDA_SUCCESS)
        return -EINVAL;
    bool memory = type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
    n->memory |= memory;
    /* Graphs with memory nodes cannot be copied, and conditional nodes run graphs that cannot be
     * read. Nodes of later CUDA versions, with higher numbers, are not known. */
    n->copyable &= !memory && type <= CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
        read_kernel(n, node, ctx);
        n->copyable = n->copyable && !device_updatable(handle);
    }
    if (type == TYPE_CONDITIONAL) /* only the device knows what runs inside, and how often */
        n->est_ns += VHQ_UNKNOWN_NS;
    if (type == CU_GRAPH_NODE_TYPE_MEMCPY && gpu_device_several()) {
        CUDA_MEMCPY3D p = {.srcMemoryType = (CUmemorytype)0};
        REAL(cuGraphMemcpyNodeGetParams)(handle, &p);
        if (p.srcMemoryType == CU_MEMORYTYPE_DEVICE || p.srcMemoryType == CU_MEMORYTYPE_UNIFIED)
            read_pointer(n, p.srcDevice, ctx);
        if (p.dstMemoryType == CU_MEMORYTYPE_DEVICE || p.dstMemoryType == CU_MEMORYTYPE_UNIFIED)
            read_pointer(n, p.dstDevice, ctx);
    }
    if (type == CU_GRAPH_NODE_TYPE_MEMSET && gpu_device_several()) {
        CUDA_MEMSET_NODE_PARAMS p;
        if (REAL(cuGraphMemsetNodeGetParams)(handle, &p) == CUDA_SUCCESS)
            read_pointer(n, p.dst, ctx);
    }
    if (type != CU_GRAPH_NODE_TYPE_GRAPH)
        return 0;
    if (REAL(cuGraphChildGraphNodeGetGraph)(handle, &node->child) != CUDA_SUCCESS)
        return -EINVAL;
    uint32_t at = n->count - 1;
    int r = read_graph(n, node->child, ctx, depth + 1);
    n->node[at].inside = n->count - at - 1;
    return r;
}

static int read_graph(struct graph_nodes *n, CUgraph graph, struct shim_context *ctx, int depth)
{
    size_t count = 0;
    CUgraphNode *handles;
    int r = graph_handles(graph, depth, &handles, &count);
    for (size_t i = 0; i < count && !r; i++)
        r = read_node(n, handles[i], ctx, depth);
    free(handles);
    return r;
}

int graph_nodes_read(struct graph_nodes *n, CUgraph graph, struct shim_context *ctx)
{
    *n = (struct graph_nodes){.copyable = true};
    return read_graph(n, graph, ctx, 0);
}

/* ---- waits ---------------------------------------------------------------------------------- */

bool graph_nodes_may_wait(CUgraph graph, int depth)
{
    size_t count = 0;
    bool waits = false;
    CUgraphNode *node;
    int r = graph_handles(graph, depth, &node, &count);
    for (size_t i = 0; i < count && !waits && !r; i++) {
        CUgraphNodeType type;
        CUgraph child;
        if (REAL(cuGraphNodeGetType)(node[i], &type) != CUDA_SUCCESS)
            continue;
        waits = type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ||
                type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT ||
                type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP ||
                (type == CU_GRAPH_NODE_TYPE_GRAPH &&
                 REAL(cuGraphChildGraphNodeGetGraph)(node[i], &child) == CUDA_SUCCESS &&
                 graph_nodes_may_wait(child, depth + 1));
    }
    free(node);
    return waits;
}

/* ---- one graph, without those inside --------------------------------------------------------- */

struct spot {
    CUgraphNode handle;
    uint32_t at;         /* index in graph_nodes */
    uint32_t waits_for;  /* edges into it that were not seen yet */
    uint32_t level;      /* number of edges of the longest path to it */
    size_t first, edges; /* those out of it */
    uint64_t ungated_ns; /* work since the last gate on the longest path to it */
};

struct edge {
    struct spot *from, *to;
};

struct level {
    struct spot *spot, **order; /* `spot` is sorted by handle */
    struct edge *edge;          /* sorted by `from` */
    uint32_t *width;            /* number of nodes of each level */
    uint32_t count;
};

static int compare_spots(const void *a, const void *b)
{
    const struct spot *x = a, *y = b;
    return (x->handle > y->handle) - (x->handle < y->handle);
}

static int compare_edges(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

static struct spot *spot_of(const struct level *l, CUgraphNode handle)
{
    struct spot key = {.handle = handle}, *found;
    found = bsearch(&key, l->spot, l->count, sizeof(key), compare_spots);
    return found ? found : l->spot;
}

static int level_read(struct level *l, const struct graph_nodes *n, CUgraph graph, uint32_t first,
                      uint32_t end)
{
    uint32_t room = end - first + 1;
    *l = (struct level){.spot = calloc(room, sizeof(*l->spot)),
                        .order = calloc(room, sizeof(struct spot *)),
                        .width = calloc(room, sizeof(*l->width))};
    if (!l->spot || !l->order || !l->width)
        return -ENOMEM;
    for (uint32_t at = first; at < end; at += 1 + n->node[at].inside)
        l->spot[l->count++] = (struct spot){.handle = n->node[at].handle, .at = at};
    qsort(l->spot, l->count, sizeof(*l->spot), compare_spots);
    size_t count = 0;
    if (REAL(cuGraphGetEdges)(graph, NULL, NULL, &count) != CUDA_SUCCESS)
        return -EINVAL;
    CUgraphNode *from = calloc(2 * count + 1, sizeof(*from)), *to = from + count;
    l->edge = calloc(count + 1, sizeof(*l->edge));
    int r = from && l->edge ? 0 : -ENOMEM;
    /* If some edges are more than an order, CUDA 12.3 and later answer LOSSY_QUERY. */
    if (!r && count && REAL(cuGraphGetEdges)(graph, from, to, &count) != CUDA_SUCCESS)
        r = -EINVAL;
    for (size_t i = 0; i < count && !r; i++) {
        l->edge[i] = (struct edge){spot_of(l, from[i]), spot_of(l, to[i])};
        l->edge[i].to->waits_for++;
    }
    free(from);
    if (r)
        return r;
    qsort(l->edge, count, sizeof(*l->edge), compare_edges);
    for (size_t i = count; i-- > 0;) {
        l->edge[i].from->first = i;
        l->edge[i].from->edges++;
    }
    return 0;
}

/* ---- placing --------------------------------------------------------------------------------- */

struct placing {
    uint64_t spacing_ns;
    uint64_t ungated_ns; /* work since a gate up to the graph's begin; then up to its end */
    uint32_t width;      /* product of the widths of the levels around the graph */
};

static int place_graph(struct graph_nodes *n, CUgraph graph, uint32_t first, uint32_t end,
                       struct placing *p);

/* Sets behind_ns to the work between the last gate and the end of the node. */
static int place_node(struct graph_nodes *n, const struct spot *s, uint32_t width,
                      const struct placing *outer, uint64_t *behind_ns)
{
    struct graph_node *node = &n->node[s->at];
    *behind_ns = s->ungated_ns;
    if (node->child) {
        struct placing inner = {outer->spacing_ns, s->ungated_ns, outer->width * width};
        int r = place_graph(n, node->child, s->at + 1, s->at + 1 + node->inside, &inner);
        *behind_ns = inner.ungated_ns;
        return r;
    }
    if (!node->est_ns)
        return 0;
    uint64_t est_ns = node->unknown ? outer->spacing_ns : node->est_ns;
    uint64_t ns = outer->spacing_ns / outer->width / width;
    node->gate =
        s->ungated_ns && s->ungated_ns + est_ns > (ns > VHQ_GATE_LEAST_NS ? ns : VHQ_GATE_LEAST_NS);
    n->gates += node->gate;
    *behind_ns = node->gate ? est_ns : s->ungated_ns + est_ns;
    return 0;
}

static int place_graph(struct graph_nodes *n, CUgraph graph, uint32_t first, uint32_t end,
                       struct placing *p)
{
    struct level l;
    uint64_t end_ns = 0, behind_ns;
    uint32_t sorted = 0;
    int r = level_read(&l, n, graph, first, end);
    /* Sorts the nodes: each after those that it depends on. */
    for (uint32_t i = 0; i < l.count && !r; i++)
        if (!l.spot[i].waits_for)
            l.order[sorted++] = &l.spot[i];
    for (uint32_t i = 0; i < sorted; i++) {
        const struct spot *s = l.order[i];
        l.width[s->level]++;
        for (size_t e = s->first; e < s->first + s->edges; e++) {
            struct spot *to = l.edge[e].to;
            if (to->level <= s->level)
                to->level = s->level + 1;
            if (--to->waits_for == 0)
                l.order[sorted++] = to;
        }
    }
    if (!r && sorted != l.count)
        r = -EINVAL;
    for (uint32_t i = 0; i < l.count && !r; i++) {
        struct spot *s = l.order[i];
        if (s->level == 0)
            s->ungated_ns = p->ungated_ns;
        r = place_node(n, s, l.width[s->level], p, &behind_ns);
        for (size_t e = s->first; e < s->first + s->edges; e++)
            if (l.edge[e].to->ungated_ns < behind_ns)
                l.edge[e].to->ungated_ns = behind_ns;
        if (!s->edges && behind_ns > end_ns)
            end_ns = behind_ns;
    }
    p->ungated_ns = l.count ? end_ns : p->ungated_ns;
    free(l.spot);
    free(l.order);
    free(l.width);
    free(l.edge);
    return r;
}

int graph_nodes_place_gates(struct graph_nodes *n, CUgraph graph, uint64_t spacing_ns)
{
    struct placing p = {.spacing_ns = spacing_ns, .width = 1};
    return place_graph(n, graph, 0, n->count, &p);
}
