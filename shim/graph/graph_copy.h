/*
 * graph_copy.h - a private copy, with gates, of a graph that the application has instantiated.
 *
 * The driver runs a graph to its end: a stream's gates stand in front of commands, never inside. So
 * the shim launches a copy in its place, with a node between kernels every so much estimated work
 * that waits for the hold word to be 0, as a stream's gates do. The application's own graph,
 * executable graph and nodes stay as they are; whatever it changes of them is changed in the copy
 * as well. A copy that cannot follow goes, and what the application has is launched again.
 *
 * Launches of one executable graph never run side by side. The driver sees to that as long as all
 * are of one; an event does where one of the two follows one of the other.
 */
#ifndef CUTIN_SHIM_GRAPH_GRAPH_COPY_H
#define CUTIN_SHIM_GRAPH_GRAPH_COPY_H

#include "shim/graph/graph_nodes.h"

struct graph_copy;

/* `graph` was instantiated in `ctx`, the current context. NULL: it needs no gates, or (counted in
 * the page) cannot have any. */
struct graph_copy *graph_copy_new(struct shim_context *ctx, CUgraph graph, struct graph_nodes *n,
                                  unsigned long long flags);
/* NULL is allowed. The driver frees what still runs when it is done. */
void graph_copy_free(struct graph_copy *c);

/* What a launch of `handle`, the application's, in a stream of this context and level is to
 * launch. */
CUgraphExec graph_copy_choose(struct graph_copy *c, CUgraphExec handle, struct shim_context *ctx,
                              uint32_t level);
/* Around the launch of what was chosen. */
CUresult graph_copy_before(struct graph_copy *c, CUgraphExec chosen, CUstream stream);
void graph_copy_after(struct graph_copy *c, CUgraphExec chosen, CUstream stream);

/* What the application has changed, with nothing of it in a vHQ. One node: find says how executable
 * graph and node are called in the copy, and changed what the driver answered there. False: there
 * is nothing to change any more. */
bool graph_copy_find(struct graph_copy *c, CUgraphExec *exec, CUgraphNode *node);
void graph_copy_changed(struct graph_copy *c, CUresult r);
/* Some graph refers to an object of the application, which a clone of that refers to as well. */
void graph_copy_note_objects(void);
/* A node has another graph inside; all nodes are as in another graph. */
void graph_copy_set_child(struct graph_copy *c, CUgraphNode node, CUgraph child);
void graph_copy_update(struct graph_copy *c, CUgraph graph);

#endif
