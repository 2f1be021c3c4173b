/*
 * job.h - a batch job: its account, and which processes are of it.
 *
 * A batch system's own process starts a job's processes on a node. It says as root, in a folder of
 * root's, whose they are: a file named after its process id, with the time when it was started, so
 * that a later process of the same number is not taken for it, the job's user, account and number.
 * The daemon follows a client's parents to such a process. What a user can write decides nothing:
 * not the environment, not the command line.
 */
#ifndef CUTIN_SCHEDULER_POLICY_JOB_H
#define CUTIN_SCHEDULER_POLICY_JOB_H

#include <sys/types.h>

#define JOB_FOLDER  "/run/cutin/jobs"
#define JOB_ACCOUNT 64u /* most characters, terminator included */
#define JOB_ID      32u

struct job {
    char account[JOB_ACCOUNT]; /* "": it has none */
    char id[JOB_ID];           /* as the batch system calls it */
};

/* An account that rules and files can name: letters, digits and ._-+@, and not "-". Returns 0 or
 * -EINVAL. */
int job_account_check(const char *account);
/* What the calling process starts from now on is of this job of this user. Makes the folder, not
 * what is above it. Returns 0 or -errno. */
int job_begin(const char *folder, uid_t uid, const struct job *job);
void job_end(const char *folder);
/* Keeps a job's account from its beginning on a node to its end there, for the processes that start
 * parts of it. Making and reading it return 0 or -errno; -ESRCH: not kept for this user. */
int job_keep(const char *folder, uid_t uid, const struct job *job);
int job_recall(const char *folder, uid_t uid, struct job *job);
void job_forget(const char *folder, const char *id);
/* The job that a process of this user is of. Files count that belong to root or `owner`, and that
 * nobody else can write to. Returns 0, -ESRCH (of no job) or -errno, and then all is "". */
int job_of_process(const char *folder, uid_t owner, pid_t pid, uid_t uid, struct job *job);

#endif
