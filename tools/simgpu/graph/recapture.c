/*
 * recapture.c - a capture that takes the place of what a graph holds (CUDA 13.3). The nodes are
 * made anew, so their handles change, and nobody is told what does not match.
 */
#include "tools/simgpu/face/sim.h"
#include "tools/simgpu/face/variants.h"

#if CUDA_VERSION >= 12030
static CUresult graph_clear(CUgraph graph)
{
    CUgraphNode node;
    size_t n = 1;
    CUresult rc = cuGraphGetNodes(graph, &node, &n);
    while (rc == CUDA_SUCCESS && n > 0) {
        rc = cuGraphDestroyNode(node);
        n = 1;
        if (rc == CUDA_SUCCESS)
            rc = cuGraphGetNodes(graph, &node, &n);
    }
    return rc;
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream s, CUgraph graph, const CUgraphNode *nodes,
                                          const CUgraphEdgeData *data, size_t n,
                                          CUstreamCaptureMode mode);

static CUresult begin_again(CUstream s, bool ptds, CUgraph graph, CUstreamCaptureMode mode)
{
    TRY(graph_clear(graph));
    return ptds ? cuStreamBeginCaptureToGraph_ptsz(s, graph, NULL, NULL, 0, mode)
                : cuStreamBeginCaptureToGraph(s, graph, NULL, NULL, 0, mode);
}

#if CUDA_VERSION < 13030
typedef void *CUgraphRecaptureCallback;
#endif
STREAM_API(cuStreamBeginRecaptureToGraph,
           (CUstream s, CUstreamCaptureMode mode, CUgraph graph, CUgraphRecaptureCallback changed,
            void *user),
           ((void)changed, (void)user, begin_again(s, ptds, graph, mode)))
#endif
