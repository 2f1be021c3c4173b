/*
 * shape.h - how a kernel's grid fits on multiprocessors like the simulated driver's: 2048 threads,
 * 32 blocks and 227 KiB of shared memory each.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_SHAPE_H
#define CUTIN_TOOLS_LAB_PREDICT_SHAPE_H

#include "tools/lab/record/workload.h"

uint64_t shape_blocks(const struct workload_op *op);
/* How many blocks one multiprocessor holds at once; 1 at least. */
uint32_t shape_blocks_at_once(const struct workload_op *op);
/* How many of `processors` the grid occupies, and in how many waves its blocks run there. */
uint32_t shape_processors(const struct workload_op *op, uint32_t processors);
uint64_t shape_waves(const struct workload_op *op, uint32_t processors);

#endif
