/*
 * jobs.h - several processes that share what an oracle has to run: a program waits most of its
 * time, for holds to end and for the modelled device, so a processor serves several.
 */
#ifndef ORACLE_JOBS_H
#define ORACLE_JOBS_H

enum { JOBS_MAX = 64 };

/* What all jobs have done so far. */
struct tally {
    _Atomic unsigned ran, passed, failed;
};

/* Calls `run(user, job, t)` in `jobs` processes, job 0 .. jobs - 1, and waits for them. Returns how
 * many of them did not return 0, or could not be started. Output of a job may mix with another's by
 * lines. */
unsigned jobs_run(unsigned jobs, int (*run)(void *user, unsigned job, struct tally *t), void *user,
                  struct tally *total);
/* So many as keep the machine busy. */
unsigned jobs_default(void);

#endif
