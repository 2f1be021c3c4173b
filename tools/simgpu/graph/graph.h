/*
 * graph.h - graphs and their nodes. A node holds one work, as a stream would submit it. Both ends
 * of an edge know it. One lock guards the structure of all graphs and captures. It is never held
 * while works are submitted or the application's code runs.
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
    uint64_t origin; /* of a node in a clone: the id of the original */
    CUgraphNodeType type;
    struct work *works; /* owned, with blobs and references: one, or a batch memop's operations */
    size_t count;       /* 0: empty, or a graph inside */
    CUstreamBatchMemOpParams *memops;                   /* batch memop: all of them, for queries */
    void **params;                                      /* kernel: pointers into its work's blob */
    CUlaunchAttributeValue attributes[NODE_ATTRIBUTES]; /* kernel, by id */
    struct sim_graph *child;                            /* child graph node: owned */
    struct conditional *conditional;                    /* conditional node: owned */
    struct edges in, out;
    size_t entry, exit; /* its indices in the exec that is being made */
    uint64_t visit;     /* the latest walk that visited it */
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
    struct sim_node *owner; /* the node that owns it; NULL: the application does */
    bool inner;             /* the application has its handle, but only the node may use it */
    bool capturing;         /* a capture is adding nodes to it */
    struct graph_object *objects;
    struct condition *conditions; /* the handles that were made for it */
};

/* What a node does, before the node has it. Owned. */
struct parts {
    struct work *works; /* NULL although count is not 0: there was no memory */
    size_t count;
};

extern pthread_mutex_t graph_lock;

/* All of these are called under graph_lock. NULL for any handle that is not live. */
struct sim_graph *graph_find(CUgraph handle);
struct sim_node *node_find(CUgraphNode handle);
#define graph_handle(g) ((CUgraph)(void *)(g))
#define node_handle(n)  ((CUgraphNode)(void *)(n))

/* A new id, for a graph, a node or an executable graph. Takes no lock. */
uint64_t graph_next_id(void);

struct sim_graph *graph_new(void);
/* Frees a graph with its nodes. Adds user objects to `*released`, for the caller to let go without
 * a lock. */
void graph_free(struct sim_graph *g, struct graph_object **released);
struct sim_graph *graph_copy(const struct sim_graph *g);
/* Makes a node without edges, which does copies of these works. NULL: no memory. */
struct sim_node *node_new(struct sim_graph *g, CUgraphNodeType type, const struct work *works,
                          size_t count);
void node_free(struct sim_node *n, struct graph_object **released);

/* Whether it is that graph, or one inside it. */
bool graph_inside(const struct sim_graph *g, const struct sim_graph *of);
/* Whether it, or a graph inside, has a node of such a type. */
bool graph_has(const struct sim_graph *g, bool (*such)(CUgraphNodeType type));
/* Types of which no copy of a graph can have nodes: memory that the graph has, and conditions. */
bool type_uncopyable(CUgraphNodeType type);

/* Copies works: their blobs are copied, references are taken. NULL: no works, or no memory. */
struct work *works_copy(const struct work *works, size_t count);
void parts_free(struct parts *p);
/* Takes the parts; what the node did before is freed. */
CUresult node_fill(struct sim_node *n, struct parts *p);

/* user_object.c: graph_objects_release calls destructors, so never under a lock. */
struct graph_object *graph_objects_copy(const struct graph_object *from);
void graph_objects_release(struct graph_object *objects);
static inline void graph_objects_end(struct graph_object **objects)
{
    graph_objects_release(*objects);
}
/* Objects that are let go at the end of the block, after a lock that was taken later. */
#define RELEASED(name) struct graph_object *name __attribute__((cleanup(graph_objects_end))) = NULL

#endif
