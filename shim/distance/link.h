/*
 * link.h - the way to the GPU that is here: how long copies take without a distance.
 */
#ifndef CUTIN_SHIM_DISTANCE_LINK_H
#define CUTIN_SHIM_DISTANCE_LINK_H

#include "shim/distance/model.h"
#include "shim/lookup/shim.h"

/* Measures how copies go as near as the GPU is, once, before the first command: so nothing of the
 * process runs that it could wait for. The error of the first delay, if there is one. `kernel`
 * delays. */
CUresult link_measure(CUkernel kernel);
struct distance_link link_get(void);
CUresult link_delay(CUkernel kernel, CUstream stream, uint64_t ns);

#endif
