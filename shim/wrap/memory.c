/*
 * memory.c - memory goes (it is freed, unregistered, unmapped, or made unreachable), or others have
 * it, too. The driver answers the calls.
 *
 * Natively all calls before memory goes have been submitted by then, in all contexts: peers, copies
 * between contexts and managed memory reach across them. So every context is drained. Only what
 * cannot go before another thread's call has returned is not waited for: that call may wait for
 * what this thread does next. The driver decides whether the call then waits for completion.
 */
#include "shim/lookup/each.h"
#include "shim/learn/function.h"
#include "shim/objects/block.h"
#include "shim/objects/memory.h"
#include "shim/pace/gates.h"
#include "shim/path/call.h"
#include "shim/path/drain.h"

static void forget(void)
{
    if (!MUTANT(pinned_remembered))
        memory_forget();
}

static void going(void)
{
    forget();
    if (!thread_bypasses() && !MUTANT(free_drains_own_context))
        drain_all_unblocked();
}

/* A capture that another thread begins during the driver's call forbids this call nothing. */
#define GOES(sym, before, after, ...)                                                              \
    EXPORT CUresult sym(EACH_PARAM(__VA_ARGS__))                                                   \
    {                                                                                              \
        CUresult r;                                                                                \
        bool captures = capture_any();                                                             \
        before;                                                                                    \
        CAPTURE_LATER(captures, r, REAL(sym)(EACH_VALUE(__VA_ARGS__)));                            \
        after;                                                                                     \
        return r;                                                                                  \
    }
/* The address is forgotten twice: another thread may have asked about it meanwhile. */
#define ENDS(sym, what, ...) GOES(sym, if (what) going(), forget(), __VA_ARGS__)

ENDS(cuMemUnmap, ptr, (CUdeviceptr, ptr), (size_t, size))
ENDS(cuIpcCloseMemHandle, dptr, (CUdeviceptr, dptr))
ENDS(cuArrayDestroy, hArray, (CUarray, hArray))
ENDS(cuMipmappedArrayDestroy, hMipmappedArray, (CUmipmappedArray, hMipmappedArray))
ENDS(cuCtxDisablePeerAccess, peerContext, (CUcontext, peerContext))
ENDS(cuDestroyExternalMemory, extMem, (CUexternalMemory, extMem))
ENDS(cuDestroyExternalSemaphore, extSem, (CUexternalSemaphore, extSem))
ENDS(cuGraphicsUnregisterResource, resource, (CUgraphicsResource, resource))

/* The context that a free waits for. NULL: it waits for none. cuda.h says so of the memory of
 * pools, and a mapping belongs to no context. */
static struct shim_context *memory_owner(CUdeviceptr at)
{
    CUmemoryPool pool = NULL;
    CUcontext owner = NULL;
    if (REAL(cuPointerGetAttribute)(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at) ==
            CUDA_SUCCESS &&
        pool)
        return NULL;
    REAL(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, at);
    return context_find(owner);
}

/* The wait is made here, so that no lock of the driver is held meanwhile. If the address is no
 * memory, the driver waits for nothing. */
static void freeing(CUdeviceptr at)
{
    if (!at && MUTANT(free_of_nothing_waits))
        context_each(context_finish, NULL);
    if (!at)
        return;
    going();
    if (thread_bypasses() || !level_has_queues(level_lowest()))
        return;
    block_forget(at);
    struct shim_context *owner =
        MUTANT(free_drains_own_context) ? context_current_known() : memory_owner(at);
    if (owner)
        drain_sync_context(owner);
}

#define FREES(sym, type) GOES(sym, freeing((CUdeviceptr)ptr), forget(), (type, ptr))
FREES(cuMemFree, CUdeviceptr_v1)
FREES(cuMemFree_v2, CUdeviceptr)
FREES(cuMemFreeHost, void *)

/* True if all may be read and written afterwards: then no access was taken away. Allocators grant
 * that whenever they grow, under locks of their own, so even a wait for submission would show. */
static bool access_grows(const CUmemAccessDesc *desc, size_t count)
{
    for (size_t i = 0; desc && i < count; i++)
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return false;
    return true;
}

GOES(cuMemSetAccess, if (MUTANT(access_waits)) context_each(context_finish, NULL);
     if (!access_grows(desc, count)) going(), , (CUdeviceptr, ptr), (size_t, size),
     (const CUmemAccessDesc *, desc), (size_t, count))
ENDS(cuMemPoolSetAccess, !access_grows(map, count) && !MUTANT(pool_access_overtakes),
     (CUmemoryPool, pool), (const CUmemAccessDesc *, map), (size_t, count))

/* Another process has what is exported or imported, by whatever handle. A kernel there may wait for
 * what one of this process writes, and nothing tells which kernel writes it. So from the first such
 * memory on, all kernels count as kernels that ring (vhq/held.c). This stays noted when the memory
 * goes. */
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

/* A peer may wait for a stream's write to memory that the program registers. If that is I/O memory,
 * kernels of the program may talk to devices (function.h) and ring by themselves. */
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

GOES(cuMemHostUnregister, CUdeviceptr device = memory_registered_at(p); if (p) going(), forget();
     if (r == CUDA_SUCCESS) memory_registered_remove(device), (void *, p))
