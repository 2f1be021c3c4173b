/*
 * block.h - blocks of memory pools: they are taken from a pool, freed in the order of a stream, and
 * kept for reuse. One lock guards all pools and their blocks. It is held only for work on the
 * tables, never for a wait. All functions here are called under it.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_BLOCK_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_BLOCK_H

#include "tools/simgpu/device/ipc.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/memory/pool.h"

/* Where a pool's memory is: the ordinal of a device, or a place that is no device. */
enum { POOL_DEVICES = 64, PLACE_HOST = POOL_DEVICES, PLACE_HOST_NUMA, PLACE_NONE, PLACES };
enum { AWAITED_MAX = 16 }; /* the most frees that one allocation waits for */

enum block_state {
    BLOCK_LIVE,    /* in use by the application */
    BLOCK_FREEING, /* freed by a call, not yet in stream order: its own stream may reuse it */
    BLOCK_FREE,    /* kept for reuse; not in the memory table */
};

struct block {
    CUdeviceptr base;
    size_t whole;
    enum block_state state;
    struct point freed; /* the stream, and the place of the free there; seq 0: being submitted */
    bool promised;      /* once freed, its memory goes to another block, which counts it already */
    bool in_use;        /* of a graph: a launch allocated it, and it was not freed since */
    size_t refs;        /* of a graph: nodes, launches and frees that are not over */
    uint64_t ticket; /* of the free under way; a reuse clears it, so that the free does nothing */
    struct sim_pool *pool;
    struct block *prev, *next;
};

struct sim_pool {
    int place;
    enum memory_kind kind; /* MEMORY_POOL: a device's, MEMORY_HOST, MEMORY_MANAGED */
    bool fixed; /* a place's default pool or a device's graph pool: cannot be destroyed */
    bool destroyed;
    bool shared;           /* made for export */
    struct ipc_file whose; /* imported: where its memory is; number 0: made in this process */
    _Atomic bool peers[POOL_DEVICES]; /* other devices that were given access */
    uint64_t threshold, most;         /* most: 0: no limit */
    int reuse[4];                     /* by CUmemPool_attribute 1..3 */
    uint64_t reserved, reserved_high, used, used_high;
    struct block *blocks;
    struct sim_pool *next;
};

extern pthread_mutex_t pool_lock;

/* Makes a pool without blocks. It is never freed, so a stale handle is recognised. A destroyed one
 * stays until its last block is gone, without being found. NULL: no memory. */
struct sim_pool *pool_new(int place, enum memory_kind kind, bool fixed);
/* pool.c: the pool from which the place allocates; makes it if there is none. NULL: no memory. */
struct sim_pool *pool_current(bool managed, int place);
/* NULL unless the handle is of a live pool. */
struct sim_pool *pool_find(CUmemoryPool handle);
/* Gives free blocks back to the device until at most `keep` bytes are reserved. */
void pool_trim(struct sim_pool *p, uint64_t keep);

/* The address of a live block of at least `bytes`, for that stream; 0: the device is full. `after`
 * is filled with what the stream has to follow first: AWAITED_MAX frees, of which the last may be
 * {0}. NULL: do not take a block that has to be waited for. */
CUdeviceptr block_take(struct sim_pool *p, size_t bytes, uint32_t stream, struct point *after);
/* The block that begins at the address; NULL: none. */
struct block *block_find(CUdeviceptr base);
/* The free has happened in stream order, so any stream may have the block again. */
void block_make_free(struct block *b);

#endif
