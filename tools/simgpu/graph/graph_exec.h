/*
 * graph_exec.h - the executable graphs that the application has handles of.
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_GRAPH_EXEC_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_GRAPH_EXEC_H

#include "tools/simgpu/graph/exec.h"

struct sim_exec *exec_find(CUgraphExec handle);

#endif
