/*
 * profile.h - what this process learns about its kernels, and what others learned before.
 *
 * Rows by function and grid (profile_file.h), for each GPU. The file is read when a GPU's first
 * context comes up. What was learned is merged into it every half minute by a thread of the
 * library, and at exit, but never by a thread that launches. CUTIN_PROFILE=off: no file is used.
 */
#ifndef CUTIN_SHIM_LEARN_PROFILE_H
#define CUTIN_SHIM_LEARN_PROFILE_H

#include "common/profile_file.h"
#include "shim/lookup/shim.h"
#include "vhq/vhq.h"

struct gpu_device;

/* The place of a parameter among a kernel's parameters. */
struct profile_param {
    uint32_t offset, size;
};
/* The key under which the times of a function are kept. */
struct profile_key {
    _Atomic uint64_t hash;   /* 0: nowhere */
    struct profile *profile; /* set with `hash` */
    uint32_t name;           /* offset in the profile's text */
};

/* A GPU is in use: reads its file, once. */
void profile_open(const struct gpu_device *gpu);
/* Finds what is known of a function of which the driver has accepted a launch. `found` has a row
 * for each of so many buckets, all 0 before. Returns the hash, which the caller stores in the key
 * when it has used what was found. `name`: NULL where the driver does not tell. */
uint64_t profile_find(struct profile_key *key, CUfunction handle, const char *name,
                      const struct profile_param *param, uint32_t params,
                      const struct gpu_device *gpu, struct profile_row *found, uint32_t buckets);
/* The row of a function's bucket, made if it is new; NULL: nothing is kept. */
struct profile_row *profile_row_of(const struct profile_key *key, uint32_t bucket);
/* Adds a sample, `launches` launches after the one before. `ns` 0: the time was too long by an
 * unknown amount. `at_most`: all were. */
void profile_sample(struct profile_row *row, uint32_t ns, bool at_most,
                    const struct vhq_learned *learned, uint32_t launches);
/* At the end of the process: stops the thread, and writes what is not written yet. */
void profile_close(void);

#endif
