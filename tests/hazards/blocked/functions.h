/*
 * functions.h - the functions of shim/lookup/api.def, with what the driver waits for in each and
 * the arguments of the call. The tables next to this file name all of them.
 */
#ifndef HAZARDS_BLOCKED_FUNCTIONS_H
#define HAZARDS_BLOCKED_FUNCTIONS_H

#include <cuda.h>

#include "tests/hazards/blocked/world.h"

struct function {
    enum waits waits;
    void (*arguments)(word *to);
    CUresult (*call)(void *address); /* NULL: called with words alone */
};

struct symbol {
    const char *name;
    const struct function *function;
    const char *what; /* of a CASE: its name; else NULL */
};
extern const struct symbol symbols[];
extern const int symbol_count;

/* Writes up to ARGUMENTS words. */
void symbol_arguments(const struct symbol *s, word *to);

#endif
