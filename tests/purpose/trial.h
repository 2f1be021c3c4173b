/*
 * trial.h - one workload, run once on a simulated GPU of its own and judged: its processes, the
 * daemon beside them, and what an administrator does meanwhile. Threads: one.
 */
#ifndef PURPOSE_TRIAL_H
#define PURPOSE_TRIAL_H

#include "judge.h"

enum { TRIAL_SETS = 16, TRIAL_NAME = 512 };

struct trial {
    const char *preload, *mutant, *keep, *set[TRIAL_SETS]; /* NULL: none */
    uint32_t sets;
    double budget_us, slack_us; /* what (b) allows */
    bool native;                /* without cutin */
    bool stepped;               /* in a time that moves when nobody can run */
    /* trial_find's */
    char worker[TRIAL_NAME], daemon[TRIAL_NAME], command[TRIAL_NAME], simulator[TRIAL_NAME],
        library[TRIAL_NAME], with_mutants[TRIAL_NAME], clock[TRIAL_NAME];
    char folder[TRIAL_NAME]; /* trial_open's */
};

/* What stands beside this executable. */
void trial_find(struct trial *t);
/* A folder for sockets and logs, and its end. False, with errno: there is none. */
bool trial_open(struct trial *t);
void trial_close(const struct trial *t);
/* `begin_ns`: when it began, by CLOCK_MONOTONIC. 0, or -errno: it could not be run. */
int trial_run(const struct trial *t, const struct workload *w, struct verdict *v,
              uint64_t *begin_ns);

#endif
