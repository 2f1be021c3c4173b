/*
 * graph_flat.h - from a graph to an array in launch order.
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_GRAPH_FLAT_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_GRAPH_FLAT_H

#include "tools/simgpu/graph/exec.h"

/* A flat copy of the graph in `nodes`; conditional nodes have no work yet, which choice.h makes.
 * Under graph_lock. CUDA_ERROR_INVALID_VALUE for a circle. */
CUresult flat_make(const struct sim_graph *g, struct exec_node **nodes, size_t *count);
void exec_nodes_free(struct exec_node *nodes, size_t count);
/* Gives each node a lane. CUDA_ERROR_NOT_SUPPORTED: it has more contexts than there are lanes. */
CUresult exec_assign_lanes(struct sim_exec *x);

#endif
