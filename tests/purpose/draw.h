/*
 * draw.h - draws one of a list of numbers.
 */
#ifndef PURPOSE_DRAW_H
#define PURPOSE_DRAW_H

#include "tools/cutin/statistics/random.h"

#define PICK(s, ...)                                                                               \
    (((const uint32_t[]){__VA_ARGS__})[random_below(s, sizeof((uint32_t[]){__VA_ARGS__}) / 4)])

#endif
