/*
 * exec.h - an executable graph: the works of a graph and of the graphs inside it in one array, each
 * after those it depends on, spread over lanes. A lane is a stream; lane 0 is the one that the
 * graph is launched into. Works of other contexts have lanes there. A conditional node's work is a
 * choice, which holds the graphs inside it.
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_EXEC_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_EXEC_H

#include "tools/simgpu/graph/graph.h"

enum { LANES_MAX = 16 };

struct exec_node {
    uint64_t id;           /* of the graph's node; 0 for the joints around a child graph */
    struct sim_node *node; /* whose it was when the exec was made: later for error reports only */
    CUgraphNodeType type;
    struct work *works; /* one; several for a batch of memory operations; none: empty */
    size_t count;
    size_t *after, after_count; /* places in the array, all before this one */
    struct sim_context *ctx;    /* that it runs in */
    int lane;
    bool disabled;
    struct graph_object *objects; /* of the child graph that begins here */
    struct point done;            /* while a launch is under way */
};

struct sim_exec {
    struct handle handle;
    uint64_t id;
    struct sim_context *ctx;
    unsigned long long flags;
    pthread_mutex_t lock; /* a launch, an update: one at a time */
    struct exec_node *nodes;
    size_t count;
    int lanes;
    struct sim_context *lane_ctx[LANES_MAX];
    struct sim_stream
        *branches[LANES_MAX]; /* lanes 1..; made at the first launch that needs them */
    int priority;             /* of the branches */
    struct point end;         /* of the last launch */
    struct graph_object *objects;
};

/* exec_objects.c: the user objects of a graph, which are returned, and of the graphs inside, which
 * its flat nodes get. Under graph_lock. */
struct graph_object *exec_objects_copy(const struct sim_graph *g, struct exec_node *nodes,
                                       size_t count);
/* Taken from the nodes, into `*list` too. */
void exec_objects_take(struct exec_node *nodes, size_t count, struct graph_object **list);
/* Let go behind the launch that ends there: calls destructors, never under a lock. */
void exec_objects_release(struct sim_context *ctx, struct point end, struct graph_object *objects);

/* Of the application's handle. */
struct sim_exec *exec_find(CUgraphExec handle);

/* ---- graph_flat.c ---------------------------------------------------------------------------- */

/* A flat copy of the graph in `nodes`, which the caller frees if it fails, too; conditional nodes
 * have no work yet, which choice.c makes. Under graph_lock. CUDA_ERROR_INVALID_VALUE for a
 * circle. */
CUresult flat_make(const struct sim_graph *g, struct exec_node **nodes, size_t *count);
void exec_nodes_free(struct exec_node *nodes, size_t count);
/* Gives each node a lane. CUDA_ERROR_NOT_SUPPORTED: it has more contexts than there are lanes. */
CUresult exec_assign_lanes(struct sim_exec *x);

/* ---- graph_launch.c -------------------------------------------------------------------------- */

/* The argument in which a conditional node's work finds the priority of the launch. */
enum { LAUNCH_PRIORITY = 2 };

/* Streams of that priority for the lanes from `first` on. */
CUresult launch_branches(struct sim_exec *x, int first, int priority);
/* Behind `start`, with lane 0 in that stream and, but for what a conditional node runs, the submit
 * lock held alone; x->end tells when it is over. */
CUresult launch_nodes(struct sim_exec *x, struct sim_stream *s, struct point start);

/* ---- choice.c -------------------------------------------------------------------------------- */

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
