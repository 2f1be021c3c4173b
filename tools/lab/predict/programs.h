/*
 * programs.h - synthetic programs for a GPU of modules: every pattern of access with three amounts
 * of computing in each of three groups, and the mean speed of one machine against another.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_PROGRAMS_H
#define CUTIN_TOOLS_LAB_PREDICT_PROGRAMS_H

#include "modules.h"

/* By what bounds the programs on a single chip of the same size. */
enum programs_group { PROGRAMS_MEMORY, PROGRAMS_COMPUTE, PROGRAMS_LIMITED, PROGRAMS_GROUPS };
enum { PROGRAMS_LOADS = 3, PROGRAMS_MOST_PATTERNS = 8 };

/* How long the programs take on one machine. */
struct programs_times {
    double ns[PROGRAMS_GROUPS][PROGRAMS_MOST_PATTERNS][PROGRAMS_LOADS];
    double link_bytes; /* sum */
    size_t patterns;
};

/* `like`: the single chip that tells how much programs compute. 0 or an error of modules_run. */
int programs_run(const struct modules *like, const struct modules *m, struct programs_times *out);

/* How many times as fast as `a` the machine `b` is: the geometric mean, of a group or of all. */
double programs_gain(const struct programs_times *a, const struct programs_times *b,
                     enum programs_group group);
double programs_gain_all(const struct programs_times *a, const struct programs_times *b);
/* The share of programs that are faster (with `sign` -1: slower) by more than one percent. */
double programs_share(const struct programs_times *a, const struct programs_times *b, int sign);

#endif
