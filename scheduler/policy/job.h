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

#include <stdint.h>
#include <sys/types.h>

#define JOB_FOLDER  "/run/cutin/jobs"
#define JOB_ACCOUNT 64u /* most characters, terminator included */

/* An account that rules and files can name: one word without commas. Returns 0 or -EINVAL. */
int job_account_check(const char *account);
/* What the calling process starts from now on is of a job of this user and account. Makes the
 * folder, not what is above it. Returns 0 or -errno. */
int job_begin(const char *folder, uid_t uid, const char *account);
void job_end(const char *folder);
/* Keeps a job's account from its beginning on a node to its end there, for the processes that start
 * parts of it. Making and reading it return 0 or -errno; -ESRCH: not kept for this user. */
int job_keep(const char *folder, uint32_t job, uid_t uid, const char *account);
int job_recall(const char *folder, uint32_t job, uid_t uid, char account[JOB_ACCOUNT]);
void job_forget(const char *folder, uint32_t job);
/* The account of the job that a process of this user is of. Files count that belong to root or
 * `owner`, and that nobody else can write to. Returns 0, -ESRCH (of no job) or -errno, and then
 * `account` is "". */
int job_account_of(const char *folder, uid_t owner, pid_t pid, uid_t uid,
                   char account[JOB_ACCOUNT]);

#endif
