/*
 * graph_copy.h - a private copy, with gates, of a graph that the application has instantiated.
 *
 * The driver runs a graph to its end: a stream's gates are in front of its commands, not inside
 * them. So the shim launches a copy instead. Between its kernels, every so much estimated work, a
 * node waits for the hold word to be 0, as a stream's gates do. The application's graph, executable
 * graph and nodes stay as they are, and what it changes of them is changed in the copy as well. A
 * copy that cannot follow is given up, and the application's own is launched again.
 *
 * Launches of one executable graph never run side by side. The driver ensures that among launches
 * of the copy, and of the application's own; between the two an event does.
 */
#ifndef CUTIN_SHIM_GRAPH_GRAPH_COPY_H
#define CUTIN_SHIM_GRAPH_GRAPH_COPY_H

#include "shim/graph/graph_nodes.h"

struct graph_copy;

/* `graph` was instantiated in `ctx`, the current context. NULL: it needs no gates, or cannot have
 * any (which the page counts). */
struct graph_copy *graph_copy_new(struct shim_context *ctx, CUgraph graph, struct graph_nodes *n,
                                  unsigned long long flags);
/* NULL is allowed. If the copy still runs, the driver frees it later. */
void graph_copy_free(struct graph_copy *c);

/* What to launch for a launch of the application's `handle` in a stream of this context and
 * level. */
CUgraphExec graph_copy_choose(struct graph_copy *c, CUgraphExec handle, struct shim_context *ctx,
                              uint32_t level);
/* Call both around the launch of what was chosen. */
CUresult graph_copy_before(struct graph_copy *c, CUgraphExec chosen, CUstream stream);
void graph_copy_after(struct graph_copy *c, CUgraphExec chosen, CUstream stream);

/* Follows a change of the application's graph; nothing of it may be in a vHQ. For one node: find
 * replaces executable graph and node by those of the copy, and changed gets the driver's answer for
 * these. False: there is no copy any more. */
bool graph_copy_find(struct graph_copy *c, CUgraphExec *exec, CUgraphNode *node);
void graph_copy_changed(struct graph_copy *c, CUresult r);
/* Some graph refers to an object of the application, and so does a clone of it. */
extern _Atomic bool graph_objects_seen;
/* What is inside of `node`, or all if that is NULL, is as in `graph` now. */
void graph_copy_replace(struct graph_copy *c, CUgraphNode node, CUgraph graph);

#endif
