/*
 * modules.h - a GPU of modules: how long a kernel takes if multiprocessors, memory and caches are
 * divided among modules, which links connect in a ring.
 *
 * Blocks are distributed over modules and pages over their memories. A sample of the lines that the
 * blocks ask for goes through the caches. The time follows from what each link and each memory had
 * to carry. docs/whatif-modules.md has the equations and their source.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_MODULES_H
#define CUTIN_TOOLS_LAB_PREDICT_MODULES_H

#include "access.h"

#include <stdbool.h>

enum {
    MODULES_MOST = 16,
    MODULES_LOADS = 6, /* how many amounts of computing share one run */
};

struct modules {
    uint32_t modules; /* 1: a single chip */
    uint32_t processors;
    double dram_gbs;       /* of all modules together */
    double link_gbs;       /* of one module, in and out */
    uint64_t l2_bytes;     /* of all modules, with the caches of remote data */
    uint64_t remote_bytes; /* of these caches, together; 0: there are none */
    bool batches;          /* blocks go to modules in contiguous batches, else round robin */
    bool first_touch;      /* pages are in the module that touched them first, else spread */
};

struct modules_kernel {
    const struct access_pattern *pattern;
    uint64_t blocks;
    uint32_t blocks_at_once; /* per multiprocessor */
    uint32_t warps;          /* of a block; each has one line outstanding */
    uint64_t bytes;          /* of the data, without the shared table */
    /* How long a wave of blocks computes, for several programs that ask for the same memory. */
    double wave_ns[MODULES_LOADS];
};

struct modules_time {
    double ns[MODULES_LOADS]; /* of one launch, for each wave_ns */
    double dram_ns;           /* what the memories alone need for it */
    double link_bytes;        /* that went in or out of modules */
    double remote;            /* share of the requests for another module's memory */
};

/* How long a line of memory takes to arrive, on a single chip. */
enum { MODULES_LINE_BYTES = 128, MODULES_DRAM_NS = 100 };

/* Runs the kernel several times on the same data, and gives the mean. 0, -EINVAL or -ENOMEM. */
int modules_run(const struct modules *m, const struct modules_kernel *k, struct modules_time *out);

#endif
