/*
 * runner.c - runs the tests of a build with a sanitizer (see criterion/criterion.h), and those that
 * run on a stepped clock (see stepped.h).
 *
 * Each test has a forked process, and `--jobs N` of them run at a time. The runner has no thread,
 * so no lock of a sanitizer's run time is held when it forks. It understands only `--jobs` and
 * `--filter SUITE/NAME` (with wildcards) on its command line.
 */
#include "stepped.h"

#include <criterion/redirect.h>

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SKIPPED = 77, TIMEOUT_S = 900, SOONER_S = 60 /* before the time-out of ctest */, JOBS = 16 };

static struct runner_test *tests, **last = &tests, *suites;
static _Atomic bool failed;
static const struct runner_test *current; /* of this process */
static int real_stderr = STDERR_FILENO;

/* ThreadSanitizer: a process ends at its first race, so one that a test kills reports it, too. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "halt_on_error=1:exitcode=66";
}

void runner_add_test(struct runner_test *t)
{
    *last = t;
    last = &t->next;
}

void runner_add_suite(struct runner_test *s)
{
    s->next = suites;
    suites = s;
}

void runner_failed(bool fatal, const char *file, int line, const char *what, const char *format,
                   ...)
{
    va_list args;

    failed = true;
    dprintf(real_stderr, "%s:%d: %s:", file, line, what);
    va_start(args, format);
    vdprintf(real_stderr, format, args);
    va_end(args);
    dprintf(real_stderr, "\n");
    if (fatal)
        _exit(1);
}

void runner_skip(const char *format, ...)
{
    va_list args;

    dprintf(real_stderr, "[SKIP] %s::%s:", current->suite, current->name);
    va_start(args, format);
    vdprintf(real_stderr, format, args);
    va_end(args);
    dprintf(real_stderr, "\n");
    _exit(SKIPPED);
}

void cr_redirect_stderr(void)
{
    int file = memfd_create("stderr", MFD_CLOEXEC);

    real_stderr = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    close(file);
}

bool runner_stderr_is(const char *text)
{
    static off_t seen;
    char is[4096];
    ssize_t n = pread(STDERR_FILENO, is, sizeof(is) - 1, seen);

    is[n > 0 ? n : 0] = '\0';
    seen += n > 0 ? n : 0;
    if (strcmp(is, text) != 0)
        dprintf(real_stderr, "stderr: \"%s\"\n", is);
    return strcmp(is, text) == 0;
}

static const struct runner_test *suite_of(const struct runner_test *t)
{
    static const struct runner_test none;

    for (const struct runner_test *s = suites; s; s = s->next)
        if (strcmp(s->suite, t->suite) == 0)
            return s;
    return &none;
}

/* A test that takes this long counts as hanging. */
static unsigned int timeout_s(void)
{
    const char *said = getenv("TEST_TIMEOUT_S");
    unsigned long s = said ? strtoul(said, NULL, 10) : 0;
    return s > SOONER_S ? (unsigned int)s : TIMEOUT_S;
}

/* Ends by exit, not _exit: at exit the sanitizer turns its reports into a status. */
_Noreturn static void run(const struct runner_test *t, const struct runner_test *suite)
{
    current = t;
    alarm(timeout_s() - SOONER_S);
    if (suite->init)
        suite->init();
    if (t->init)
        t->init();
    t->run();
    if (t->fini)
        t->fini();
    if (suite->fini)
        suite->fini();
    if (stepped_lost()) /* this is no failure: the bounds of the test judge */
        dprintf(real_stderr, "[NOTE] %s::%s: its time went on without %s\n", t->suite, t->name,
                stepped_lost());
    exit(failed ? 1 : 0);
}

/* Whether the test ended as declared; by default, with status 0. */
static bool as_wanted(const struct runner_test *t, int status)
{
    if (t->signal)
        return WIFSIGNALED(status) && WTERMSIG(status) == t->signal;
    return WIFEXITED(status) &&
           (WEXITSTATUS(status) == t->exit_code || WEXITSTATUS(status) == SKIPPED);
}

/* ---- several at a time ----------------------------------------------------------------------- */

static struct running {
    const struct runner_test *test; /* NULL: free */
    pid_t pid;
} running[JOBS];

static void start(struct running *r, const struct runner_test *t)
{
    fflush(NULL);
    *r = (struct running){.test = t, .pid = fork()};
    if (r->pid == 0 && RUNNER_STEPPED)
        stepped_become(t->suite, t->name);
    if (r->pid == 0)
        run(t, suite_of(t));
}

/* Returns the entry of the process that ended first; the entry is free again. */
static struct running *wait_for_one(int *bad)
{
    struct running *r = running;
    const struct runner_test *t;
    int status = 0;
    pid_t pid;

    while ((pid = waitpid(-1, &status, 0)) < 0 && errno == EINTR)
        ;
    while (!r->test || r->pid != pid)
        r++;
    t = r->test;
    r->test = NULL;
    if (RUNNER_STEPPED)
        stepped_remove(pid);
    if (as_wanted(t, status))
        return r;
    fprintf(stderr, "FAIL %s/%s: %s %d\n", t->suite, t->name,
            WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    ++*bad;
    return r;
}

static bool wanted(const struct runner_test *t, const char *filter)
{
    char name[256];

    snprintf(name, sizeof(name), "%s/%s", t->suite, t->name);
    return !t->disabled && (!filter || fnmatch(filter, name, 0) == 0);
}

/* Runs one test as the whole process. */
_Noreturn static void run_alone(const char *name)
{
    const struct runner_test *t = tests;

    while (!wanted(t, name))
        t = t->next;
    run(t, suite_of(t));
}

int main(int argc, char **argv)
{
    const char *filter = NULL;
    int jobs = 1, ran = 0, ended = 0, bad = 0;

    if (RUNNER_STEPPED && argc > 2 && strcmp(argv[1], "--alone") == 0)
        run_alone(argv[2]);
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--filter") == 0)
            filter = argv[i + 1];
        if (strcmp(argv[i], "--jobs") == 0)
            jobs = atoi(argv[i + 1]);
    }
    jobs = jobs < 1 ? 1 : jobs > JOBS ? JOBS : jobs;
    for (const struct runner_test *t = tests; t; t = t->next) {
        if (!wanted(t, filter))
            continue;
        if (ran < jobs)
            start(&running[ran], t);
        else {
            start(wait_for_one(&bad), t);
            ended++;
        }
        ran++;
    }
    while (ended++ < ran)
        wait_for_one(&bad);
    fprintf(stderr, "%d tests, %d failed\n", ran, bad);
    return bad > 0;
}
