/*
 * exec.h - an executable graph: the works of a graph and of the graphs inside it in one array, each
 * after those it depends on, spread over lanes. A lane is a stream; lane 0 is the one that the
 * graph is launched into. Works of other contexts have lanes there.
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

#endif
