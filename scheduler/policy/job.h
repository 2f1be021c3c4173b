/*
 * job.h - the account of a batch job, and which processes are of it.
 *
 * A batch system's own process starts a job's processes on a node. It says as root, in a folder of
 * root's, whose they are: a file named after its process id, with the time when it was started, so
 * that a later process of the same number is not taken for it, the job's user and account. The
 * daemon follows a client's parents to such a process. What a user can write decides nothing: not
 * the environment, not the command line.
 */
#ifndef CUTIN_JOB_H
#define CUTIN_JOB_H

#include <sys/types.h>

#define JOB_FOLDER  "/run/cutin/jobs"
#define JOB_ACCOUNT 64u /* most characters, terminator included */

/* An account that rules and files can name: one word without commas. Returns 0 or -EINVAL. */
int job_account_check(const char *account);
/* What the calling process starts from now on is of a job of this user and account. Makes the
 * folder, not what is above it. Returns 0 or -errno. */
int job_begin(const char *folder, uid_t uid, const char *account);
void job_end(const char *folder);
/* The account of the job that a process of this user is of. Files count that belong to root or
 * `owner`, and that nobody else can write to. Returns 0, -ESRCH (of no job) or -errno, and then
 * `account` is "". */
int job_account_of(const char *folder, uid_t owner, pid_t pid, uid_t uid,
                   char account[JOB_ACCOUNT]);

#endif
