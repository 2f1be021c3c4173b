/*
 * models.h - networks as the GPU sees them: the kernels that one request launches, in order.
 *
 * The five of models.def are generated: the numbers of kernels, their shapes and their durations
 * are the published ones. Their order is random, and the same for the same seed. Others come from
 * workload files. What the kernels compute does not matter here: they keep the GPU busy for their
 * time.
 */
#ifndef CUTIN_TOOLS_LAB_DISB_MODELS_H
#define CUTIN_TOOLS_LAB_DISB_MODELS_H

#include <stddef.h>
#include <stdint.h>

struct model_kernel {
    uint32_t blocks, threads;
    uint64_t ns; /* duration of the kernel by itself */
};

struct model {
    struct model_kernel *kernel;
    uint32_t kernels;
};

/* `speed`: how much faster than the published GPU. 0, -ENOENT (no such model) or -ENOMEM. */
int model_generate(struct model *m, const char *name, double speed, uint64_t seed);
/* The first request of a workload file, without its copies. 0, or -errno with one line in `why`. */
int model_read(struct model *m, const char *path, char *why, size_t why_bytes);
uint64_t model_ns(const struct model *m); /* sum of all kernels */
void model_free(struct model *m);

#endif
