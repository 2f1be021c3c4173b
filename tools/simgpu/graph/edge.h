/*
 * edge.h - edges between the nodes of a graph: the later node depends on the earlier one.
 * Everything here is called under graph_lock.
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_EDGE_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_EDGE_H

#include "tools/simgpu/face/sim.h"

struct sim_node;

/* The eight bytes of CUgraphEdgeData, which CUDA before 12.3 lacks. All zero: a full dependency. */
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

/* One that is not there yet. False when memory is short. */
bool edge_add(struct sim_node *from, struct sim_node *to, struct edge_data data);
void edge_remove(struct sim_node *from, struct sim_node *to);
/* Edges into a new node from `n` nodes of the same graph, each at most once:
 * CUDA_ERROR_INVALID_VALUE, and CUDA_ERROR_OUT_OF_MEMORY, with those before it made. `data` may be
 * NULL: full dependencies. */
CUresult node_depend(struct sim_node *node, struct sim_node *const *from,
                     const struct edge_data *data, size_t n);
/* Would from -> to close a circle? True also when memory is short. */
bool node_reaches(struct sim_node *from, const struct sim_node *to);

#endif
