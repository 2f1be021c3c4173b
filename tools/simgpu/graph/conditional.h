/*
 * conditional.h - conditional nodes. A condition is the variable behind a CUgraphConditionalHandle: kernels
 * set it, and a conditional node, when its turn comes in a launch, runs the graph inside it that the value
 * names. In an executable graph such a node is a choice.
 */
#ifndef SIMGPU_CONDITIONAL_H
#define SIMGPU_CONDITIONAL_H

#include "tools/simgpu/graph/graph_exec.h"

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

/* The same in an executable graph, held by the work of its node and by the works of launches. */
struct choice {
    _Atomic int holders;
    struct condition *condition;
    int type;
    unsigned int size;
    struct sim_exec *bodies; /* without handles, and not launched but by the choice */
};

/* ---- in graphs: all under graph_lock ------------------------------------------------------------- */

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

/* ---- in executable graphs -------------------------------------------------------------------------- */

#define choice_of(node) ((struct choice *)(node)->works[0].args.ptr[0])

/* The work of the node, with the graphs inside laid flat. Under graph_lock. */
CUresult choice_make(const struct sim_node *n, struct work *w);
/* What a launch tells its copy of the work: the priority of what the node runs. */
void choice_prepare(struct work *w, int priority);
/* The node of that id inside, which may be changed: launches already made have another one. NULL: none. */
struct exec_node *choice_find(struct exec_node *n, uint64_t id);
/* May all choices go by their conditions in x, and no other executable graph does? Under graph_lock. */
bool choices_free_for(const struct exec_node *nodes, size_t count, const struct sim_exec *x);
/* They do from now on; NULL: in none. Under graph_lock. */
void choices_own(const struct exec_node *nodes, size_t count, const struct sim_exec *x);
/* Submits what gives the conditions of x their default values; `begun` moves behind it. */
CUresult choices_begin(const struct sim_exec *x, struct sim_stream *s, struct point *begun);
/* graph_exec.c: run a body in streams of its own; x->end tells when it is over. */
CUresult exec_body_run(struct sim_exec *x, int priority);

#endif
