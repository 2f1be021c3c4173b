/*
 * distance.h - a GPU at a distance (CUTIN_DISTANCE_US), on the one that is here: what the program
 * asks the GPU for waits in its stream, on the device, for as long as the longer way would take
 * (model.h). No thread waits, no order changes, and streams that capture get nothing.
 *
 * It stands between the wrappers and the driver: where a distance is set, api_real names functions
 * of ours for what is delayed, which put a kernel that does nothing into the stream and then call
 * the driver. So it is the same for work that goes straight to the driver, inline or out of a
 * queue, and where no distance is set nothing of it is on any path.
 */
#ifndef CUTIN_SHIM_DISTANCE_DISTANCE_H
#define CUTIN_SHIM_DISTANCE_DISTANCE_H

#include "shim/distance/model.h"
#include "shim/lookup/shim.h"

/* What CUTIN_DISTANCE_US and CUTIN_DISTANCE_TAGS say. */
static inline struct distance distance_get(void)
{
    const struct config *c = config_get();
    return (struct distance){.rtt_ns = c->distance_ns, .tags = c->distance_tags};
}
/* The driver's own function, in one that stands in front of it. */
#define DRIVER(symbol) ((__typeof__(&symbol))api_driver[API_##symbol])

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
