/*
 * kernels.h - the kernels whose effects the simulator knows, by entry name; examples/kernels.ptx
 * has the same ones for a real GPU.
 */
#ifndef CUTIN_TOOLS_SIMGPU_PROGRAM_KERNELS_H
#define CUTIN_TOOLS_SIMGPU_PROGRAM_KERNELS_H

#include "tools/simgpu/face/sim.h"

struct kernel_model {
    const char *name;
    size_t
        packed_bytes; /* of its parameters: a kernel of the same name with others is another one */
    bool slight;      /* leaves its multiprocessor to others */
    /* What it costs; NULL: the time that its bytes take, so many for each of the words whose number
     * (of 32 bits) is a parameter. */
    uint64_t (*cost_ns)(const void *packed);
    size_t words_at, word_bytes;
    CUresult (*effect)(struct work *w); /* w->blob: the packed parameters */
    /* Instead of all: a resident kernel's, as struct work has it. */
    uint64_t (*step)(struct work *w, uint64_t at_ns);
};

/* NULL for kernels that the simulator does not know: they take SIMGPU_KERNEL_US and do nothing. */
const struct kernel_model *kernel_model_find(const char *name, size_t packed_bytes);
uint64_t kernel_model_cost_ns(const struct kernel_model *m, const void *packed);

/* exchange.c: the kernel of examples/async_net that rings and waits by itself. */
enum { EXCHANGE_PACKED = 68 };
uint64_t exchange_step(struct work *w, uint64_t at_ns);
/* storage.c: those of examples/gpu_storage, which live for as long as their storage takes. */
enum { STORAGE_PACKED = 12 };
uint64_t storage_search_step(struct work *w, uint64_t at_ns);
uint64_t storage_flush_step(struct work *w, uint64_t at_ns);

#endif
