/*
 * program_graphs.c - a CUDA program of graphs, for graph_gates.c: `program_graphs MODE FILE`.
 *
 * loop:     launches a graph of many kernels, until SIGTERM.
 * branches: the same, as eight chains side by side.
 * memory:   the same, and the graph allocates memory: no copy of it may be made.
 * change:   launches a graph until there is the file; changes the executable graph in every way
 *           that CUDA has, between launches; then waits for SIGTERM.
 * moved:    the same, and the graph inside was moved there: its nodes keep their handles.
 * levels:   as loop, with a stream of another priority beside.
 *
 * Prints "right" in the end if the kernels, whose order shows, have done what they should.
 */
#include "examples/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ELEMENTS = 256,
    KERNELS = 1000,
    BRANCHES = 8, /* each works on elements of its own */
    INSIDE = 12,
    CHANGED = 60,
    KERNEL_NS = 20000,
};

struct kernel {
    uint32_t a, b;
    bool off;
};

/* A chain, and the nodes of the graph in its last node. */
struct chain {
    CUgraph graph;
    CUgraphNode node[KERNELS];
    struct kernel kernel[KERNELS], inside[INSIDE];
    CUgraphNode in[INSIDE]; /* the nodes of that graph */
    int count;
    bool child, moved; /* the last node is a graph; ownership of it was moved */
};

static struct gpu gpu;
static CUstream stream, other;
static CUdeviceptr x; /* the elements that the next kernels work on */
static int branches = 1;
static uint32_t model = 1; /* the value that every element must have */

/* ---- graphs ---------------------------------------------------------------------------------- */

struct arguments {
    uint64_t x, ns;
    uint32_t a, b, n;
    void *params[5];
};

static CUDA_KERNEL_NODE_PARAMS node_of(const struct kernel *k, struct arguments *p)
{
    *p = (struct arguments){.x = x, .ns = KERNEL_NS, .a = k->a, .b = k->b, .n = ELEMENTS};
    void *params[] = {&p->x, &p->a, &p->b, &p->n, &p->ns};
    memcpy(p->params, params, sizeof(params));
    return (CUDA_KERNEL_NODE_PARAMS){.func = gpu.mix_spin,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 256,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = p->params};
}

static CUgraphNode add(CUgraph graph, const CUgraphNode *after, const struct kernel *k)
{
    struct arguments arguments;
    CUDA_KERNEL_NODE_PARAMS p = node_of(k, &arguments);
    CUgraphNode node;

    CHECK(cuGraphAddKernelNode(&node, graph, after, !!after, &p));
    return node;
}

static CUgraph inside_make(const struct kernel *kernels, CUgraphNode *node)
{
    CUgraph graph;

    CHECK(cuGraphCreate(&graph, 0));
    for (int i = 0; i < INSIDE; i++)
        node[i] = add(graph, i ? &node[i - 1] : NULL, &kernels[i]);
    return graph;
}

/* The ownership is the field behind the graph, though older headers have no name for it. */
static void inside_move(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, CUgraph inside)
{
    const int move = 1; /* CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE */
    CUgraphNodeParams p;

    memset(&p, 0, sizeof(p));
    p.type = CU_GRAPH_NODE_TYPE_GRAPH;
    p.graph.graph = inside;
    memcpy((char *)&p.graph + sizeof(inside), &move, sizeof(move));
    CHECK(cuGraphAddNode_v2(node, graph, after, NULL, !!after, &p));
}

static void chain_draw(struct chain *c, uint32_t salt)
{
    for (int i = 0; i < c->count; i++)
        c->kernel[i] = (struct kernel){mix_a((uint64_t)i + salt), mix_b((uint64_t)i + salt), false};
    for (int i = 0; i < INSIDE; i++)
        c->inside[i] =
            (struct kernel){mix_a((uint64_t)i * 3 + salt), mix_b((uint64_t)i * 5 + salt), false};
}

