/*
 * free.c - memory goes: it is freed, unregistered, unmapped, or made unreachable.
 *
 * Natively all earlier calls have been submitted by then, in whichever context: peers, copies
 * between contexts and managed memory reach across them. So every context is drained, but for what
 * cannot go before another thread's call has returned, which may wait for what this thread does
 * next. Whether the call then waits for completion is the driver's business.
 */
#include "shim/lookup/each.h"
#include "shim/objects/block.h"
#include "shim/path/call.h"
#include "shim/path/drain.h"
#include "shim/objects/memory.h"
#include "shim/objects/level.h"

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

/* Another thread may have asked about the address meanwhile. */
static CUresult gone(CUresult r)
{
    forget();
    return r;
}

#define GOES(sym, what, ...)                                                                       \
    EXPORT CUresult sym(EACH_PARAM(__VA_ARGS__))                                                   \
    {                                                                                              \
        CUresult r;                                                                                \
        bool captures = capture_any();                                                             \
        if (!(what))                                                                               \
            return REAL(sym)(EACH_VALUE(__VA_ARGS__));                                             \
        going();                                                                                   \
        CAPTURE_LATER(captures, r, REAL(sym)(EACH_VALUE(__VA_ARGS__)));                            \
        return gone(r);                                                                            \
    }

EXPORT CUresult cuMemHostUnregister(void *p)
{
    CUdeviceptr device = 0;
    bool captures = capture_any();
    if (!p)
        return REAL(cuMemHostUnregister)(p);
    if (REAL(cuMemHostGetDevicePointer_v2)(&device, p, 0) != CUDA_SUCCESS)
        device = (CUdeviceptr)(uintptr_t)p;
    going();
    CUresult r;
    CAPTURE_LATER(captures, r, REAL(cuMemHostUnregister)(p));
    if (gone(r) == CUDA_SUCCESS)
        memory_registered_remove(device);
    return r;
}
GOES(cuMemUnmap, ptr, (CUdeviceptr, ptr), (size_t, size))
GOES(cuIpcCloseMemHandle, dptr, (CUdeviceptr, dptr))
GOES(cuArrayDestroy, hArray, (CUarray, hArray))
GOES(cuMipmappedArrayDestroy, hMipmappedArray, (CUmipmappedArray, hMipmappedArray))
GOES(cuCtxDisablePeerAccess, peerContext, (CUcontext, peerContext))
GOES(cuDestroyExternalMemory, extMem, (CUexternalMemory, extMem))
GOES(cuDestroyExternalSemaphore, extSem, (CUexternalSemaphore, extSem))
GOES(cuGraphicsUnregisterResource, resource, (CUgraphicsResource, resource))

/* ---- frees that wait ------------------------------------------------------------------------ */

/* The context that a free waits for; NULL where it waits for none: cuda.h says so of the memory of
 * pools, and a mapping is nobody's. */
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

/* The wait is made here, so that no lock of the driver is held meanwhile. For what is no memory the
 * driver waits for nothing. */
static void freeing(CUdeviceptr at)
{
    if (!at && MUTANT(free_of_nothing_waits))
        context_each(context_finish, NULL);
    if (!at)
        return;
    going();
    if (thread_bypasses() || !level_queues(level_lowest()))
        return;
    block_forget(at);
    struct shim_context *owner =
        MUTANT(free_drains_own_context) ? context_known() : memory_owner(at);
    if (owner)
        drain_sync_context(owner);
}

#define FREES(sym, type)                                                                           \
    EXPORT CUresult sym(type ptr)                                                                  \
    {                                                                                              \
        CUresult r;                                                                                \
        bool captures = capture_any();                                                             \
        freeing((CUdeviceptr)ptr);                                                                 \
        CAPTURE_LATER(captures, r, REAL(sym)(ptr));                                                \
        return gone(r);                                                                            \
    }
FREES(cuMemFree, CUdeviceptr_v1)
FREES(cuMemFree_v2, CUdeviceptr)
FREES(cuMemFreeHost, void *)

/* ---- access --------------------------------------------------------------------------------- */

/* What may be read and written afterwards was taken from nobody. Allocators grant that whenever
 * they grow, under locks of their own, so even waiting for submission would show. */
static bool access_grows(const CUmemAccessDesc *desc, size_t count)
{
    for (size_t i = 0; desc && i < count; i++)
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return false;
    return true;
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
                               size_t count)
{
    if (MUTANT(access_waits))
        context_each(context_finish, NULL);
    CUresult r;
    bool captures = capture_any();
    if (!access_grows(desc, count))
        going();
    CAPTURE_LATER(captures, r, REAL(cuMemSetAccess)(ptr, size, desc, count));
    return r;
}

EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    if (access_grows(map, count) || MUTANT(pool_access_overtakes))
        return REAL(cuMemPoolSetAccess)(pool, map, count);
    going();
    return gone(REAL(cuMemPoolSetAccess)(pool, map, count));
}
