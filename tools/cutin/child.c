/*
 * child.c - run a program, wait for it and take its traces (see child.h).
 */
#include "child.h"
#include "daemon.h"
#include "gates.h"
#include "paths.h"
#include "preload.h"
#include "progress.h"
#include "scratch.h"

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

static int file_set(const struct scratch *scratch, const char *variable, const char *name)
{
    char path[300];

    scratch_path(scratch, name, path, sizeof(path));
    return setenv(variable, path, 1) == 0 ? 0 : -ENOMEM;
}

static int environment_set(const struct child_plan *plan, const struct paths *paths,
                           const struct scratch *scratch)
{
    int rc = file_set(scratch, "CUTIN_TRACE", "%p.trace");

    if (rc == 0 && plan->device_log)
        rc = file_set(scratch, "SIMGPU_LOG", "device.log");
    for (const char *const *pair = plan->set; rc == 0 && *pair; pair += 2)
        rc = setenv(pair[0], pair[1], 1) == 0 ? 0 : -ENOMEM;
    if (rc == 0 && plan->sim)
        rc = environment_simulate(paths->simulator);
    return rc == 0 ? environment_prepend("LD_PRELOAD", paths->library) : rc;
}

_Noreturn static void become(const struct subcommand *cmd, const struct child_plan *plan,
                             const struct paths *paths, const struct scratch *scratch,
                             char *const argv[])
{
    int error;

    signals_set(SIG_DFL, SIG_DFL);
    if (environment_set(plan, paths, scratch) != 0)
        _exit(EXIT_OWN_FAILURE);
    execvp(argv[0], argv);
    error = errno;
    say(cmd, "%s: %s", argv[0], strerror(error));
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

static int run(const struct subcommand *cmd, const struct child_plan *plan,
               const struct scratch *scratch, char *const argv[])
{
    struct paths paths;
    int status = 0;
    pid_t pid;

    paths_find(&paths);
    if (!paths.library[0] || (plan->sim && !paths.simulator[0])) {
        say(cmd, "%s is not installed beside cutin",
            paths.library[0] ? "the simulated driver" : "libcutin.so");
        return EXIT_OWN_FAILURE;
    }
    if (plan->daemon && *daemon_socket())
        daemon_want(cmd, paths.daemon, daemon_socket());
    gates_learn(&paths, plan->sim, false);
    preload_check(cmd, argv[0]);
    fflush(NULL);
    signals_set(pass_on, SIG_IGN);
    child = pid = fork();
    if (pid == 0)
        become(cmd, plan, &paths, scratch, argv);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    child = 0;
    signals_set(SIG_DFL, SIG_DFL);
    if (pid < 0) {
        say(cmd, "cannot start a process: %s", strerror(errno));
        return EXIT_OWN_FAILURE;
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int child_run(const struct subcommand *cmd, const struct child_plan *plan, char *const argv[])
{
    struct scratch scratch;
    int rc = scratch_make(&scratch), status;
    char **files;
    size_t n;

    if (rc != 0) {
        say(cmd, "cannot make a folder for the traces: %s", strerror(-rc));
        return EXIT_FAILURE;
    }
    status = run(cmd, plan, &scratch, argv);
    progress_begin();
    files = scratch_list(&scratch, &n);
    rc = files ? plan->take(plan->user, files, n) : -ENOMEM;
    progress_end();
    scratch_list_free(files);
    scratch_remove(&scratch);
    return status == 0 && rc != 0 ? EXIT_FAILURE : status;
}
