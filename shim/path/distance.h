/*
 * distance.h - a GPU at a distance (CUTIN_DISTANCE_US), on the one that is here: what the program
 * asks the GPU for waits in its stream, on the device, for as long as the longer way would take
 * (distance_model.h). No thread waits, no order changes, and streams that capture get nothing.
 *
 * It stands between the wrappers and the driver: where a distance is set, api_real names functions
 * of ours for what is delayed, which put a kernel that does nothing into the stream and then call
 * the driver. So it is the same for work that goes straight to the driver, inline or out of a
 * queue, and where no distance is set nothing of it is on any path.
 */
#ifndef CUTIN_SHIM_PATH_DISTANCE_H
#define CUTIN_SHIM_PATH_DISTANCE_H

#include "shim/lookup/shim.h"
#include "shim/path/distance_model.h"

/* What CUTIN_DISTANCE_US and CUTIN_DISTANCE_TAGS say. */
struct distance distance_get(void);
/* False: what goes into this stream goes as it is; it captures, say. */
bool distance_applies(CUstream stream);
/* Puts the delay into a stream to which it applies. */
void distance_delay(CUstream stream, uint64_t ns);
CUresult distance_delay_by(CUkernel kernel, CUstream stream, uint64_t ns);

/* The driver's own function, in one that stands in front of it. */
#define DRIVER(symbol) ((__typeof__(&symbol))api_driver[API_##symbol])

struct stand_in {
    enum api_index row;
    void *function; /* NULL: the end of a table */
};
extern const struct stand_in distance_copies[]; /* distance_copy.c */
/* Measures how copies go as near as the GPU is, once, before the first command: so nothing of the
 * process runs that it could wait for. The error of the first delay, if there is one. */
CUresult distance_link_measure(CUkernel kernel);
struct distance_link distance_link_get(void);

#endif
