/*
 * conditional.h - conditional nodes. A condition is the variable behind a CUgraphConditionalHandle:
 * kernels set it, and a conditional node, when its turn comes in a launch, runs the graph inside it
 * that the value names. In an executable graph such a node is a choice (choice.h).
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_CONDITIONAL_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_CONDITIONAL_H

#include "tools/simgpu/graph/graph.h"

/* CU_GRAPH_COND_TYPE_*, of which headers before 12.3 do not know. */
enum { CONDITION_IF, CONDITION_WHILE, CONDITION_SWITCH };

struct condition;

/* A conditional node's own: what it was made with, and the graphs inside. */
struct conditional {
    struct condition *condition;
    int type;
    unsigned int size;
    CUgraph *handles; /* phGraph_out: for the application to read */
};

/* All under graph_lock. */

#if CUDA_VERSION >= 12030
/* Makes a conditional node of a fresh one. */
CUresult conditional_make(struct sim_node *n, CUDA_CONDITIONAL_NODE_PARAMS *p);
#endif
void conditional_free(struct sim_node *n, struct graph_object **released);
/* Does a graph inside the node have such a node? */
bool conditional_has(const struct sim_node *n, bool (*such)(CUgraphNodeType type));
/* May such a node come into the graph, as far as conditional nodes around it or it go? */
bool conditional_allows(const struct sim_graph *g, CUgraphNodeType type);
/* Is it a type that no graph inside a conditional node may have? */
bool type_barred(CUgraphNodeType type);
/* The graph goes: its handles are its no more. */
void conditions_leave(struct sim_graph *g);
/* Is there a handle of the graph, or of one inside, that no node goes by? */
bool conditions_unused(const struct sim_graph *g);

#endif
