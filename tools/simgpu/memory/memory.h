/*
 * memory.h - every stretch of memory the device may touch, by address: what kind it is, how large,
 * whose.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_MEMORY_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_MEMORY_H

#include "tools/simgpu/device/context.h"

enum memory_kind {
    MEMORY_DEVICE,     /* cuMemAlloc, module globals */
    MEMORY_MANAGED,    /* cuMemAllocManaged, managed variables */
    MEMORY_HOST,       /* cuMemHostAlloc: ours, pinned */
    MEMORY_REGISTERED, /* cuMemHostRegister: the application's, pinned */
    MEMORY_POOL,       /* of a device's pool; others have the kind of what they consist of */
    MEMORY_MAPPED,     /* cuMemMap */
    MEMORY_IPC,        /* cuIpcOpenMemHandle: another process's */
};

struct memory {
    uintptr_t base;
    size_t bytes; /* as asked for */
    enum memory_kind kind;
    unsigned int flags; /* as given at allocation; VMM: see vmm.h */
    int ordinal;
    struct sim_context *ctx; /* NULL: pools, mappings and managed variables are no context's */
    unsigned long long id;   /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    bool sync_memops;
    void *owner; /* pool, allocation or import */
};

/* All by value: another thread may free the range at any moment. false: no such memory. */
bool memory_find(CUdeviceptr ptr, struct memory *out);       /* the range that ptr lies in */
bool memory_find_base(CUdeviceptr base, struct memory *out); /* the range that begins there */
/* Lists it, under an id of its own: 0, -EEXIST on overlap, -ENOMEM. */
int memory_add(const struct memory *m);
bool memory_remove(CUdeviceptr base, struct memory *out);
/* Is [ptr, ptr + bytes) inside memory the device may touch: device, managed or pinned host
 * memory? */
bool memory_contains(CUdeviceptr ptr, size_t bytes);
/* Memory of the device for the driver's own ends (module globals), managed where it is of no
 * context; 0 when it is full. */
CUdeviceptr memory_take(struct sim_context *ctx, size_t bytes);
void memory_give(CUdeviceptr ptr);
/* Is [ptr, ptr + bytes) memory that kernels of that context may touch? */
bool memory_reaches(CUdeviceptr ptr, size_t bytes, const struct sim_context *ctx);
/* Changes what may change of a range that was found: flags, sync_memops. False: it is gone. */
bool memory_change(const struct memory *m);
/* What calls begin with that take or give memory: context_enter, and no capture forbids it. */
CUresult memory_begin(struct sim_context **ctx);

/* Device bytes in use, against SIMGPU_MEM_MB: false when the device is full. */
bool memory_charge(int ordinal, size_t bytes);
void memory_uncharge(int ordinal, size_t bytes);

/* ---- peer.c: which device reaches which other one's memory ----------------------------------- */

/* May contexts on device a be given access to memory of device b? SIMGPU_PEERS=0: none. */
bool devices_are_peers(int a, int b);
/* May kernels of `ctx` touch that range? */
bool peer_reaches(const struct sim_context *ctx, const struct memory *m);
/* What a mapping allows each device: its flags are those of all, four bits each. */
enum { ACCESS_BITS = 4, ACCESS_MASK = 15 };

static inline CUmemAccess_flags mapping_access(unsigned int flags, int ordinal)
{
    return (CUmemAccess_flags)(flags >> (ordinal * ACCESS_BITS) & ACCESS_MASK);
}

/* ---- ipc_memory.c: memory that was imported from another process ----------------------------- */

/* The range whose owner this is has left the table: unmap it. */
void ipc_memory_release(void *owner);
/* The imported pool that it is from; NULL: it was opened by a handle of its own. */
CUmemoryPool ipc_memory_pool(const void *owner);
/* cuMemFree of what is from an imported pool, and cuMemFreeAsync: the work that unmaps it. Refused:
 * it is none such. */
CUresult ipc_memory_free(CUdeviceptr ptr);
bool ipc_memory_free_work(CUdeviceptr ptr, struct work *w);

/* ---- kinds ----------------------------------------------------------------------------------- */

struct sim_pool;
/* The pool that it is of, or NULL. */
static inline struct sim_pool *memory_pool(const struct memory *m)
{
    bool may = m->kind == MEMORY_POOL || m->kind == MEMORY_HOST || m->kind == MEMORY_MANAGED;
    return may ? m->owner : NULL;
}

/* Host memory, where an asynchronous copy may go on reading after the call: pinned or managed. */
static inline bool memory_is_device_kind(enum memory_kind kind)
{
    return kind == MEMORY_DEVICE || kind == MEMORY_POOL || kind == MEMORY_MAPPED ||
           kind == MEMORY_IPC;
}

#endif
