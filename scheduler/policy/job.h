/*
 * job.h - a batch job: its account, and which processes belong to it.
 *
 * A batch system's own process starts a job's processes on a node. As root, it says whose they are
 * by a file in a folder of root's. The file is named after its process id. It has the time when
 * that process was started, so that a later process of the same number is not taken for it, and the
 * job's user, account and number. The daemon follows a client's parents to such a process. Nothing
 * that a user can write decides: neither the environment nor the command line.
 */
#ifndef CUTIN_SCHEDULER_POLICY_JOB_H
#define CUTIN_SCHEDULER_POLICY_JOB_H

#include <sys/types.h>

#define JOB_FOLDER  "/run/cutin/jobs"
#define JOB_ACCOUNT 64u /* most bytes, terminator included */
#define JOB_ID      32u

struct job {
    char account[JOB_ACCOUNT]; /* "": the job has none */
    char id[JOB_ID];           /* the batch system's name for it */
};

/* An account that rules and files can name: letters, digits and ._-+@, and not "-". Returns 0 or
 * -EINVAL. */
int job_account_check(const char *account);
/* Processes that the calling process starts from now on belong to this job of this user. Makes the
 * folder, but not the folders above it. Returns 0 or -errno. */
int job_begin(const char *folder, uid_t uid, const struct job *job);
void job_end(const char *folder);
/* Keep a job's account from its beginning on a node to its end there, for the processes that start
 * parts of it. job_keep and job_recall return 0 or -errno; -ESRCH: none is kept for this user. */
int job_keep(const char *folder, uid_t uid, const struct job *job);
int job_recall(const char *folder, uid_t uid, struct job *job);
void job_forget(const char *folder, const char *id);
/* The job that a process of this user belongs to. Only files count that belong to root or `owner`
 * and that no other user can write to. Returns 0, -ESRCH (no job) or -errno, and then all is "". */
int job_of_process(const char *folder, uid_t owner, pid_t pid, uid_t uid, struct job *job);

#endif
