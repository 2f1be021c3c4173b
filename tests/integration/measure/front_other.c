/*
 * front_other.c - a library in front of the driver, of another release: it has none of the
 * functions that today's has.
 */
#include "shim/front.h"

const struct cutin_front cutin_front = {.version = CUTIN_FRONT_VERSION + 1};
