/*
 * peer.c - access of one device to another's memory. It is given to contexts
 * (cuCtxEnablePeerAccess), by pool, by mapping, or with memory that is opened from another process.
 * Copies do not need it.
 */
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/memory/pool.h"
#include "tools/simgpu/face/simconfig.h"

#include <utlist.h>

/* `from` may touch what `to` has allocated. */
struct access {
    const struct sim_context *from, *to;
    struct access *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct access *accesses; /* under lock */

bool devices_are_peers(int a, int b)
{
    return a != b && config_get()->peers;
}

/* ---- which device reaches what --------------------------------------------------------------- */

/* Under lock. Green contexts share the access of their primary one. */
static struct access *access_find(const struct sim_context *from, const struct sim_context *to)
{
    struct access *a = accesses;
    while (a && (a->from != context_base(from) || a->to != context_base(to)))
        a = a->next;
    return a;
}

static bool access_given(const struct sim_context *from, const struct sim_context *to)
{
    SCOPED_LOCK(&lock);
    return access_find(from, to);
}

bool peer_reachable(const struct sim_context *ctx, const struct memory *m)
{
    if (memory_pool(m))
        return pool_reachable(memory_pool(m), ctx->ordinal);
    switch (m->kind) {
    case MEMORY_DEVICE:
        return m->ordinal == ctx->ordinal || access_given(ctx, m->ctx);
    case MEMORY_IPC: /* it was opened for its context's device, wherever it lies */
        return m->ordinal == ctx->ordinal || m->ctx->ordinal == ctx->ordinal;
    case MEMORY_MAPPED:
        return mapping_access(m->flags, ctx->ordinal) != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    default:
        return true;
    }
}

/* With the context go the access that it has and the access that others have to its memory. */
static void peer_context_gone(struct sim_context *ctx)
{
    struct access *a, *next;
    SCOPED_LOCK(&lock);
    LL_FOREACH_SAFE(accesses, a, next)
    {
        if (a->from != ctx && a->to != ctx)
            continue;
        LL_DELETE(accesses, a);
        free(a);
    }
}
CONTEXT_PART(CONTEXT_MEMORY, NULL, peer_context_gone)

/* ---- API ------------------------------------------------------------------------------------- */

static CUresult two_devices(CUdevice a, CUdevice b)
{
    TRY(device_check(a));
    return device_check(b);
}

SIM_GETTER(cuDeviceCanAccessPeer, (int *can, CUdevice dev, CUdevice peer), can,
           devices_are_peers(dev, peer), TRY(two_devices(dev, peer)))

/* As over PCIe: no atomics, and all pairs are alike. */
enum { P2P_LAST = 5 }; /* ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED, of newer headers */

SIM_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute,
                                            CUdevice src, CUdevice dst)
{
    TRY(two_devices(src, dst));
    if (!value || attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK || (int)attribute > P2P_LAST)
        return CUDA_ERROR_INVALID_VALUE;
    if (src == dst)
        return CUDA_ERROR_INVALID_DEVICE;
    *value =
        attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ? devices_are_peers(src, dst) : 0;
    return CUDA_SUCCESS;
}

static CUresult two_contexts(CUcontext handle, struct sim_context **ctx, struct sim_context **peer)
{
    TRY(context_current_ok(ctx));
    *peer = context_find(handle);
    return *peer && *peer != *ctx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult access_give(const struct sim_context *from, const struct sim_context *to)
{
    SCOPED_LOCK(&lock);
    if (access_find(from, to))
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    struct access *a = malloc(sizeof(*a));
    if (!a)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *a = (struct access){.from = context_base(from), .to = context_base(to)};
    LL_PREPEND(accesses, a);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags)
{
    struct sim_context *ctx, *peer;
    TRY(two_contexts(handle, &ctx, &peer));
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return devices_are_peers(ctx->ordinal, peer->ordinal) ? access_give(ctx, peer)
                                                          : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

SIM_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext handle)
{
    struct sim_context *ctx, *peer;
    TRY(two_contexts(handle, &ctx, &peer));
    SCOPED_LOCK(&lock);
    struct access *a = access_find(ctx, peer);
    if (!a)
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    LL_DELETE(accesses, a);
    free(a);
    return CUDA_SUCCESS;
}
