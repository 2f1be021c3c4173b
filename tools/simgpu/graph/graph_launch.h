/*
 * graph_launch.h - the nodes of an executable graph go into their lanes.
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_GRAPH_LAUNCH_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_GRAPH_LAUNCH_H

#include "tools/simgpu/graph/exec.h"

/* The argument in which a conditional node's work finds the priority of the launch. */
enum { LAUNCH_PRIORITY = 2 };

/* Room for what one node waits for. NULL: no memory. */
struct point *launch_points(const struct sim_exec *x);
/* Streams of that priority for the lanes from `first` on. */
CUresult launch_branches(struct sim_exec *x, int first, int priority);
/* Behind `start`, with lane 0 in that stream and the submit lock held alone. */
CUresult launch_nodes(struct sim_exec *x, struct sim_stream *s, struct point start,
                      struct point *points);
/* What a conditional node runs, in streams of its own; x->end tells when it is over. */
CUresult exec_body_run(struct sim_exec *x, int priority);

#endif
