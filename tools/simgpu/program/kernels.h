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
    uint64_t (*cost_ns)(const void *packed);
    CUresult (*effect)(struct work *w); /* w->blob: the packed parameters */
    /* Instead of both: a resident kernel's, as struct work has it. */
    uint64_t (*step)(struct work *w, uint64_t at_ns);
};

/* NULL for kernels that the simulator does not know: they take SIMGPU_KERNEL_US and do nothing. */
const struct kernel_model *kernel_model_find(const char *name, size_t packed_bytes);

#endif
