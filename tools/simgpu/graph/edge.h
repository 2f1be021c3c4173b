/*
 * edge.h - edges between the nodes of a graph: the later node depends on the earlier one. All
 * functions here are called under graph_lock.
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_EDGE_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_EDGE_H

#include "tools/simgpu/face/sim.h"

struct sim_node;

/* The bytes of CUgraphEdgeData, which CUDA has from 12.3 on. All zero: a full dependency. */
struct edge_data {
    unsigned char bytes[8];
};

struct edge {
    struct sim_node *node;
    struct edge_data data;
};

struct edges {
    struct edge *items;
    size_t count;
};

/* Adds an edge that does not exist yet. False: no memory. */
bool edge_add(struct sim_node *from, struct sim_node *to, struct edge_data data);
void edge_remove(struct sim_node *from, struct sim_node *to);
/* Adds edges into a new node from `n` nodes of the same graph, each at most once.
 * CUDA_ERROR_INVALID_VALUE and CUDA_ERROR_OUT_OF_MEMORY; the edges made before the error stay.
 * `data` may be NULL: full dependencies. */
CUresult node_depend(struct sim_node *node, struct sim_node *const *from,
                     const struct edge_data *data, size_t n);
/* Whether from -> to would close a circle. True also without memory. */
bool node_reaches(struct sim_node *from, const struct sim_node *to);

#endif
