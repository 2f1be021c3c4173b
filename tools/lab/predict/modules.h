/*
 * modules.h - a GPU of modules: how long a kernel takes where multiprocessors, memory and caches
 * are parted among modules that links join in a ring.
 *
 * Blocks are laid out over modules, pages over their memories, and a sample of the lines that the
 * blocks ask for goes through the caches; what each link and each memory had to carry gives the
 * time. The equations and their source are in docs/whatif-modules.md.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_MODULES_H
#define CUTIN_TOOLS_LAB_PREDICT_MODULES_H

#include "access.h"

#include <stdbool.h>

enum {
    MODULES_MOST = 16,
    MODULES_LOADS = 6, /* so many amounts of computing go through one run */
};

struct modules {
    uint32_t modules; /* 1: a single chip */
    uint32_t processors;
    double dram_gbs;       /* of all modules together */
    double link_gbs;       /* of one module, in and out */
    uint64_t l2_bytes;     /* of all modules, the caches of remote data included */
    uint64_t remote_bytes; /* of those caches, together; 0: there are none */
    bool batches;          /* blocks in contiguous batches, else round robin */
    bool first_touch;      /* pages where they were touched first, else spread */
};

struct modules_kernel {
    const struct access_pattern *pattern;
    uint64_t blocks;
    uint32_t blocks_at_once; /* per multiprocessor */
    uint32_t warps;          /* of a block; each has one line outstanding */
    uint64_t bytes;          /* of the data, the shared table not included */
    /* What a wave of blocks computes, by itself: several programs that ask for the same memory. */
    double wave_ns[MODULES_LOADS];
};

struct modules_time {
    double ns[MODULES_LOADS]; /* of one launch, for each of these */
    double dram_ns;           /* what the memories need for it, by themselves */
    double link_bytes;        /* that went in or out of modules */
    double remote;            /* share of the requests that were for another module's memory */
};

/* What a line of memory takes to come, on a single chip. */
enum { MODULES_LINE_BYTES = 128, MODULES_DRAM_NS = 100 };

/* The mean of some launches of the kernel on the same data. 0, -EINVAL or -ENOMEM. */
int modules_run(const struct modules *m, const struct modules_kernel *k, struct modules_time *out);

#endif
