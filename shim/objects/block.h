/*
 * block.h - blocks of memory pools that streams with a queue allocated in stream order.
 *
 * An allocation returns its address at once, so it goes ahead of what is buffered: of frees too,
 * whose blocks the driver would have given out again. So it takes up the block of a buffered free
 * of its own stream and pool where the driver could have done the same: neither call reaches it.
 * And what is freed but buffered has a bound, beyond which allocations wait. All of it thread safe.
 */
#ifndef CUTIN_SHIM_OBJECTS_BLOCK_H
#define CUTIN_SHIM_OBJECTS_BLOCK_H

#include "shim/objects/stream.h"

struct block;

/* Bytes that buffered frees may keep from the driver when an allocation goes ahead of them. */
#define BLOCK_FREED_MOST (UINT64_C(64) << 20)
uint64_t block_freed_bytes(void);

/* The driver gave it out. `pool`: NULL is the current one of the device. */
void block_add(CUdeviceptr at, size_t bytes, CUmemoryPool pool);
/* The driver is about to have it back by a call that is not buffered. */
void block_forget(CUdeviceptr at);

/* One free of one block. It is void once the block is taken up again. */
struct block_free {
    struct block *block; /* NULL: not known, the driver judges */
    uint64_t serial;
};
/* The program frees it. False: it did so before, and that free is still buffered. */
bool block_free_begin(CUdeviceptr at, struct block_free *f);
/* The driver did it at once, */
void block_free_end(struct block_free f);
/* or it is buffered in that stream. */
void block_free_buffered(struct block_free *f, struct shim_stream *s);
/* It comes to be made. False: it is void. */
bool block_free_due(struct block_free f);
/* The address of a block of that pool and size whose free is buffered in the stream; 0: none. */
CUdeviceptr block_take(struct shim_stream *s, size_t bytes, CUmemoryPool pool);

/* Which pool is the current one, or which a handle means, has changed: blocks from before are not
 * taken up. */
void block_pools_changed(void);
/* Nor is this one: somebody knows it by more than its address. */
void block_known_elsewhere(CUdeviceptr at);

#endif
