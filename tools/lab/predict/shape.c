/*
 * shape.c - how grids fit on multiprocessors (see shape.h).
 */
#include "shape.h"

enum { MOST_THREADS = 2048, MOST_BLOCKS = 32, SHARED_BYTES = 227 << 10 };

uint64_t shape_blocks(const struct workload_op *op)
{
    return (uint64_t)op->grid[0] * op->grid[1] * op->grid[2];
}

uint32_t shape_blocks_at_once(const struct workload_op *op)
{
    uint32_t threads = (uint32_t)op->block[0] * op->block[1] * op->block[2];
    uint32_t n = MOST_THREADS / (threads ? threads : 1);

    if (n > MOST_BLOCKS)
        n = MOST_BLOCKS;
    if (op->shared && n > SHARED_BYTES / op->shared)
        n = SHARED_BYTES / op->shared;
    return n ? n : 1;
}

uint32_t shape_processors(const struct workload_op *op, uint32_t processors)
{
    uint64_t each = shape_blocks_at_once(op), n = (shape_blocks(op) + each - 1) / each;

    return n < processors ? (uint32_t)n : processors;
}

uint64_t shape_waves(const struct workload_op *op, uint32_t processors)
{
    uint64_t room = (uint64_t)shape_blocks_at_once(op) * processors;

    return (shape_blocks(op) + room - 1) / room;
}
