/*
 * share.c - memory that another process has, too: exported and imported, by whatever handle. The
 * driver answers. A kernel of the other process may wait for what one of this process writes there,
 * and nobody can tell which of them does: they count as kernels that ring (vhq/peer.c), from the
 * first such memory on.
 */
#include "shim/lookup/shim.h"
#include "shim/objects/memory.h"
#include "shim/pace/gates.h"
#include "shim/path/call.h"
#include "common/mutant.h"
#include "shim/objects/thread.h"

static CUresult shared(CUresult r)
{
    if (r == CUDA_SUCCESS && !thread_bypasses() && !MUTANT(shared_memory_unseen)) {
        memory_note_rings();
        gates_note_peer();
    }
    return r;
}

#define SHARES(sym, PARAMS, ARGS)                                                                  \
    EXPORT CUresult sym PARAMS                                                                     \
    {                                                                                              \
        return shared(REAL(sym) ARGS);                                                             \
    }

SHARES(cuIpcGetMemHandle, (CUipcMemHandle * pHandle, CUdeviceptr dptr), (pHandle, dptr))
SHARES(cuIpcOpenMemHandle, (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned int Flags),
       (pdptr, handle, Flags))
SHARES(cuIpcOpenMemHandle_v2, (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned int Flags),
       (pdptr, handle, Flags))
SHARES(cuMemExportToShareableHandle,
       (void *shareableHandle, CUmemGenericAllocationHandle handle,
        CUmemAllocationHandleType handleType, unsigned long long flags),
       (shareableHandle, handle, handleType, flags))
SHARES(cuMemImportFromShareableHandle,
       (CUmemGenericAllocationHandle * handle, void *osHandle,
        CUmemAllocationHandleType shHandleType),
       (handle, osHandle, shHandleType))
SHARES(cuMemPoolExportToShareableHandle,
       (void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType,
        unsigned long long flags),
       (handle_out, pool, handleType, flags))
SHARES(cuMemPoolImportFromShareableHandle,
       (CUmemoryPool * pool_out, void *handle, CUmemAllocationHandleType handleType,
        unsigned long long flags),
       (pool_out, handle, handleType, flags))
