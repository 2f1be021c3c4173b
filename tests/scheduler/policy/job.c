/*
 * job.c - which account a process has, by root's files, which it cannot write.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scheduler/policy/job.h"

static char folder[] = "/tmp/cutin-job-XXXXXX", jobs[64], file[96];
static struct job job;

static void set_up(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(jobs, sizeof(jobs), "%s/jobs", folder);
    snprintf(file, sizeof(file), "%s/%d", jobs, (int)getpid());
}

static void tear_down(void)
{
    job_end(jobs);
    rmdir(jobs);
    cr_assert_eq(rmdir(folder), 0, "something is left in %s", folder);
}

TestSuite(job, .init = set_up, .fini = tear_down);

static int of(pid_t pid, uid_t uid)
{
    return job_of_process(jobs, geteuid(), pid, uid, &job);
}

static void file_write(const char *text)
{
    FILE *f = fopen(file, "w");

    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static const struct job inference = {.account = "inference", .id = "42"};

/* A process `depth` generations below this one asks for its own job. Its exit status is 0 for the
 * account `inference`, else 1. */
static int descendant(int depth)
{
    int status = 0;
    pid_t pid = fork();

    cr_assert_geq(pid, 0);
    if (pid == 0 && depth > 1)
        _exit(descendant(depth - 1));
    if (pid == 0)
        _exit(of(getpid(), 7) != 0 || strcmp(job.account, "inference") != 0);
    while (waitpid(pid, &status, 0) < 0)
        cr_assert_eq(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

Test(job, process_belongs_to_job_begun_by_its_ancestor)
{
    cr_assert_eq(job_begin(jobs, 7, &inference), 0);
    cr_assert_eq(of(getpid(), 7), 0);
    cr_assert_str_eq(job.account, "inference");
    cr_assert_str_eq(job.id, "42");
    cr_assert_eq(descendant(1), 0);
    cr_assert_eq(descendant(4), 0);
}

Test(job, other_users_and_processes_belong_to_no_job)
{
    cr_assert_eq(of(getpid(), 7), -ESRCH, "no folder yet");
    cr_assert_eq(job_begin(jobs, 7, &inference), 0);
    cr_assert_eq(of(getpid(), 8), -ESRCH);
    cr_assert_str_eq(job.account, "");
    cr_assert_eq(of(getppid(), 7), -ESRCH);
    cr_assert_eq(of(0, 7), -ESRCH, "of a namespace that this one cannot see");
    job_end(jobs);
    cr_assert_eq(of(getpid(), 7), -ESRCH);
}

Test(job, file_with_another_start_time_is_ignored)
{
    cr_assert_eq(job_begin(jobs, 7, &inference), 0);
    file_write("1 7 inference 42\n");
    cr_assert_eq(of(getpid(), 7), -ESRCH);
}

Test(job, files_writable_by_others_are_ignored)
{
    cr_assert_eq(job_begin(jobs, 7, &inference), 0);
    cr_assert_eq(chmod(file, 0666), 0);
    cr_assert_eq(of(getpid(), 7), -ESRCH);
    cr_assert_eq(chmod(file, 0644), 0);
    cr_assert_eq(of(getpid(), 7), 0);
    cr_assert_eq(chmod(jobs, 0777), 0);
    cr_assert_eq(of(getpid(), 7), -EPERM);
    cr_assert_eq(chmod(jobs, 0755), 0);
    if (geteuid() != 0)
        return;
    cr_assert_eq(chown(file, 7, 7), 0);
    cr_assert_eq(of(getpid(), 7), -ESRCH);
    cr_assert_eq(chown(jobs, 7, 7), 0);
    cr_assert_eq(of(getpid(), 7), -EPERM);
}

#define A16 "aaaaaaaaaaaaaaaa"
#define A64 A16 A16 A16 A16 /* longer than an account */

Test(job, malformed_file_gives_no_job)
{
    static const char *const rests[] = {
        "",           "inference",   "-1 -1 -1",  "\n",
        " 7",         " 7\n",        " 7 a",      " 7 a\n",
        " 7 a 42",    " 7 a 42 1\n", " a 42\n",   " x a 42\n",
        " 7a a 42\n", " - a 42\n",   ":7 a 42\n", " 7 " A64 " 42\n"};
    char text[160], start[32];
    FILE *f;

    cr_assert_eq(job_begin(jobs, 7, &inference), 0);
    cr_assert_not_null(f = fopen(file, "r"));
    cr_assert_eq(fscanf(f, "%31s", start), 1);
    fclose(f);
    for (size_t i = 0; i < sizeof(rests) / sizeof(*rests); i++) {
        snprintf(text, sizeof(text), "%s%s", start, rests[i]);
        file_write(text);
        cr_assert_eq(of(getpid(), 7), -ESRCH, "%s", text);
        cr_assert(job.account[0] == '\0' && job.id[0] == '\0', "%s", text);
        file_write(rests[i]);
        cr_assert_eq(of(getpid(), 7), -ESRCH, "'%s'", rests[i]);
    }
    snprintf(text, sizeof(text), "%s 7 a 42\n", start);
    file_write(text);
    cr_assert_eq(of(getpid(), 7), 0, "and it is for the rest that they make no sense");
}

Test(job, needs_no_account)
{
    cr_assert_eq(job_begin(jobs, 7, &(struct job){.id = "43"}), 0);
    cr_assert_eq(of(getpid(), 7), 0);
    cr_assert_str_eq(job.account, "");
    cr_assert_str_eq(job.id, "43");
}

Test(job, kept_job_is_recalled_by_its_user_until_forgotten)
{
    struct job kept = {.id = "42"};

    cr_assert_eq(job_recall(jobs, 7, &kept), -ESRCH);
    cr_assert_eq(job_keep(jobs, 7, &inference), 0);
    cr_assert_eq(job_recall(jobs, 7, &kept), 0);
    cr_assert_str_eq(kept.account, "inference");
    cr_assert_eq(job_recall(jobs, 8, &kept), -ESRCH);
    cr_assert_str_eq(kept.account, "");
    cr_assert_eq(job_recall(jobs, 7, &(struct job){.id = "43"}), -ESRCH);
    cr_assert_eq(of(getpid(), 7), -ESRCH, "that alone makes no process one of the job");
    job_forget(jobs, "42");
    cr_assert_eq(job_recall(jobs, 7, &kept), -ESRCH);
}

Test(job, malformed_accounts_are_refused)
{
    static const char *const wrong[] = {"", "-", "two words", "a,b", "a\nb", "a\"b", "a/b"};
    char longest[JOB_ACCOUNT + 1];

    memset(longest, 'a', sizeof(longest));
    longest[JOB_ACCOUNT] = '\0';
    cr_assert_eq(job_account_check(longest), -EINVAL);
    longest[JOB_ACCOUNT - 1] = '\0';
    cr_assert_eq(job_account_check(longest), 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        cr_assert_eq(job_account_check(wrong[i]), -EINVAL, "%s", wrong[i]);
    cr_assert_eq(job_begin(jobs, 7, &(struct job){.account = "a b", .id = "1"}), -EINVAL);
    cr_assert_eq(job_begin(jobs, 7, &(struct job){.account = "a"}), -EINVAL);
    cr_assert_eq(job_keep(jobs, 7, &(struct job){.id = "1"}), -EINVAL);
    cr_assert_eq(job_begin("/nowhere/at/all", 7, &inference), -ENOENT);
}
