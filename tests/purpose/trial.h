/*
 * trial.h - one workload, which is run once on a simulated GPU of its own and judged: its
 * processes, the daemon beside them, and what an administrator does meanwhile. Threads: one.
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
    bool stepped;               /* in the stepped time */
    /* trial_find fills these in */
    char worker[TRIAL_NAME], daemon[TRIAL_NAME], command[TRIAL_NAME], simulator[TRIAL_NAME],
        library[TRIAL_NAME], with_mutants[TRIAL_NAME], clock[TRIAL_NAME];
    char folder[TRIAL_NAME]; /* by trial_open */
};

/* Finds the programs and libraries beside this executable. */
void trial_find(struct trial *t);
/* Makes a folder for sockets and logs; the second removes it. False, with errno: there is none. */
bool trial_open(struct trial *t);
void trial_close(const struct trial *t);
/* `begin_ns`: when it began, in CLOCK_MONOTONIC. 0, or -errno if it could not be run. */
int trial_run(const struct trial *t, const struct workload *w, struct verdict *v,
              uint64_t *begin_ns);

#endif
