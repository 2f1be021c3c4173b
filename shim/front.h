/*
 * front.h - the interface between libcutin.so and a library that puts functions of its own in front
 * of the driver's, for a whole process. The laboratory's distance is such a library
 * (tools/lab/distance).
 *
 * It is preloaded beside libcutin.so and defines cutin_front. libcutin.so has a weak reference to
 * cutin_front, which the loader binds. Without such a library nothing is looked up and no call
 * costs more. Both must have one version, or libcutin.so says so and goes without the library.
 */
#ifndef CUTIN_SHIM_FRONT_H
#define CUTIN_SHIM_FRONT_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

enum { CUTIN_FRONT_VERSION = 1 };

/* What libcutin.so gives to the library. Valid for the life of the process; functions in front of
 * the driver's may use it while they are called. */
struct cutin_behind {
    /* The driver's own function, or a stub that returns an error where it has none. */
    void *(*driver)(const char *symbol);
    /* False: calls into this stream must go to the driver unchanged, because the stream captures or
     * because cutin schedules nothing of the process any more. */
    bool (*applies)(CUstream stream);
    void (*log)(int severity, const char *format, ...) __attribute__((format(printf, 2, 3)));
};

/* What the library adds to a copy, for estimates: to each, and to each byte read from the host. */
struct cutin_front_cost {
    uint32_t copy_ns, read_ps;
};

struct cutin_front {
    uint32_t version; /* CUTIN_FRONT_VERSION; first in every version */
    /* Called when the driver has been found, before stand_in, with CUTIN_DISTANCE_US and
     * CUTIN_DISTANCE_TAGS. Several threads may call it at once, with the same arguments. */
    struct cutin_front_cost (*begin)(const struct cutin_behind *behind, uint32_t rtt_ns,
                                     uint32_t tags);
    /* The function to put in front of the driver's function of this name; NULL: none. */
    void *(*stand_in)(const char *symbol);
};
extern const struct cutin_front cutin_front __attribute__((weak, visibility("default")));

#endif
