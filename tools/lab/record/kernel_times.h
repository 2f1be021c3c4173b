/*
 * kernel_times.h - the times of recorded kernels as a table for the simulated driver
 * (SIMGPU_KERNEL_TIMES; tools/simgpu/README.md has the format).
 */
#ifndef CUTIN_TOOLS_LAB_RECORD_KERNEL_TIMES_H
#define CUTIN_TOOLS_LAB_RECORD_KERNEL_TIMES_H

#include "workload.h"

/*
 * Writes one line for each name, grid and block of the workload's kernels, those that took most
 * time first, and one for all other shapes of each name. The time is the lower quartile of those
 * measured: a wait for the host or another stream makes a measured time too long, never too short.
 * Ops with a duration of UINT64_MAX were not measured. `lines` gets the number of shapes. Returns
 * 0, or -errno with one line in `why` (-ENODATA: no kernel was measured).
 */
int kernel_times_write(const struct workload *w, const char *path, size_t *lines, char *why,
                       size_t why_bytes);

#endif
