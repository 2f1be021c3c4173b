/*
 * child.h - a program that the command runs and waits for, with what is preloaded and recorded set up.
 */
#ifndef CUTIN_CHILD_H
#define CUTIN_CHILD_H

#include <stdbool.h>

struct child_plan {
    const char *const *set; /* NAME, value, ..., NULL: environment */
    bool sim;               /* on the simulated GPU */
};

/*
 * Runs `argv` with libcutin.so preloaded, on the simulated driver if asked for, and waits for its end.
 * The terminal's signals reach the program and leave the command alone; others are passed on to it.
 * Returns its exit status as a shell would, also where it could not be run: that, and what else is
 * wrong, is one line on stderr that begins with `name`. 125: not even prepared.
 */
int child_run(const char *name, const struct child_plan *plan, char *const argv[]);

#endif
