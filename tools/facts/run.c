/*
 * run.c - runs a fact in a process and process group of its own, and kills it when it takes longer
 * than its row allows. What it sent until then is kept.
 */
#include "fact.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POLL_MS = 20 }; /* how soon `may_continue` becoming false is noticed */

_Noreturn static void child_exec(const struct fact_run *run, int fd, pid_t parent)
{
    setpgid(0, 0); /* so that the terminal's Ctrl-C does not reach it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || (fd == FACT_FD ? fcntl(fd, F_SETFD, 0) : dup2(fd, FACT_FD)) < 0)
        _exit(FACT_FAILED);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is for the parent only */
    if (run->fact->env)
        putenv((char *)(uintptr_t)run->fact->env);
    run->child_exec(run);
    _exit(FACT_FAILED);
}

static void say_why(struct fact_run *run, json_t *why)
{
    json_object_set_new(run->values, "why", why);
}

/* Takes a line "key value" of the process. */
static void take_line(struct fact_run *run, char *line)
{
    char *space = strchr(line, ' ');
    json_t *value;

    if (!space)
        return;
    *space = '\0';
    value = json_loads(space + 1, JSON_DECODE_ANY, NULL);
    if (value)
        json_object_set_new(run->values, line, value);
}

struct text {
    char *at;
    size_t used, size;
};

/* Takes what can be read. False: the pipe has ended. */
static bool take(struct fact_run *run, int fd, struct text *t)
{
    ssize_t got;
    char *end;

    if (t->size - t->used < 4096) {
        t->size = t->size * 2 + 8192;
        t->at = realloc(t->at, t->size);
        if (!t->at)
            abort();
    }
    got = read(fd, t->at + t->used, t->size - t->used - 1);
    if (got <= 0)
        return got < 0 && errno == EINTR;
    t->used += (size_t)got;
    t->at[t->used] = '\0';
    while ((end = strchr(t->at, '\n'))) {
        *end = '\0';
        take_line(run, t->at);
        t->used -= (size_t)(end + 1 - t->at);
        memmove(t->at, end + 1, t->used + 1);
    }
    return true;
}

/* Returns its status. -1: it cannot be killed, and is left behind. */
static int reap(pid_t pid)
{
    int status = 0;

    for (int tries = 0; tries < 1000; tries++) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
        clock_sleep_us(10000);
    }
    return -1;
}

/* Judges by its status a process that was not killed for its time. */
static const char *judge(struct fact_run *run, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return "measured";
    if (WIFEXITED(status) && WEXITSTATUS(status) == FACT_SKIPPED)
        return "skipped";
    if (WIFSIGNALED(status))
        say_why(run, json_sprintf("the process was ended by signal %d (%s)", WTERMSIG(status),
                                  strsignal(WTERMSIG(status))));
    else if (!json_object_get(run->values, "why"))
        say_why(run, json_string("the process could not be started"));
    return "failed";
}

/* Reads until the pipe ends, when its last holder exits, and returns NULL. Gives up before with
 * "hung" or "interrupted". */
static const char *await(struct fact_run *run, int fd, uint64_t end_ns, struct text *text)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};

    while (clock_ns() < end_ns) {
        if (run->may_continue && !run->may_continue())
            return "interrupted";
        if (poll(&pfd, 1, POLL_MS) > 0 && !take(run, fd, text))
            return NULL;
    }
    return "hung";
}

void fact_run(struct fact_run *run, unsigned int limit_s)
{
    uint64_t from_ns = clock_ns();
    pid_t parent = getpid(), pid;
    struct text text = {0};
    int ends[2], status;

    if (run->fact->limit_s < limit_s)
        limit_s = run->fact->limit_s;
    run->values = json_object();
    run->status = "failed";
    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) != 0 || (pid = fork()) < 0) {
        say_why(run, json_sprintf("no process: %s", strerror(errno)));
        return;
    }
    if (pid == 0)
        child_exec(run, ends[1], parent);
    close(ends[1]);
    run->status = await(run, ends[0], from_ns + limit_s * UINT64_C(1000000000), &text);
    kill(-pid, SIGKILL); /* peers that are left, or a fact that hangs */
    status = reap(pid);
    if (run->status) /* reads what it sent before that */
        while (poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 0) > 0 &&
               take(run, ends[0], &text))
            ;
    close(ends[0]);
    free(text.at);
    if (status == -1)
        say_why(run, json_string("a process could not be killed"));
    else if (!run->status)
        run->status = judge(run, status);
    else if (strcmp(run->status, "hung") == 0)
        say_why(run, json_sprintf("not done after %u s", limit_s));
    else
        say_why(run, json_string("interrupted"));
    if (!run->status)
        run->status = "failed";
    run->seconds = (double)(clock_ns() - from_ns) / 1e9;
}

const struct fact *fact_find(const struct fact *facts, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(facts[i].name, name) == 0)
            return &facts[i];
    return NULL;
}

_Noreturn void fact_main(const struct fact *fact)
{
    fact->run();
    _exit(0); /* the driver's exit handlers may wait for a stream */
}
