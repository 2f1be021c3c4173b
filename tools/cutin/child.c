/*
 * child.c - run a program and wait for it (see child.h).
 */
#include "child.h"
#include "command.h"
#include "paths.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_OWN_FAILURE = 125 }; /* as env(1) */

static const int passed[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
static const int ignored[] = {SIGINT, SIGQUIT}; /* the terminal gives them to both */
static volatile pid_t child;

static void pass_on(int number)
{
    if (child > 0)
        kill(child, number);
}

static void signals_set(void (*passing)(int), void (*ignoring)(int))
{
    struct sigaction action = {.sa_handler = passing, .sa_flags = SA_RESTART};

    for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
        sigaction(passed[i], &action, NULL);
    action.sa_handler = ignoring;
    for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
        sigaction(ignored[i], &action, NULL);
}

static int environment_set(const struct child_plan *plan, const struct paths *paths)
{
    int rc = 0;

    for (const char *const *pair = plan->set; rc == 0 && *pair; pair += 2)
        rc = setenv(pair[0], pair[1], 1) == 0 ? 0 : -ENOMEM;
    if (rc == 0 && plan->sim)
        rc = environment_prepend("LD_LIBRARY_PATH", paths->simulator);
    return rc == 0 ? environment_prepend("LD_PRELOAD", paths->library) : rc;
}

_Noreturn static void become(const char *name, const struct child_plan *plan,
                             const struct paths *paths, char *const argv[])
{
    signals_set(SIG_DFL, SIG_DFL);
    if (environment_set(plan, paths) != 0)
        _exit(EXIT_OWN_FAILURE);
    execvp(argv[0], argv);
    fprintf(stderr, "cutin %s: %s: %s\n", name, argv[0], strerror(errno));
    _exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

int child_run(const char *name, const struct child_plan *plan, char *const argv[])
{
    struct paths paths;
    int status = 0;
    pid_t pid;

    paths_find(&paths);
    if (!paths.library[0] || (plan->sim && !paths.simulator[0])) {
        fprintf(stderr, "cutin %s: %s is not installed beside cutin\n", name,
                paths.library[0] ? "the simulated driver" : "libcutin.so");
        return EXIT_OWN_FAILURE;
    }
    fflush(NULL);
    signals_set(pass_on, SIG_IGN);
    child = pid = fork();
    if (pid == 0)
        become(name, plan, &paths, argv);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    child = 0;
    signals_set(SIG_DFL, SIG_DFL);
    if (pid < 0) {
        fprintf(stderr, "cutin %s: cannot start a process: %s\n", name, strerror(errno));
        return EXIT_OWN_FAILURE;
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
