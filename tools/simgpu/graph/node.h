/*
 * node.h - builders: from the API's parameters of a node to its works.
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_NODE_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_NODE_H

#include "tools/simgpu/graph/graph.h"

/* CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE and _MOVE, which headers before 12.9 do not have. */
enum { OWNERSHIP_COPY, OWNERSHIP_MOVE };

CUresult parts_kernel(const CUDA_KERNEL_NODE_PARAMS *n, struct parts *p);
CUresult parts_memcpy(const CUDA_MEMCPY3D *n, CUcontext ctx, struct parts *p);
CUresult parts_memset(const CUDA_MEMSET_NODE_PARAMS *n, CUcontext ctx, struct parts *p);
CUresult parts_host(const CUDA_HOST_NODE_PARAMS *n, struct parts *p);
CUresult parts_event(CUevent event, bool record, struct parts *p);
CUresult parts_memops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *n, struct parts *p);
CUresult parts_alloc(CUDA_MEM_ALLOC_NODE_PARAMS *n, struct parts *p);
CUresult parts_free_node(CUdeviceptr ptr, struct parts *p);
#if CUDA_VERSION >= 12020
CUresult parts_any(CUgraphNodeParams *n, struct parts *p);
#endif
/* Version 1 does not have the last two members. */
CUresult node_kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *old, CUDA_KERNEL_NODE_PARAMS *params);

#endif
