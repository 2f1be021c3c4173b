/*
 * front.h - what a library and libcutin.so say to each other where that library stands in front of
 * the driver's functions, for all of a process. The laboratory's distance does
 * (tools/lab/distance).
 *
 * It is preloaded beside libcutin.so and defines cutin_front. libcutin.so has a weak reference to
 * that, which the loader binds: without such a library there is nothing to look for, and nothing of
 * it is on any path. Both are of one version, or libcutin.so says so and goes without it.
 */
#ifndef CUTIN_SHIM_FRONT_H
#define CUTIN_SHIM_FRONT_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

enum { CUTIN_FRONT_VERSION = 1 };

/* libcutin.so's, for as long as the process lives; for what stands in front of a function, while a
 * call of that is under way. */
struct cutin_behind {
    /* The driver's own function, or one that answers that there is none. */
    void *(*driver)(const char *symbol);
    /* False: what goes into this stream is to go as it is. It captures, or nothing of the process
     * is cutin's any more. */
    bool (*applies)(CUstream stream);
    void (*log)(int severity, const char *format, ...) __attribute__((format(printf, 2, 3)));
};

/* What it adds to a copy, for estimates: to each, and to each byte of the host's that is read. */
struct cutin_front_cost {
    uint32_t copy_ns, read_ps;
};

struct cutin_front {
    uint32_t version; /* CUTIN_FRONT_VERSION; first in every version */
    /* When the driver is found, before the other one, with CUTIN_DISTANCE_US and
     * CUTIN_DISTANCE_TAGS. Threads may come at once, with the same. */
    struct cutin_front_cost (*begin)(const struct cutin_behind *behind, uint32_t rtt_ns,
                                     uint32_t tags);
    /* What stands in front of the driver's function of this name; NULL: nothing. */
    void *(*stand_in)(const char *symbol);
};
extern const struct cutin_front cutin_front __attribute__((weak, visibility("default")));

#endif