static void chain_make(struct chain *c)
{
    CHECK(cuGraphCreate(&c->graph, 0));
    for (int i = 0; i < c->count; i++) {
        const CUgraphNode *after = i ? &c->node[i - 1] : NULL;
        CUgraph inside;

        if (i < c->count - 1 || !c->child) {
            c->node[i] = add(c->graph, after, &c->kernel[i]);
            continue;
        }
        inside = inside_make(c->inside, c->in);
        if (c->moved) {
            inside_move(&c->node[i], c->graph, after, inside);
            continue;
        }
        CHECK(cuGraphAddChildGraphNode(&c->node[i], c->graph, after, !!after, inside));
        CHECK(cuGraphDestroy(inside));
    }
}

static void branches_make(struct chain *c)
{
    CUdeviceptr first = x;

    branches = BRANCHES;
    CHECK(cuGraphCreate(&c->graph, 0));
    for (int b = 0; b < BRANCHES; b++, x += ELEMENTS * sizeof(uint32_t))
        for (int i = 0; i < c->count; i++)
            c->node[i] = add(c->graph, i ? &c->node[i - 1] : NULL, &c->kernel[i]);
    x = first;
}

static void kernel_model(const struct kernel *k)
{
    if (!k->off)
        model = model * k->a + k->b;
}

static void chain_model(const struct chain *c)
{
    for (int i = 0; i < c->count - c->child; i++)
        kernel_model(&c->kernel[i]);
    for (int i = 0; c->child && i < INSIDE; i++)
        kernel_model(&c->inside[i]);
}

/* ---- running --------------------------------------------------------------------------------- */

static void launch(CUgraphExec exec, CUstream s, const struct chain *c)
{
    CHECK(cuGraphLaunch(exec, s));
    chain_model(c);
}

static void compare(const char *after)
{
    uint32_t words[BRANCHES * ELEMENTS];

    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(words, x, sizeof(words)));
    for (int i = 0; i < branches * ELEMENTS; i++)
        if (words[i] != model) {
            printf("wrong after %s: %u, not %u\n", after, words[i], model);
            exit(EXIT_FAILURE);
        }
}

/* Learns the kernel's time before the graph is made. */
static void warm_up(void)
{
    const struct kernel nothing = {1, 0, false};
    struct arguments p;

    for (int i = 0; i < 8; i++) {
        (void)node_of(&nothing, &p);
        CHECK(cuLaunchKernel(gpu.mix_spin, 1, 1, 1, 256, 1, 1, 0, stream, p.params, NULL));
        CHECK(cuStreamSynchronize(stream));
    }
}

/* Adds memory nodes beside the chain. */
static void memory_add(CUgraph graph)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytesize = 4096};
    CUgraphNode made, gone;

    CHECK(cuGraphAddMemAllocNode(&made, graph, NULL, 0, &p));
    CHECK(cuGraphAddMemFreeNode(&gone, graph, &made, 1, p.dptr));
}

static void loop(const char *mode)
{
    bool wide = strcmp(mode, "branches") == 0;
    static struct chain c = {.count = KERNELS};
    CUgraphExec exec;

    chain_draw(&c, 0);
    if (wide) {
        c.count = KERNELS / BRANCHES;
        branches_make(&c);
    } else {
        chain_make(&c);
    }
    if (strcmp(mode, "memory") == 0)
        memory_add(c.graph);
    CHECK(cuGraphInstantiate(&exec, c.graph, 0));
    printf("ready\n");
    fflush(stdout);
    while (!stopped) {
        launch(exec, stream, &c);
        launch(exec, stream, &c);
        CHECK(cuStreamSynchronize(stream));
    }
    compare("launches");
    CHECK(cuGraphExecDestroy(exec));
}

static void set_kernel(CUgraphExec exec, struct chain *c, int i, uint32_t salt)
{
    struct arguments arguments;

    c->kernel[i] = (struct kernel){mix_a(salt), mix_b(salt), c->kernel[i].off};
    CUDA_KERNEL_NODE_PARAMS p = node_of(&c->kernel[i], &arguments);
    CHECK(cuGraphExecKernelNodeSetParams(exec, c->node[i], &p));
}

