/*
 * conditional.h - conditional nodes. A condition is the variable behind a CUgraphConditionalHandle,
 * which kernels set. When a conditional node's turn comes in a launch, it runs the graph inside it
 * that the value names. In an executable graph such a node is a choice (exec.h).
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_CONDITIONAL_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_CONDITIONAL_H

#include "tools/simgpu/graph/graph.h"

/* CU_GRAPH_COND_TYPE_*, which headers before 12.3 do not have. */
enum { CONDITION_IF, CONDITION_WHILE, CONDITION_SWITCH };

struct condition;

/* What a conditional node has: what it was made with, and the graphs inside. */
struct conditional {
    struct condition *condition;
    int type;
    unsigned int size;
    CUgraph *handles; /* phGraph_out: for the application to read */
};

/* All of these are called under graph_lock. */

#if CUDA_VERSION >= 12030
/* Makes a new node a conditional one. */
CUresult conditional_make(struct sim_node *n, CUDA_CONDITIONAL_NODE_PARAMS *p);
#endif
void conditional_free(struct sim_node *n, struct graph_object **released);
/* Whether a graph inside the node has such a node. */
bool conditional_has(const struct sim_node *n, bool (*such)(CUgraphNodeType type));
/* Whether the conditional nodes and child graphs around allow a node of that type in the graph. */
bool conditional_allows(const struct sim_graph *g, CUgraphNodeType type);
/* Whether graphs inside conditional nodes must not have this type. */
bool type_barred_inside(CUgraphNodeType type);
/* The graph goes. Its handles no longer belong to it. */
void conditions_detach(struct sim_graph *g);
/* Whether the graph, or one inside, has a handle that no node uses. */
bool conditions_unused(const struct sim_graph *g);

#endif
