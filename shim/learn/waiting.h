/*
 * waiting.h - kernels that wait for I/O which they began themselves, of storage or a network.
 *
 * How long one runs says nothing about what it computes. So it is not learned from, and for the cap
 * it is as long as the budget, whatever that is: others of its process go beside it, and at most
 * one more of its own stream. CUTIN_WAITING_KERNELS names such kernels. Others are recognised:
 * those that take a millisecond in a process that has registered I/O memory with the driver.
 */
#ifndef CUTIN_SHIM_LEARN_WAITING_H
#define CUTIN_SHIM_LEARN_WAITING_H

#include "shim/lookup/shim.h"

struct estimate;
struct gpu_device;
struct shim_function;

extern _Atomic bool waiting_possible;
/* May this process have such kernels? Costs one load. */
static inline bool waiting_any(void)
{
    return unlikely(atomic_load_explicit(&waiting_possible, memory_order_relaxed));
}

/* Called with each context: is there a list of names? */
void waiting_open(void);
/* I/O memory has been registered. */
void waiting_registered(void);
/* Does a launch of it wait, by its name or by the time that its grid takes? Then the process's page
 * shows its name. */
bool waiting_kernel(struct shim_function *f, CUfunction handle, const struct estimate *e,
                    const struct gpu_device *gpu);

#endif
