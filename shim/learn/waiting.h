/*
 * waiting.h - kernels that wait for I/O which they began themselves: of storage, or of a network.
 *
 * How long one runs says nothing of what it computes. So it is not learned from, and for the cap it
 * is as long as the budget, whatever it was: others of its process go beside it, and of its own
 * stream one more at most. Which kernels wait is said by CUTIN_WAITING_KERNELS, or seen: those that
 * take a millisecond in a process that has I/O memory registered with the driver.
 */
#ifndef CUTIN_SHIM_LEARN_WAITING_H
#define CUTIN_SHIM_LEARN_WAITING_H

#include "shim/lookup/shim.h"

struct estimate;
struct gpu_device;
struct shim_function;

extern _Atomic bool waiting_possible;
/* May this process have such kernels? One load. */
static inline bool waiting_any(void)
{
    return unlikely(atomic_load_explicit(&waiting_possible, memory_order_relaxed));
}

/* With each context: is there a list of names? */
void waiting_open(void);
/* I/O memory has been registered. */
void waiting_registered(void);
/* Does a launch of it wait, by its name or by what its grid was seen to take? */
bool waiting_kernel(struct shim_function *f, CUfunction handle, const struct estimate *e);
/* One is launched: the scheduler's list names it. */
void waiting_show(struct shim_function *f, CUfunction handle, const struct gpu_device *gpu);

#endif
