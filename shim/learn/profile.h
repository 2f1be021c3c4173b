/*
 * profile.h - what this process learns about its kernels, and what others learned before it.
 *
 * Rows by function and grid (profile_file.h), for each GPU. The file is read when the first context
 * of a GPU comes up, and merged with what was learned every half minute by a thread of our own and
 * when the process ends: never by a thread that launches. CUTIN_PROFILE=off leaves the file alone.
 */
#ifndef CUTIN_SHIM_LEARN_PROFILE_H
#define CUTIN_SHIM_LEARN_PROFILE_H

#include "common/profile_file.h"
#include "shim/lookup/shim.h"
#include "vhq/vhq.h"

struct gpu_device;
struct shim_function;

/* A GPU is in use: read its file, once. */
void profile_open(const struct gpu_device *gpu);
/* The driver has accepted a launch of the function for the first time: what is known about it
 * becomes its estimate. In the launching thread, once for each function. */
void profile_seed(struct shim_function *f, CUfunction handle, const struct gpu_device *gpu);
/* The row of one of the function's estimates, made if there is none yet; NULL: nothing is kept. */
struct profile_row *profile_row_of(const struct shim_function *f, uint32_t bucket);
/* A sample of the row's estimate, `launches` launches after the one before. `ns` 0: it is too long,
 * nobody knows by how much. `at_most`: so were all. */
void profile_sample(struct profile_row *row, uint32_t ns, bool at_most,
                    const struct vhq_learned *learned, uint32_t launches);
/* Write what is not written yet. The process ends: also stop the thread. */
void profile_close(void);

#endif
