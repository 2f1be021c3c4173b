/*
 * front_other.c - a library of another release that would stand in front of the driver: it has none
 * of the functions that it would have today.
 */
#include "shim/front.h"

const struct cutin_front cutin_front = {.version = CUTIN_FRONT_VERSION + 1};
