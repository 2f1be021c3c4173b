/*
 * memory.h - all memory that the device may touch, by address: its kind, its size, its owner.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_MEMORY_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_MEMORY_H

#include "tools/simgpu/device/context.h"

enum memory_kind {
    MEMORY_DEVICE,     /* cuMemAlloc, module globals */
    MEMORY_MANAGED,    /* cuMemAllocManaged, managed variables */
    MEMORY_HOST,       /* cuMemHostAlloc: pinned, the driver's */
    MEMORY_REGISTERED, /* cuMemHostRegister: pinned, the application's */
    MEMORY_POOL,       /* of a device's pool; blocks of other pools have the kind of their memory */
    MEMORY_MAPPED,     /* cuMemMap */
    MEMORY_IPC,        /* cuIpcOpenMemHandle: another process's */
};

struct memory {
    uintptr_t base;
    size_t bytes; /* as it was asked for */
    enum memory_kind kind;
    unsigned int flags; /* as given at allocation; of MEMORY_MAPPED: mapping_access below */
    int ordinal;
    struct sim_context *ctx; /* NULL: no context's, as pools, mappings and managed variables */
    unsigned long long id;   /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    bool sync_memops;
    void *owner; /* the pool, allocation or import */
};

/* Answers are copies: another thread may free the range at any moment. False: no such memory. */
bool memory_find(CUdeviceptr ptr, struct memory *out);       /* the range that contains ptr */
bool memory_find_base(CUdeviceptr base, struct memory *out); /* the range that begins there */
/* Lists the range, under an id of its own. 0, -EEXIST on overlap, -ENOMEM. */
int memory_add(const struct memory *m);
bool memory_remove(CUdeviceptr base, struct memory *out);
/* Whether [ptr, ptr + bytes) is inside memory that the device may touch: device, managed or pinned
 * host memory. */
bool memory_contains(CUdeviceptr ptr, size_t bytes);
/* Memory of the device for the driver's own use (module globals); managed if `ctx` is NULL. 0: the
 * device is full. */
CUdeviceptr memory_take(struct sim_context *ctx, size_t bytes);
void memory_give(CUdeviceptr ptr);
/* Whether kernels of that context may touch [ptr, ptr + bytes). */
bool memory_reachable(CUdeviceptr ptr, size_t bytes, const struct sim_context *ctx);
/* Changes flags and sync_memops of a range that was found. False: it is gone. */
bool memory_change(const struct memory *m);
/* Calls that take or give memory begin with this: context_current_ok, and no capture forbids it. */
CUresult memory_call_check(struct sim_context **ctx);

/* Counts device bytes against SIMGPU_MEM_MB. False: the device is full. */
bool memory_charge(int ordinal, size_t bytes);
void memory_uncharge(int ordinal, size_t bytes);

/* ---- peer.c: which device reaches the memory of which other one ------------------------------ */

/* Whether contexts on device a may be given access to memory of device b. SIMGPU_PEERS=0: never. */
bool devices_are_peers(int a, int b);
/* Whether kernels of `ctx` may touch that range. */
bool peer_reachable(const struct sim_context *ctx, const struct memory *m);
/* The flags of a mapping say what each device may do there: four bits for each. */
enum { ACCESS_BITS = 4, ACCESS_MASK = 15 };

static inline CUmemAccess_flags mapping_access(unsigned int flags, int ordinal)
{
    return (CUmemAccess_flags)(flags >> (ordinal * ACCESS_BITS) & ACCESS_MASK);
}

/* ---- ipc_memory.c: memory that was imported from another process ----------------------------- */

/* The range with this owner has left the table: unmaps it. */
void ipc_memory_release(void *owner);
/* The pool that it was imported from; NULL: it was opened by a handle of its own. */
CUmemoryPool ipc_memory_pool(const void *owner);
/* For memory that was imported from a pool: cuMemFree, and for cuMemFreeAsync the work that unmaps
 * it. CUDA_ERROR_INVALID_VALUE and false: it is other memory. */
CUresult ipc_memory_free(CUdeviceptr ptr);
bool ipc_memory_free_work(CUdeviceptr ptr, struct work *w);

/* ---- kinds ----------------------------------------------------------------------------------- */

struct sim_pool;
/* The pool that the memory is from, or NULL. */
static inline struct sim_pool *memory_pool(const struct memory *m)
{
    bool may = m->kind == MEMORY_POOL || m->kind == MEMORY_HOST || m->kind == MEMORY_MANAGED;
    return may ? m->owner : NULL;
}

/* Whether it is memory of a device. The others are host memory, pinned or managed. */
static inline bool memory_is_device_kind(enum memory_kind kind)
{
    return kind == MEMORY_DEVICE || kind == MEMORY_POOL || kind == MEMORY_MAPPED ||
           kind == MEMORY_IPC;
}

#endif
