/*
 * runner.c - runs the tests of a ThreadSanitizer build, where Criterion cannot start.
 *
 * One forked process per test, one after the other. Of the command line only `--filter SUITE/NAME`
 * (with wildcards) means anything.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SKIPPED = 77, TIMEOUT_S = 110 };

static struct tsan_test *tests, **last = &tests, *suites;
static _Atomic bool failed;
static const struct tsan_test *running; /* in this process */

/* Processes that a test forks and kills report too: the first race ends them. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "halt_on_error=1:exitcode=66";
}

/* The run time knows of no such join: the thread would go on in its books, and gcc 14's ends the
 * process when the next one gets its number. It knows this way to join. */
int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock,
                         const struct timespec *by)
{
    struct timespec now;
    int rc;

    while ((rc = pthread_tryjoin_np(thread, result)) == EBUSY) {
        clock_gettime(clock, &now);
        if (now.tv_sec > by->tv_sec || (now.tv_sec == by->tv_sec && now.tv_nsec >= by->tv_nsec))
            return ETIMEDOUT;
        usleep(1000);
    }
    return rc;
}

void tsan_add_test(struct tsan_test *t)
{
    *last = t;
    last = &t->next;
}

void tsan_add_suite(struct tsan_test *s)
{
    s->next = suites;
    suites = s;
}

static void print(const char *format, va_list args)
{
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    fflush(stderr);
}

void tsan_check(bool ok, bool fatal, const char *file, int line, const char *what,
                const char *format, ...)
{
    va_list args;

    if (ok)
        return;
    failed = true;
    fprintf(stderr, "%s:%d: %s:", file, line, what);
    va_start(args, format);
    print(format, args);
    va_end(args);
    if (fatal)
        _exit(1);
}

void tsan_skip(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "[SKIP] %s::%s:", running->suite, running->name);
    va_start(args, format);
    print(format, args);
    va_end(args);
    _exit(SKIPPED);
}

static const struct tsan_test *suite_of(const struct tsan_test *t)
{
    static const struct tsan_test none;

    for (const struct tsan_test *s = suites; s; s = s->next)
        if (strcmp(s->suite, t->suite) == 0)
            return s;
    return &none;
}

/* exit, not _exit: that is when the sanitizer turns its reports into a status. */
_Noreturn static void run(const struct tsan_test *t, const struct tsan_test *suite)
{
    running = t;
    double timeout = t->timeout > 0 ? t->timeout : suite->timeout;

    alarm(timeout > 0 ? (unsigned)timeout : TIMEOUT_S);
    if (suite->init)
        suite->init();
    if (t->init)
        t->init();
    t->run();
    if (t->fini)
        t->fini();
    if (suite->fini)
        suite->fini();
    exit(failed ? 1 : 0);
}

static int status_of(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* True if the test did what it should: by default end with status 0. */
static bool as_wanted(const struct tsan_test *t, int status)
{
    if (t->signal)
        return WIFSIGNALED(status) && WTERMSIG(status) == t->signal;
    return WIFEXITED(status) &&
           (WEXITSTATUS(status) == t->exit_code || WEXITSTATUS(status) == SKIPPED);
}

static bool run_forked(const struct tsan_test *t)
{
    int status;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        run(t, suite_of(t));
    status = status_of(pid);
    if (as_wanted(t, status))
        return true;
    fprintf(stderr, "FAIL %s/%s: %s %d\n", t->suite, t->name,
            WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return false;
}

int main(int argc, char **argv)
{
    const char *filter = NULL;
    int ran = 0, bad = 0;

    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--filter") == 0)
            filter = argv[i + 1];
    for (const struct tsan_test *t = tests; t; t = t->next) {
        char name[256];

        snprintf(name, sizeof(name), "%s/%s", t->suite, t->name);
        if (t->disabled || (filter && fnmatch(filter, name, 0) != 0))
            continue;
        ran++;
        bad += !run_forked(t);
    }
    fprintf(stderr, "%d tests, %d failed\n", ran, bad);
    return bad > 0;
}
