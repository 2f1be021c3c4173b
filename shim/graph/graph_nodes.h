/*
 * graph_nodes.h - what a graph consists of: its nodes and those of the graphs inside it, the
 * estimated time of its kernels, and the places of gates.
 */
#ifndef CUTIN_SHIM_GRAPH_GRAPH_NODES_H
#define CUTIN_SHIM_GRAPH_GRAPH_NODES_H

#include "shim/objects/context.h"

struct graph_node {
    CUgraphNode handle;
    CUgraph child;   /* of a child graph node: the graph inside */
    uint32_t inside; /* number of nodes of `child`, which follow in the array */
    uint32_t est_ns; /* of a kernel; 0: another node, or on another device */
    bool unknown;    /* est_ns is a guess: the kernel may be as long as any */
    bool gate;       /* a gate goes in front of it */
};

/* A context of another device in which some of the graph runs, and the time of kernels there. */
struct graph_device {
    struct shim_context *ctx;
    uint64_t est_ns;
};
enum { GRAPH_DEVICES_MOST = 15 }; /* work on further devices is not counted */

struct graph_nodes {
    struct graph_node *node;
    uint32_t count;
    size_t room;
    uint32_t gates;
    uint64_t est_ns; /* of all kernels on the device */
    uint32_t unknown;
    struct graph_device device[GRAPH_DEVICES_MOST];
    uint32_t other_devices;
    bool memory;   /* it has nodes that allocate or free */
    bool copyable; /* a copy of the graph would do all that the graph does, and nothing twice */
};

/* Reads a graph and the graphs inside, as instantiated in `ctx`. Returns 0 or -errno. Free
 * n->node afterwards, in both cases. */
int graph_nodes_read(struct graph_nodes *n, CUgraph graph, struct shim_context *ctx);
/* Chooses the places of gates. On every path at most `spacing_ns` of estimated work, divided by the
 * number of branches beside it, is between two gates. A kernel of unknown time has a gate in front
 * and one behind. Returns 0 or -errno: between some nodes there can be nothing. */
int graph_nodes_place_gates(struct graph_nodes *n, CUgraph graph, uint64_t spacing_ns);
/* True: some nodes may wait for something outside the process, or for its other streams. `depth`:
 * in how many graphs it is, 0 for one that is instantiated. */
bool graph_nodes_may_wait(CUgraph graph, int depth);

#endif
