/*
 * copy.h - what stands in front of the driver's copies.
 */
#ifndef CUTIN_SHIM_DISTANCE_COPY_H
#define CUTIN_SHIM_DISTANCE_COPY_H

#include "shim/lookup/shim.h"

struct stand_in {
    enum api_index row;
    void *function; /* NULL: the end of a table */
};
extern const struct stand_in distance_copies[];

#endif
