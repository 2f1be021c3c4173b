/*
 * delay.h - a delay in a stream, on the device.
 */
#ifndef CUTIN_SHIM_DISTANCE_DELAY_H
#define CUTIN_SHIM_DISTANCE_DELAY_H

#include "shim/distance/distance.h"

/* False: what goes into this stream goes as it is; it captures, say. */
bool distance_applies(CUstream stream);
/* Puts the delay into a stream to which it applies. */
void distance_delay(CUstream stream, uint64_t ns);

#endif
