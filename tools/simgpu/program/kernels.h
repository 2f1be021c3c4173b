/*
 * kernels.h - the kernels whose effects the simulator knows, by entry name. examples/kernels.ptx
 * has the same kernels for a real GPU.
 */
#ifndef CUTIN_TOOLS_SIMGPU_PROGRAM_KERNELS_H
#define CUTIN_TOOLS_SIMGPU_PROGRAM_KERNELS_H

#include "tools/simgpu/face/sim.h"

struct kernel_model {
    const char *name;
    size_t packed_bytes; /* of its parameters: with other parameters it is another kernel */
    bool zero_sms;       /* leaves its multiprocessor to other kernels */
    /* Its cost; NULL: the time for its bytes, word_bytes for each of the words whose number (32
     * bits) is the parameter at words_at. */
    uint64_t (*cost_ns)(const void *packed);
    size_t words_at, word_bytes;
    CUresult (*effect)(struct work *w); /* w->blob: the packed parameters */
    /* Only a resident kernel has this, and nothing of the above. See struct work. */
    uint64_t (*step)(struct work *w, uint64_t at_ns);
};

/* NULL: the simulator does not know the kernel; it takes SIMGPU_KERNEL_US and does nothing. */
const struct kernel_model *kernel_model_find(const char *name, size_t packed_bytes);
uint64_t kernel_model_cost_ns(const struct kernel_model *m, const void *packed);

/* exchange.c: the kernel of examples/async_net that rings and waits by itself. */
enum { EXCHANGE_PACKED = 68 };
uint64_t exchange_step(struct work *w, uint64_t at_ns);
/* storage.c: the kernels of examples/gpu_storage, which live for as long as their storage takes. */
enum { STORAGE_PACKED = 12 };
uint64_t storage_search_step(struct work *w, uint64_t at_ns);
uint64_t storage_flush_step(struct work *w, uint64_t at_ns);

#endif
