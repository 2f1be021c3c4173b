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

/* How a parameter of a kernel lies. */
struct profile_param {
    uint32_t offset, size;
};
/* Where what is learned of a function is kept. */
struct profile_key {
    _Atomic uint64_t hash;   /* 0: nowhere */
    struct profile *profile; /* with `hash` */
    uint32_t name;           /* in its text */
};

/* A GPU is in use: read its file, once. */
void profile_open(const struct gpu_device *gpu);
/* Finds what is known of a function, which the driver has accepted a launch of, by grids: `found`,
 * all 0 before, of so many buckets. Returns the hash, which the caller stores in the key when it
 * has taken over what was found. `name`: NULL where the driver does not say. */
uint64_t profile_find(struct profile_key *key, CUfunction handle, const char *name,
                      const struct profile_param *param, uint32_t params,
                      const struct gpu_device *gpu, struct profile_row *found, uint32_t buckets);
/* The row of a function's bucket, made if there is none yet; NULL: nothing is kept. */
struct profile_row *profile_row_of(const struct profile_key *key, uint32_t bucket);
/* A sample of the row's estimate, `launches` launches after the one before. `ns` 0: it is too long,
 * nobody knows by how much. `at_most`: so were all. */
void profile_sample(struct profile_row *row, uint32_t ns, bool at_most,
                    const struct vhq_learned *learned, uint32_t launches);
/* Write what is not written yet. The process ends: also stop the thread. */
void profile_close(void);

#endif
