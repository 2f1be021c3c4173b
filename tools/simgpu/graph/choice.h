/*
 * choice.h - conditional nodes in executable graphs.
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_CHOICE_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_CHOICE_H

#include "tools/simgpu/graph/exec.h"

/* What conditional.h says of the node, held by the work of its node and by the works of
 * launches. */
struct choice {
    _Atomic int holders;
    struct condition *condition;
    int type;
    unsigned int size;
    struct sim_exec *bodies; /* without handles, and not launched but by the choice */
};

#define choice_of(node) ((struct choice *)(node)->works[0].args.ptr[0])

/* A flat copy of the graph in `nodes`, with the graphs inside its conditional nodes. Under
 * graph_lock. */
CUresult exec_flatten(const struct sim_graph *g, struct exec_node **nodes, size_t *count);
/* The node of that id inside, which may be changed: launches already made have another one. NULL:
 * none. */
struct exec_node *choice_find(struct exec_node *n, uint64_t id);
/* May all choices go by their conditions in x, and no other executable graph does? Under
 * graph_lock. */
bool choices_free_for(const struct exec_node *nodes, size_t count, const struct sim_exec *x);
/* They do from now on; NULL: in none. Under graph_lock. */
void choices_own(const struct exec_node *nodes, size_t count, const struct sim_exec *x);
/* Submits what gives the conditions of x their default values; `begun` moves behind it. */
CUresult choices_begin(const struct sim_exec *x, struct sim_stream *s, struct point *begun);

#endif
