/*
 * jobs.c - the processes of an oracle (see jobs.h).
 */
#include "jobs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PER_PROCESSOR = 6 };

unsigned jobs_default(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN) * PER_PROCESSOR;
    return processors < 1 ? 1 : processors > JOBS_MAX ? JOBS_MAX : (unsigned)processors;
}

static _Noreturn void job_main(int (*run)(void *user, unsigned job, struct tally *t), void *user,
                               unsigned job, struct tally *t, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int status = run(user, job, t);
    fflush(stdout);
    _exit(status != 0);
}

static int job_wait(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 1;
    return status != 0;
}

unsigned jobs_run(unsigned jobs, int (*run)(void *user, unsigned job, struct tally *t), void *user,
                  struct tally *total)
{
    pid_t pid[JOBS_MAX], parent = getpid();
    unsigned bad = 0;
    struct tally *t =
        mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED)
        return jobs;
    fflush(stdout);
    for (unsigned job = 0; job < jobs; job++)
        if ((pid[job] = fork()) == 0)
            job_main(run, user, job, t, parent);
    for (unsigned job = 0; job < jobs; job++)
        bad += pid[job] < 0 || job_wait(pid[job]) != 0;
    total->ran = t->ran;
    total->passed = t->passed;
    total->failed = t->failed;
    munmap(t, sizeof(*t));
    return bad;
}
