/*
 * validity.h - the CUDA runtime asks whether it talks to a driver that knows it; this is the
 * answer.
 *
 * The ZLUDA project describes the answer publicly (crate `dark_api`, function `integrity_check`,
 * MIT or Apache-2.0); its numbers come from there. It serves one end: programs of the runtime can
 * be tested on a simulated device. It is built with SIMGPU_RUNTIME only, and into the simulator
 * only. It protects nothing that the simulator would give away: there is no NVIDIA driver in it.
 */
#ifndef CUTIN_TOOLS_SIMGPU_RUNTIME_VALIDITY_H
#define CUTIN_TOOLS_SIMGPU_RUNTIME_VALIDITY_H

#include <stdint.h>

/* The answer depends on these, which are digested in this order. */
struct validity_question {
    uint32_t driver_version; /* what cuDriverGetVersion says */
    uint32_t version;        /* of the runtime; its last digit is the kind of the question */
    uint32_t pid;
    uint32_t thread;               /* the lower half of pthread_self() */
    const void *runtime_interface; /* the addresses of the two tables */
    const void *validity_table;
    const void *function; /* the address of the function that is asked */
    uint64_t unix_seconds;
};

struct validity_device {
    uint8_t uuid[16];
    int32_t pci_domain, pci_bus, pci_device;
};

void validity_answer(const struct validity_question *q, const struct validity_device *devices,
                     int count, uint64_t answer[2]);

#endif
