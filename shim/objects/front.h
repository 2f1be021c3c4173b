/*
 * front.h - what a preloaded library in front of the driver's functions (shim/front.h) adds to
 * copies. 0 without such a library.
 */
#ifndef CUTIN_SHIM_OBJECTS_FRONT_H
#define CUTIN_SHIM_OBJECTS_FRONT_H

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic uint32_t front_copy_ns, front_read_ps;

#endif
