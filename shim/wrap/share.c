/*
 * share.c - memory that others have, too. The driver answers the calls. Another process has what is
 * exported or imported, by whatever handle. A kernel there may wait for what one of this process
 * writes, and nothing tells which kernel writes it. So from the first such memory on, all kernels
 * count as kernels that ring (vhq/held.c). A peer may also wait for a stream's write to memory that
 * the program registers. If that is I/O memory, kernels of the program may talk to devices
 * (function.h) and ring by themselves. This stays noted when the memory goes.
 */
#include "shim/lookup/each.h"
#include "shim/objects/memory.h"
#include "shim/pace/gates.h"
#include "shim/learn/function.h"
#include "shim/path/call.h"

static void shared(void)
{
    atomic_store_explicit(&memory_seen_elsewhere, 1, memory_order_relaxed);
    gates_note_peer();
}
#define SHARES(sym, ...) NOTED(sym, if (!MUTANT(shared_memory_unseen)) shared(), __VA_ARGS__)
SHARES(cuIpcGetMemHandle, (CUipcMemHandle *, pHandle), (CUdeviceptr, dptr))
SHARES(cuIpcOpenMemHandle, (CUdeviceptr *, pdptr), (CUipcMemHandle, handle), (unsigned int, Flags))
SHARES(cuIpcOpenMemHandle_v2, (CUdeviceptr *, pdptr), (CUipcMemHandle, handle),
       (unsigned int, Flags))
SHARES(cuMemExportToShareableHandle, (void *, shareableHandle),
       (CUmemGenericAllocationHandle, handle), (CUmemAllocationHandleType, handleType),
       (unsigned long long, flags))
SHARES(cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle *, handle), (void *, osHandle),
       (CUmemAllocationHandleType, shHandleType))
SHARES(cuMemPoolExportToShareableHandle, (void *, handle_out), (CUmemoryPool, pool),
       (CUmemAllocationHandleType, handleType), (unsigned long long, flags))
SHARES(cuMemPoolImportFromShareableHandle, (CUmemoryPool *, pool_out), (void *, handle),
       (CUmemAllocationHandleType, handleType), (unsigned long long, flags))

/* ---- what the program registers -------------------------------------------------------------- */

static void registered(CUresult r, void *p, size_t bytes, unsigned int flags)
{
    if (r == CUDA_SUCCESS)
        memory_registered_add(p, bytes);
    if (r == CUDA_SUCCESS && flags & CU_MEMHOSTREGISTER_IOMEMORY) {
        waiting_registered();
        shared();
    }
}
#define REGISTERS(sym)                                                                             \
    WRAPPED(sym, , registered(r, p, bytes, flags), (void *, p), (size_t, bytes),                   \
            (unsigned int, flags))
REGISTERS(cuMemHostRegister)
REGISTERS(cuMemHostRegister_v2)
