/*
 * jobs.h - several processes that share what an oracle has to run. A program mostly waits, for the
 * ends of holds and for the modelled device, so one processor serves several of them.
 */
#ifndef ORACLE_JOBS_H
#define ORACLE_JOBS_H

enum { JOBS_MAX = 64 };

/* What all jobs have done so far. */
struct tally {
    _Atomic unsigned ran, passed, failed;
};

/* Calls `run(user, job, t)` in `jobs` processes, with job 0 to jobs - 1, and waits for them.
 * Returns how many did not return 0 or could not be started. The output of jobs may be mixed, line
 * by line. */
unsigned jobs_run(unsigned jobs, int (*run)(void *user, unsigned job, struct tally *t), void *user,
                  struct tally *total);
/* As many as keep the machine busy. */
unsigned jobs_default(void);

#endif
