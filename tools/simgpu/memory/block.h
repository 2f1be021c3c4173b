/*
 * block.h - blocks of memory pools: taken out of a pool, freed in the order of a stream, kept for
 * reuse. One lock guards all pools with their blocks; it is held for table work only, never while
 * waiting. Everything here is called under it.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_BLOCK_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_BLOCK_H

#include "tools/simgpu/device/ipc.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/memory/pool.h"

/* Where a pool's memory is: a device's ordinal, or what is no device. */
enum { POOL_DEVICES = 64, PLACE_HOST = POOL_DEVICES, PLACE_HOST_NUMA, PLACE_NONE, PLACES };
enum { AWAITED_MAX = 16 }; /* frees that one allocation waits for */

enum block_state {
    BLOCK_LIVE,    /* the application's */
    BLOCK_FREEING, /* freed by a call, not yet in stream order: its own stream may have it again */
    BLOCK_FREE,    /* kept for reuse; not in the memory table */
};

struct block {
    CUdeviceptr base;
    size_t whole;
    enum block_state state;
    struct point freed; /* its stream, and where its free stands there; 0: on its way */
    bool promised;      /* once freed its memory is another block's, which counts it already */
    bool in_use;        /* a graph's: allocated by a launch, not freed since */
    size_t holders;     /* a graph's: nodes, launches and frees that are not over */
    uint64_t ticket; /* of the free under way; a reuse takes a new one, so that the free misses */
    struct sim_pool *pool;
    struct block *prev, *next;
};

struct sim_pool {
    int place;
    enum memory_kind kind; /* MEMORY_POOL: a device's, MEMORY_HOST, MEMORY_MANAGED */
    bool fixed; /* a place's default pool and a device's graph pool: not to be destroyed */
    bool destroyed;
    bool shared;           /* made for export */
    struct ipc_file whose; /* imported: where its memory is; number 0: it is this process's */
    _Atomic bool peers[POOL_DEVICES]; /* devices that were given access, beside its own */
    uint64_t threshold, most;         /* most: 0: as much as there is */
    int reuse[4];                     /* by CUmemPool_attribute 1..3 */
    uint64_t reserved, reserved_high, used, used_high;
    struct block *blocks;
    struct sim_pool *next;
};

extern pthread_mutex_t pool_lock;

/* A pool without blocks. It is never freed, so that a stale handle is recognised; a destroyed one
 * lives on in name until its last block is gone. NULL: no memory. */
struct sim_pool *pool_new(int place, enum memory_kind kind, bool fixed);
/* pool.c: whichever the place allocates from, made if need be; NULL: no memory. */
struct sim_pool *pool_current(bool managed, int place);
/* NULL for anything that is not a live pool. */
struct sim_pool *pool_find(CUmemoryPool handle);
/* Gives free blocks back to the device until at most `keep` bytes are reserved. */
void pool_trim(struct sim_pool *p, uint64_t keep);

/* The address of a live block of at least `bytes`, for that stream; 0: the device is full. `after`:
 * what the stream has to follow first, AWAITED_MAX frees, of which the last may be {0}; NULL: wait
 * for none. */
CUdeviceptr block_take(struct sim_pool *p, size_t bytes, uint32_t stream, struct point *after);
/* The block that begins there; NULL: none. */
struct block *block_find(CUdeviceptr base);
/* The free has happened in stream order: the block is anybody's again. */
void block_freed(struct block *b);

#endif
