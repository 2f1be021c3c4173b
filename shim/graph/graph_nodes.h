/*
 * graph_nodes.h - what a graph consists of: its nodes and those of the graphs inside it, how long
 * its kernels are estimated to run, and where gates go.
 */
#ifndef CUTIN_SHIM_GRAPH_GRAPH_NODES_H
#define CUTIN_SHIM_GRAPH_GRAPH_NODES_H

#include "shim/objects/context.h"

struct graph_node {
    CUgraphNode handle;
    CUgraph child;   /* of a child graph node: the graph inside */
    uint32_t inside; /* nodes of that, which come next in the array */
    uint32_t est_ns; /* of a kernel; 0: another node, or another device's */
    bool unknown;    /* that is a guess: it may be as long as any */
    bool gate;       /* one goes in front of it */
};

/* A context of another device that some of it runs in, and its kernels there. */
struct graph_aside {
    struct shim_context *ctx;
    uint64_t est_ns;
};
enum { GRAPH_ASIDES = 15 }; /* what it does on more is not counted */

struct graph_nodes {
    struct graph_node *node;
    uint32_t count;
    size_t room;
    uint32_t gates;
    uint64_t est_ns; /* of all kernels of the device */
    uint32_t unknown;
    struct graph_aside aside[GRAPH_ASIDES];
    uint32_t asides;
    bool memory; /* it allocates or frees some of its own */
    bool
        copyable; /* nothing in it that a copy of the graph would do a second time, or not at all */
};

/* Reads a graph and what is inside, as it was instantiated in `ctx`. Returns 0 or -errno; either
 * way graph_nodes_free follows. */
int graph_nodes_read(struct graph_nodes *n, CUgraph graph, struct shim_context *ctx);
/* Decides where gates go: so that along every path at most `spacing_ns` of estimated work lies
 * between two of them, divided among what may run beside it; a kernel of which nothing is known has
 * one in front and one behind it. Returns 0 or -errno: nothing may come between some of the
 * nodes. */
int graph_nodes_place(struct graph_nodes *n, CUgraph graph, uint64_t spacing_ns);
/* It has nodes that may wait for something outside the process, or for other streams of it. */
bool graph_nodes_wait(CUgraph graph);
void graph_nodes_free(struct graph_nodes *n);

#endif
