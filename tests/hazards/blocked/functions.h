/*
 * functions.h - the functions of shim/lookup/api.def, each with what the driver waits for in its
 * call and what it is called with: the tables next to this file, which name all of them.
 */
#ifndef HAZARDS_BLOCKED_FUNCTIONS_H
#define HAZARDS_BLOCKED_FUNCTIONS_H

#include <cuda.h>

#include "tests/hazards/blocked/world.h"

struct function {
    enum waits waits;
    void (*arguments)(word *to);
    CUresult (*call)(void *address); /* NULL: by words alone */
};

struct symbol {
    const char *name;
    const struct function *function;
    const char *what; /* of a CASE: what it is called with; NULL */
};
extern const struct symbol symbols[];
extern const int symbol_count;

/* Up to ARGUMENTS words. */
void symbol_arguments(const struct symbol *s, word *to);

#endif
