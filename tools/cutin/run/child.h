/*
 * child.h - a program that the command runs with its processes traced.
 */
#ifndef CUTIN_TOOLS_CUTIN_RUN_CHILD_H
#define CUTIN_TOOLS_CUTIN_RUN_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/cutin/paths.h"
#include "tools/cutin/subcommand.h"

struct child_plan {
    const struct variable *set; /* the environment */
    bool sim;                   /* on the simulated GPU */
    bool daemon;                /* one is started where none answers */
    bool device_log;            /* the simulated GPU's events are a file, too */
    /* What becomes of the files, which are gone afterwards. 0, or -errno and it has said why. */
    int (*take)(void *user, char *const *files, size_t n);
    void *user;
};

/*
 * Runs `argv` with libcutin.so preloaded, on the simulated driver if asked for, and waits for its
 * end; every process of it writes a trace. The terminal's signals reach the program and leave the
 * command alone; others are passed on to it. What comes after its end can be cut short
 * (progress.h). Returns its exit status as a shell would, also where it could not be run: that, and
 * what else is wrong, is one line on stderr. 125: not even prepared; 1: it went well, and `take`
 * failed.
 */
int child_run(const struct subcommand *cmd, const struct child_plan *plan, char *const argv[]);

#endif
