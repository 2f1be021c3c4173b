/*
 * graph.h - graphs and their nodes. A node holds one work, as a stream would submit it; edges are
 * kept at both ends. One lock guards the structure of all graphs and captures; it is never held
 * while works are submitted or user code runs.
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_GRAPH_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_GRAPH_H

#include "tools/simgpu/device/context.h"
#include "tools/simgpu/face/handle.h"
#include "tools/simgpu/graph/edge.h"

struct sim_graph;
struct condition;
struct conditional;
struct user_object;

enum { NODE_ATTRIBUTES = 18 };
#define TYPE_CONDITIONAL ((CUgraphNodeType)13) /* CU_GRAPH_NODE_TYPE_CONDITIONAL, from 12.3 on */

struct sim_node {
    struct handle handle;
    struct sim_graph *graph;
    uint64_t id;     /* unique in the process */
    uint64_t origin; /* of a node in a clone: the original's id */
    CUgraphNodeType type;
    struct work *works; /* owned, with blobs and references: one, or a batch memop's operations */
    size_t count;       /* 0: empty, or a graph inside */
    CUstreamBatchMemOpParams *memops;                   /* batch memop: all of it, for queries */
    void **params;                                      /* kernel: pointers into its work's blob */
    CUlaunchAttributeValue attributes[NODE_ATTRIBUTES]; /* kernel, by id */
    struct sim_graph *child;                            /* child graph node: owned */
    struct conditional *conditional;                    /* conditional node: owned */
    struct edges in, out;
    size_t entry, exit; /* while an exec is being made: its places there */
    uint64_t visit;     /* the latest walk that came by */
    struct sim_node *prev, *next;
};

struct graph_object {
    struct user_object *object;
    unsigned int count;
    struct graph_object *next;
};

struct sim_graph {
    struct handle handle;
    uint64_t id, origin;
    struct sim_node *nodes; /* in order of creation */
    size_t count;
    struct sim_node *owner; /* the node that owns it; NULL for the application's own */
    bool inner;             /* the application has its handle, and the node all rights to it */
    bool capturing;         /* a capture writes to it */
    struct graph_object *objects;
    struct condition *conditions; /* handles that were made for it */
};

/* What a node does, on its way there. Owned. */
struct parts {
    struct work *works; /* NULL where there should be some: memory was short */
    size_t count;
};

extern pthread_mutex_t graph_lock;

/* Under graph_lock, all of these. NULL for anything that is not live. */
struct sim_graph *graph_find(CUgraph handle);
struct sim_node *node_find(CUgraphNode handle);
#define graph_handle(g) ((CUgraph)(void *)(g))
#define node_handle(n)  ((CUgraphNode)(void *)(n))

/* Of a graph, a node or an executable graph, each once. Takes no lock. */
uint64_t graph_next_id(void);

struct sim_graph *graph_new(void);
/* Frees a graph with its nodes. User objects are given back to `*released`, to be let go
 * unlocked. */
void graph_free(struct sim_graph *g, struct graph_object **released);
struct sim_graph *graph_copy(const struct sim_graph *g);
/* A node without edges that does copies of these works. NULL when memory is short. */
struct sim_node *node_new(struct sim_graph *g, CUgraphNodeType type, const struct work *works,
                          size_t count);
void node_free(struct sim_node *n, struct graph_object **released);

/* Is it that graph, or one inside? */
bool graph_inside(const struct sim_graph *g, const struct sim_graph *of);
/* Is there a node of such a type in it, or in a graph inside? */
bool graph_has(const struct sim_graph *g, bool (*such)(CUgraphNodeType type));
/* Of memory that the graph allocates, and conditions: no copy of the graph can have them. */
bool type_single(CUgraphNodeType type);

/* Works of one's own: blobs copied, references taken. NULL for none, and when memory is short. */
struct work *works_copy(const struct work *works, size_t count);
void parts_free(struct parts *p);
/* Takes the parts, in place of what the node did before. */
CUresult node_fill(struct sim_node *n, struct parts *p);

/* user_object.c: release calls destructors, never under a lock. */
struct graph_object *graph_objects_copy(const struct graph_object *from);
void graph_objects_release(struct graph_object *objects);
static inline void graph_objects_end(struct graph_object **objects)
{
    graph_objects_release(*objects);
}
/* Objects that are let go when the block ends, behind a lock that was taken after them. */
#define RELEASED(name) struct graph_object *name __attribute__((cleanup(graph_objects_end))) = NULL

#endif
