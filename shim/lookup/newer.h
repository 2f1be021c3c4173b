/*
 * newer.h - what a cuda.h from 12.0 on may lack compared with 13.5, so that the library is the same
 * with any of these headers. Own declarations of the driver's binary interface: a type that only
 * passes through is incomplete; a type that the shim reads has the members that it reads. Included
 * by shim.h, and by the test that calls all of it (tests/hazards/arguments).
 */
#ifndef CUTIN_SHIM_LOOKUP_NEWER_H
#define CUTIN_SHIM_LOOKUP_NEWER_H

/* The header's enumeration has this value from 12.2 on. */
#define LOCATION_HOST ((CUmemLocationType)2)

#if CUDA_VERSION < 12020
typedef struct {
    CUgraphNodeType type;
    int reserved[3];
    union {
        struct {
            CUgraph graph;
        } graph;
        long long size[30];
    };
} CUgraphNodeParams;
CUresult cuMemPrefetchAsync_v2(CUdeviceptr, size_t, CUmemLocation, unsigned int, CUstream);
CUresult cuGraphAddNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *);
CUresult cuGraphExecNodeSetParams(CUgraphExec, CUgraphNode, CUgraphNodeParams *);
#endif

#if CUDA_VERSION < 12030
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
CUresult cuGraphAddNode_v2(CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *,
                           size_t, CUgraphNodeParams *);
CUresult cuStreamBeginCaptureToGraph(CUstream, CUgraph, const CUgraphNode *,
                                     const CUgraphEdgeData *, size_t, CUstreamCaptureMode);
#endif

#if CUDA_VERSION < 12040
typedef struct CUgreenCtx_st *CUgreenCtx;
enum { CU_DEV_RESOURCE_TYPE_SM = 1 };
typedef struct {
    unsigned int type;
    unsigned char reserved[92];
    struct {
        unsigned int smCount;
    } sm;
    unsigned char rest[60];
} CUdevResource;
CUresult cuCtxGetDevResource(CUcontext, CUdevResource *, unsigned int);
CUresult cuLibraryEnumerateKernels(CUkernel *, unsigned int, CUlibrary);
CUresult cuCtxFromGreenCtx(CUcontext *, CUgreenCtx);
CUresult cuGreenCtxDestroy(CUgreenCtx);
CUresult cuGreenCtxRecordEvent(CUgreenCtx, CUevent);
CUresult cuGreenCtxWaitEvent(CUgreenCtx, CUevent);
#endif

#if CUDA_VERSION < 12050
typedef struct CUctxCreateParams_st CUctxCreateParams;
CUresult cuCtxCreate_v4(CUcontext *, CUctxCreateParams *, unsigned int, CUdevice);
CUresult cuCtxRecordEvent(CUcontext, CUevent);
CUresult cuCtxWaitEvent(CUcontext, CUevent);
CUresult cuGreenCtxStreamCreate(CUstream *, CUgreenCtx, unsigned int, int);
CUresult cuStreamGetCtx_v2(CUstream, CUcontext *, CUgreenCtx *);
#endif

#if CUDA_VERSION < 12060
typedef struct CUmemDecompressParams_st CUmemDecompressParams;
CUresult cuMemBatchDecompressAsync(CUmemDecompressParams *, size_t, unsigned int, size_t *,
                                   CUstream);
#endif

#if CUDA_VERSION < 12080
enum { CU_MEMCPY_SRC_ACCESS_ORDER_STREAM = 1, CU_MEMCPY_SRC_ACCESS_ORDER_ANY = 3 };
typedef struct {
    unsigned int srcAccessOrder;
    CUmemLocation srcLocHint, dstLocHint;
    unsigned int flags;
} CUmemcpyAttributes;
typedef struct CUDA_MEMCPY3D_BATCH_OP_st CUDA_MEMCPY3D_BATCH_OP;
CUresult cuMemcpyBatchAsync(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *,
                            size_t *, size_t, size_t *, CUstream);
CUresult cuMemcpy3DBatchAsync(size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long,
                              CUstream);
CUresult cuEventElapsedTime_v2(float *, CUevent, CUevent);
#endif

#if CUDA_VERSION < 13000
CUresult cuMemSetMemPool(CUmemLocation *, CUmemAllocationType, CUmemoryPool);
CUresult cuCtxSynchronize_v2(CUcontext);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *,
                               size_t *, size_t, CUstream);
CUresult cuMemcpy3DBatchAsync_v2(size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t,
                                 unsigned long long, CUstream);
CUresult cuMemDiscardBatchAsync(CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream);
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *, size_t *, size_t, CUmemLocation *,
                                           size_t *, size_t, unsigned long long, CUstream);
#endif

#if CUDA_VERSION < 13010
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;
CUresult cuLaunchHostFunc_v2(CUstream, CUhostFn, void *, unsigned int);
CUresult cuStreamBeginCaptureToCig(CUstream, CUstreamCigCaptureParams *);
CUresult cuStreamEndCaptureToCig(CUstream);
#endif

#if CUDA_VERSION < 13020
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *,
                                     CUstream);
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);
#endif

#if CUDA_VERSION < 13030
typedef void (*CUgraphRecaptureCallback)(void);
CUresult cuStreamBeginRecaptureToGraph(CUstream, CUstreamCaptureMode, CUgraph,
                                       CUgraphRecaptureCallback, void *);
#endif

#if CUDA_VERSION < 13040
CUresult cuGraphAddNode_v3(CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *,
                           size_t, CUgraphNodeParams *);
#endif

#endif
