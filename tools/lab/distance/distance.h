/*
 * distance.h - a GPU at a distance (CUTIN_DISTANCE_US), on the one that is here: what the program
 * asks the GPU for waits in its stream, on the device, for as long as the longer way would take
 * (model.h). No thread waits, no order changes, and streams that capture get nothing.
 *
 * It is a library that is preloaded and stands between libcutin.so's wrappers and the driver
 * (shim/front.h): for what is delayed the wrappers call functions of ours, which put a kernel that
 * does nothing into the stream and then call the driver. So it is the same for work that goes
 * straight to the driver, inline or out of a queue.
 */
#ifndef CUTIN_TOOLS_LAB_DISTANCE_DISTANCE_H
#define CUTIN_TOOLS_LAB_DISTANCE_DISTANCE_H

/* Declare every version of every function, and no macro that renames one to another. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "common/likely.h"
#include "common/severity.h"
#include "shim/front.h"
#include "shim/lookup/newer.h"
#include "tools/lab/distance/model.h"

#include <stdatomic.h>

/* What CUTIN_DISTANCE_US and CUTIN_DISTANCE_TAGS say. */
struct distance distance_get(void);
/* libcutin.so, behind which we are. */
const struct cutin_behind *distance_behind(void);

/* The driver's own function, which `kept` keeps. */
void *distance_driver(void **kept, const char *symbol);
#define DRIVER(symbol)                                                                             \
    ({                                                                                             \
        static void *kept;                                                                         \
        (__typeof__(&symbol))distance_driver(&kept, #symbol);                                      \
    })
#define SAY(severity, ...) distance_behind()->log(severity, __VA_ARGS__)

/* False: what goes into this stream goes as it is; it captures, say. */
bool distance_applies(CUstream stream);
/* Puts a delay, on the device, into a stream to which it applies. */
void distance_delay(CUstream stream, uint64_t ns);

/* Measures how copies go as near as the GPU is, once, before the first command: so nothing of the
 * process runs that it could wait for. The error of the first delay, if there is one. `kernel`
 * delays. */
CUresult link_measure(CUkernel kernel);
struct distance_link link_get(void);
CUresult link_delay(CUkernel kernel, CUstream stream, uint64_t ns);

#endif
