/*
 * validity.h - the CUDA runtime's question whether it talks to a driver that knows it, and the
 * answer.
 *
 * The answer is described publicly by the ZLUDA project (crate `dark_api`, function
 * `integrity_check`, MIT or Apache-2.0), which is where its numbers come from. It is here for one
 * end: programs of the runtime can be tested on a simulated device. It is built with SIMGPU_RUNTIME
 * only, into the simulator only, and protects nothing that the simulator would give away: there is
 * no NVIDIA driver in it.
 */
#ifndef CUTIN_TOOLS_SIMGPU_RUNTIME_VALIDITY_H
#define CUTIN_TOOLS_SIMGPU_RUNTIME_VALIDITY_H

#include <stdint.h>

/* What the answer depends on, in the order in which it is digested. */
struct validity_question {
    uint32_t driver_version; /* what cuDriverGetVersion says */
    uint32_t version;        /* the runtime's, and the question's kind in its last digit */
    uint32_t pid;
    uint32_t thread;               /* the lower half of pthread_self() */
    const void *runtime_interface; /* addresses of the two tables, */
    const void *validity_table;
    const void *function; /* and of the function that is asked */
    uint64_t unix_seconds;
};

struct validity_device {
    uint8_t uuid[16];
    int32_t pci_domain, pci_bus, pci_device;
};

void validity_answer(const struct validity_question *q, const struct validity_device *devices,
                     int count, uint64_t answer[2]);

#endif
