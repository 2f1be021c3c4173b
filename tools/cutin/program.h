/*
 * program.h - what a command line program of this tree is: its name, its subcommands in groups, and
 * `main`.
 */
#ifndef CUTIN_TOOLS_CUTIN_PROGRAM_H
#define CUTIN_TOOLS_CUTIN_PROGRAM_H

#include "subcommand.h"

struct group {
    const char *heading;
    const struct subcommand *const *subcommands; /* NULL-terminated */
};

struct program {
    const char *name;
    const char *purpose;        /* a line */
    const char *more;           /* where to read on: lines */
    const struct group *groups; /* in the order of the help text; ends with one without a heading */
};

/* Finds the subcommand and runs it. Returns the exit status. */
int program_main(const struct program *program, int argc, char **argv);

#endif
