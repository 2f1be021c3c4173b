/*
 * job.c - which account a process has, by the files of root that it cannot write.
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
static char account[JOB_ACCOUNT];

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
    return job_account_of(jobs, geteuid(), pid, uid, account);
}

static void file_write(const char *text)
{
    FILE *f = fopen(file, "w");

    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* What a process `depth` generations below this one is told of itself: its exit status is 0 for the
 * account `inference`, else 1. */
static int descendant(int depth)
{
    int status = 0;
    pid_t pid = fork();

    cr_assert_geq(pid, 0);
    if (pid == 0 && depth > 1)
        _exit(descendant(depth - 1));
    if (pid == 0)
        _exit(of(getpid(), 7) != 0 || strcmp(account, "inference") != 0);
    while (waitpid(pid, &status, 0) < 0)
        cr_assert_eq(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

Test(job, a_process_is_of_the_job_that_an_ancestor_of_it_starts)
{
    cr_assert_eq(job_begin(jobs, 7, "inference"), 0);
    cr_assert_eq(of(getpid(), 7), 0);
    cr_assert_str_eq(account, "inference");
    cr_assert_eq(descendant(1), 0);
    cr_assert_eq(descendant(4), 0);
}

Test(job, another_user_or_process_is_of_no_job)
{
    cr_assert_eq(of(getpid(), 7), -ESRCH, "no folder yet");
    cr_assert_eq(job_begin(jobs, 7, "inference"), 0);
    cr_assert_eq(of(getpid(), 8), -ESRCH);
    cr_assert_str_eq(account, "");
    cr_assert_eq(of(getppid(), 7), -ESRCH);
    cr_assert_eq(of(0, 7), -ESRCH, "of a namespace that this one cannot see");
    job_end(jobs);
    cr_assert_eq(of(getpid(), 7), -ESRCH);
}

Test(job, the_number_of_a_process_that_ended_says_nothing)
{
    cr_assert_eq(job_begin(jobs, 7, "inference"), 0);
    file_write("1 7 inference\n");
    cr_assert_eq(of(getpid(), 7), -ESRCH);
}

Test(job, files_that_others_can_write_count_for_nothing)
{
    cr_assert_eq(job_begin(jobs, 7, "inference"), 0);
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

Test(job, a_file_that_makes_no_sense_is_no_account)
{
    static const char *const texts[] = {"", "\n", "7", "inference", "-1 -1 -1", "1 7\n"};

    cr_assert_eq(job_begin(jobs, 7, "inference"), 0);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        file_write(texts[i]);
        cr_assert_eq(of(getpid(), 7), -ESRCH, "%s", texts[i]);
        cr_assert_str_eq(account, "");
    }
}

Test(job, what_is_kept_of_a_job_is_for_its_user_until_it_is_forgotten)
{
    cr_assert_eq(job_recall(jobs, 12, 7, account), -ESRCH);
    cr_assert_eq(job_keep(jobs, 12, 7, "inference"), 0);
    cr_assert_eq(job_recall(jobs, 12, 7, account), 0);
    cr_assert_str_eq(account, "inference");
    cr_assert_eq(job_recall(jobs, 12, 8, account), -ESRCH);
    cr_assert_str_eq(account, "");
    cr_assert_eq(job_recall(jobs, 13, 7, account), -ESRCH);
    cr_assert_eq(job_keep(jobs, 12, 7, "a b"), -EINVAL);
    cr_assert_eq(of(getpid(), 7), -ESRCH, "that alone makes no process one of the job");
    job_forget(jobs, 12);
    cr_assert_eq(job_recall(jobs, 12, 7, account), -ESRCH);
}

Test(job, an_account_is_one_word)
{
    char longest[JOB_ACCOUNT + 1];

    memset(longest, 'a', sizeof(longest));
    longest[JOB_ACCOUNT] = '\0';
    cr_assert_eq(job_account_check(longest), -EINVAL);
    longest[JOB_ACCOUNT - 1] = '\0';
    cr_assert_eq(job_account_check(longest), 0);
    cr_assert_eq(job_account_check(""), -EINVAL);
    cr_assert_eq(job_begin(jobs, 7, "two words"), -EINVAL);
    cr_assert_eq(job_begin(jobs, 7, "a,b"), -EINVAL);
    cr_assert_eq(job_begin("/nowhere/at/all", 7, "a"), -ENOENT);
}