static void set_inside(CUgraphExec exec, struct chain *c, int i, uint32_t salt)
{
    struct arguments arguments;

    c->inside[i] = (struct kernel){mix_a(salt), mix_b(salt), false};
    CUDA_KERNEL_NODE_PARAMS p = node_of(&c->inside[i], &arguments);
    CHECK(cuGraphExecKernelNodeSetParams(exec, c->in[i], &p));
}

static size_t nodes_of(CUgraph graph)
{
    size_t count = 0;

    CHECK(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

static void change(bool moved, const char *file)
{
    static struct chain c = {.count = CHANGED, .child = true},
                        d = {.count = CHANGED, .child = true}, longer = {.count = CHANGED + 1};
    CUgraphExecUpdateResultInfo info;
    CUgraph inside;
    CUgraphNode unused[INSIDE];
    CUgraphExec exec;

    c.moved = moved;
    chain_draw(&c, 0);
    chain_make(&c);
    CHECK(cuGraphInstantiate(&exec, c.graph, 0));
    CHECK(cuGraphUpload(exec, stream));
    do {
        launch(exec, stream, &c);
        launch(exec, other, &c);
        launch(exec, stream, &c);
        compare("launches in two streams");
    } while (access(file, F_OK) != 0);
    if (nodes_of(c.graph) != CHANGED) {
        printf("the graph was changed\n");
        exit(EXIT_FAILURE);
    }
    for (uint32_t i = 0; i < 20; i++) {
        launch(exec, stream, &c);
        set_kernel(exec, &c, (int)(7 * i % (CHANGED - 1)), i);
        launch(exec, other, &c);
    }
    compare("new parameters");
    for (uint32_t i = 0; moved && i < 20; i++) {
        launch(exec, stream, &c);
        set_inside(exec, &c, (int)(5 * i % INSIDE), 900 + i);
        launch(exec, other, &c);
    }
    compare("new parameters inside");
    c.kernel[5].off = true;
    CHECK(cuGraphNodeSetEnabled(exec, c.node[5], 0));
    launch(exec, stream, &c);
    c.kernel[5].off = false;
    CHECK(cuGraphNodeSetEnabled(exec, c.node[5], 1));
    launch(exec, stream, &c);
    compare("a node was off");
    chain_draw(&d, 17);
    memcpy(c.inside, d.inside, sizeof(c.inside));
    inside = inside_make(c.inside, unused);
    CHECK(cuGraphExecChildGraphNodeSetParams(exec, c.node[CHANGED - 1], inside));
    CHECK(cuGraphDestroy(inside));
    launch(exec, stream, &c);
    compare("another graph inside");
    chain_make(&d);
    launch(exec, stream, &c);
    CHECK(cuGraphExecUpdate(exec, d.graph, &info));
    memcpy(c.kernel, d.kernel, sizeof(c.kernel));
    memcpy(c.inside, d.inside, sizeof(c.inside));
    CHECK(cuGraphDestroy(d.graph));
    launch(exec, stream, &c);
    set_kernel(exec, &c, 11, 4711);
    launch(exec, other, &c);
    compare("another graph");
    chain_draw(&longer, 3);
    chain_make(&longer);
    if (cuGraphExecUpdate(exec, longer.graph, &info) == CUDA_SUCCESS) {
        printf("another shape was accepted\n");
        exit(EXIT_FAILURE);
    }
    launch(exec, stream, &c);
    compare("a shape that was refused");
    CHECK(cuGraphDestroy(c.graph));
    launch(exec, stream, &c);
    launch(exec, other, &c);
    CHECK(cuGraphExecDestroy(exec));
    compare("the end of it");
    printf("changed\n");
    fflush(stdout);
    while (!stopped)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int least, greatest;

    stop_on_signals();
    gpu_open(&gpu);
    CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING,
                                     strcmp(mode, "levels") == 0 ? greatest : least));
    CHECK(cuMemAlloc(&x, BRANCHES * ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemsetD32(x, 1, BRANCHES * ELEMENTS));
    warm_up();
    if (strcmp(mode, "change") == 0 || strcmp(mode, "moved") == 0)
        change(strcmp(mode, "moved") == 0, argc > 2 ? argv[2] : "/");
    else
        loop(mode);
    printf("right\n");
    gpu_close(&gpu);
    return EXIT_SUCCESS;
}
