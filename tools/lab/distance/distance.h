/*
 * distance.h - simulates a GPU at a distance (CUTIN_DISTANCE_US) on the local one: each command
 * waits in its stream, on the device, for as long as the longer way would take (model.h). No thread
 * waits, no order changes, and streams that capture are left alone.
 *
 * This is a preloaded library between libcutin.so's wrappers and the driver (shim/front.h). For a
 * command with a delay the wrappers call a function of this library, which puts a kernel that does
 * nothing into the stream and then calls the driver. So the delay is the same for work that goes
 * straight to the driver, inline, or out of a queue.
 */
#ifndef CUTIN_TOOLS_LAB_DISTANCE_DISTANCE_H
#define CUTIN_TOOLS_LAB_DISTANCE_DISTANCE_H

/* Declares every version of every function, without macros that rename one to another. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "common/likely.h"
#include "common/text.h"
#include "shim/front.h"
#include "shim/lookup/newer.h"
#include "tools/lab/distance/model.h"

#include <stdatomic.h>

/* The settings of CUTIN_DISTANCE_US and CUTIN_DISTANCE_TAGS. */
struct distance distance_get(void);
/* libcutin.so, which calls this library. */
const struct cutin_behind *distance_behind(void);

/* Finds the driver's own function, and keeps it in `kept`. */
void *distance_driver(void **kept, const char *symbol);
#define DRIVER(symbol)                                                                             \
    ({                                                                                             \
        static void *kept;                                                                         \
        (__typeof__(&symbol))distance_driver(&kept, #symbol);                                      \
    })
#define SAY(severity, ...) distance_behind()->log(severity, __VA_ARGS__)

/* False: commands in this stream are not delayed, for example because it captures. */
bool distance_applies(CUstream stream);
/* Puts a delay on the device into a stream to which it applies. */
void distance_delay(CUstream stream, uint64_t ns);

/* Measures copies and empty delays of the local GPU, once, before the first command: then no work
 * of the process runs that this could wait for. `kernel` makes the delays. Returns the error of the
 * first delay, if there is one. */
CUresult link_measure(CUkernel kernel);
struct distance_link link_get(void);
CUresult link_delay(CUkernel kernel, CUstream stream, uint64_t ns);

#endif
