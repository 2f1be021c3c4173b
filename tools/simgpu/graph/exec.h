/*
 * exec.h - an executable graph: the works of a graph, and of the graphs inside it, in one array.
 * Each comes after those that it depends on, and has a lane. A lane is a stream. Lane 0 is the
 * stream that the graph is launched into; works of other contexts have lanes in those. The work of
 * a conditional node is a choice, which holds the graphs inside it.
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_EXEC_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_EXEC_H

#include "tools/simgpu/graph/graph.h"

enum { LANES_MAX = 16 };

struct exec_node {
    uint64_t id;           /* of the graph's node; 0: a joint behind a child graph */
    struct sim_node *node; /* the node that it was made from; afterwards for error reports only */
    CUgraphNodeType type;
    struct work *works; /* one; for a batch of memory operations several; NULL: empty */
    size_t count;
    size_t *after, after_count; /* indices in the array, all smaller than this one's */
    struct sim_context *ctx;    /* the context that it runs in */
    int lane;
    bool disabled;
    struct graph_object *objects; /* the user objects of the child graph that begins here */
    struct point done;            /* where it is, while a launch is under way */
};

struct sim_exec {
    struct handle handle;
    uint64_t id;
    struct sim_context *ctx;
    unsigned long long flags;
    pthread_mutex_t lock; /* one launch or update at a time */
    struct exec_node *nodes;
    size_t count;
    int lanes;
    struct sim_context *lane_ctx[LANES_MAX];
    struct sim_stream
        *branches[LANES_MAX]; /* lanes 1..; made at the first launch that needs them */
    int priority;             /* of the branches */
    struct point end;         /* where the last launch ends */
    struct graph_object *objects;
};

/* exec_objects.c: returns the user objects of a graph, and gives those of the graphs inside to the
 * flat nodes. Under graph_lock. */
struct graph_object *exec_objects_copy(const struct sim_graph *g, struct exec_node *nodes,
                                       size_t count);
/* Takes them from the nodes and adds them to `*list`. */
void exec_objects_take(struct exec_node *nodes, size_t count, struct graph_object **list);
/* Lets them go behind the launch that ends at `end`. Calls destructors, so never under a lock. */
void exec_objects_release(struct sim_context *ctx, struct point end, struct graph_object *objects);

/* The executable graph with this handle. */
struct sim_exec *exec_find(CUgraphExec handle);

/* ---- graph_flat.c ---------------------------------------------------------------------------- */

/* Makes a flat copy of the graph in `nodes`, which the caller frees even if this fails. Conditional
 * nodes have no work yet; choice.c makes it. Under graph_lock. CUDA_ERROR_INVALID_VALUE for a
 * circle. */
CUresult flat_make(const struct sim_graph *g, struct exec_node **nodes, size_t *count);
void exec_nodes_free(struct exec_node *nodes, size_t count);
/* Gives each node a lane. CUDA_ERROR_NOT_SUPPORTED: there are more contexts than lanes. */
CUresult exec_assign_lanes(struct sim_exec *x);

/* ---- graph_launch.c -------------------------------------------------------------------------- */

/* Index of the argument by which a conditional node's work learns the priority of the launch. */
enum { LAUNCH_PRIORITY = 2 };

/* Makes streams of that priority for the lanes from `first` on. */
CUresult launch_open_lanes(struct sim_exec *x, int first, int priority);
/* Submits the nodes behind `start`, with `s` as lane 0. The caller holds the submit lock
 * exclusively, except for what a conditional node runs. x->end is the end of the launch. */
CUresult launch_nodes(struct sim_exec *x, struct sim_stream *s, struct point start);

/* ---- choice.c -------------------------------------------------------------------------------- */

/* A conditional node (conditional.h) in an executable graph. The work of the node holds it, and the
 * works of launches do. */
struct choice {
    _Atomic int refs;
    struct condition *condition;
    int type;
    unsigned int size;
    struct sim_exec *bodies; /* they have no handles, and only the choice launches them */
};

#define choice_of(node) ((struct choice *)(node)->works[0].args.ptr[0])

/* Makes a flat copy of the graph in `nodes`, with the graphs inside its conditional nodes. Under
 * graph_lock. */
CUresult exec_flatten(const struct sim_graph *g, struct exec_node **nodes, size_t *count);
/* The node with that id in `n`, to be changed: launches already made have another copy. NULL: there
 * is none. */
struct exec_node *choice_find(struct exec_node *n, uint64_t id);
/* Whether all conditions of the choices may belong to x, so no other executable graph has them.
 * With `bind` they belong to x from now on; NULL: to none. Under graph_lock. */
bool choices_belong(const struct exec_node *nodes, size_t count, const struct sim_exec *x,
                    bool bind);
/* Submits a work that sets the conditions of x to their defaults; `begun` becomes its point. */
CUresult choices_reset(const struct sim_exec *x, struct sim_stream *s, struct point *begun);

#endif
