/*
 * programs.h - synthetic programs for a GPU of modules: every pattern of access with six amounts of
 * computing, and the mean over them on one machine against another.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_PROGRAMS_H
#define CUTIN_TOOLS_LAB_PREDICT_PROGRAMS_H

#include "modules.h"

/* By what bounds them on a single chip of the same size. */
enum programs_group { PROGRAMS_MEMORY, PROGRAMS_COMPUTE, PROGRAMS_LIMITED, PROGRAMS_GROUPS };
enum { PROGRAMS_LOADS = 3, PROGRAMS_MOST_PATTERNS = 8 };

/* What the programs take on one machine. */
struct programs_times {
    double ns[PROGRAMS_GROUPS][PROGRAMS_MOST_PATTERNS][PROGRAMS_LOADS];
    double link_bytes; /* in sum */
    size_t patterns;
};

/* `like` is the single chip that says how much a program computes. 0 or -errno of modules_run. */
int programs_run(const struct modules *like, const struct modules *m, struct programs_times *out);

/* How many times as fast `b` is as `a`: the geometric mean, of a group or of all. */
double programs_gain(const struct programs_times *a, const struct programs_times *b,
                     enum programs_group group);
double programs_gain_all(const struct programs_times *a, const struct programs_times *b);
/* The share of programs that are faster (slower, with `sign` -1) by more than one in a hundred. */
double programs_share(const struct programs_times *a, const struct programs_times *b, int sign);

#endif
