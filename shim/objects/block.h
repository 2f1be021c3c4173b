/*
 * block.h - blocks of memory pools that streams with a queue allocated in stream order.
 *
 * An allocation returns its address at once, so it overtakes what is buffered. That includes frees,
 * whose blocks the driver would have given out again. So it takes up the block of a buffered free
 * of its own stream and pool where the driver could have done so; neither call reaches the driver.
 * What is freed but buffered has a bound, beyond which allocations wait. Thread safe.
 */
#ifndef CUTIN_SHIM_OBJECTS_BLOCK_H
#define CUTIN_SHIM_OBJECTS_BLOCK_H

#include "shim/objects/stream.h"

/* An allocation waits while buffered frees keep more than so many bytes from the driver. */
#define BLOCK_FREED_MOST (UINT64_C(64) << 20)
extern _Atomic uint64_t block_freed_bytes; /* of blocks whose free is buffered */

/* The driver has allocated this block. `pool`: NULL means the device's current pool. */
void block_add(CUdeviceptr at, size_t bytes, CUmemoryPool pool);
/* The driver is about to get the block back by a call that is not buffered. */
void block_forget(CUdeviceptr at);

/* One free of one block. It is void once the block is taken up again. */
struct block_free {
    struct block *block; /* NULL: the block is not known, and the driver judges the free */
    uint64_t serial;
};
/* The program frees the block. False: it has done so before, and that free is still buffered. */
bool block_free_begin(CUdeviceptr at, struct block_free *f);
/* The free is buffered in that stream. */
void block_free_buffered(struct block_free *f, struct shim_stream *s);
/* The driver has made the free, or will. False: it is void, and the driver must not make it. */
bool block_free_end(struct block_free f);
/* The address of a block of that pool and size whose free is buffered in the stream; 0: none. */
CUdeviceptr block_take(struct shim_stream *s, size_t bytes, CUmemoryPool pool);

/* What a pool's handle means has changed: blocks from before are not taken up any more. */
void block_pools_changed(void);
/* This block is not taken up either: it is known by more than its address. */
void block_known_elsewhere(CUdeviceptr at);

#endif
