/*
 * graph_exec.h - the executable graphs that the application has handles of.
 */
#ifndef SIMGPU_GRAPH_EXEC_H
#define SIMGPU_GRAPH_EXEC_H

#include "tools/simgpu/graph/exec.h"

struct sim_exec *exec_find(CUgraphExec handle);

#endif
