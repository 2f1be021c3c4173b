/*
 * child.c - runs a program, waits for it and takes its traces (see run.h).
 */
#include "run.h"
#include "tools/cutin/daemon.h"
#include "tools/cutin/progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const int passed[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
static const int ignored[] = {SIGINT, SIGQUIT}; /* the terminal sends these to the program, too */
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

_Noreturn static void child_exec(const struct subcommand *cmd, const struct child_plan *plan,
                                 const struct paths *paths, const struct scratch *scratch,
                                 char *const argv[])
{
    char trace[300], log[300];
    int rc;

    signals_set(SIG_DFL, SIG_DFL);
    snprintf(trace, sizeof(trace), "%s/%%p.trace", scratch->folder);
    snprintf(log, sizeof(log), "%s/device.log", scratch->folder);
    rc =
        environment_set((struct variable[]){{"CUTIN_TRACE", trace},
                                            {"CUTIN_SOCKET", plan->daemon ? daemon_socket() : NULL},
                                            {"SIMGPU_LOG", plan->device_log ? log : NULL},
                                            {0}});
    if (rc == 0)
        rc = environment_set(plan->set);
    if (rc == 0)
        rc = environment_preload(paths->library, plan->sim ? paths->simulator : NULL);
    _exit(rc == 0 ? program_exec(cmd, argv) : EXIT_OWN_FAILURE);
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
        daemon_ensure(cmd, paths.daemon, daemon_socket());
    gates_probe(&paths, plan->sim, false);
    preload_check(cmd, argv[0]);
    fflush(NULL);
    signals_set(pass_on, SIG_IGN);
    child = pid = fork();
    if (pid == 0)
        child_exec(cmd, plan, &paths, scratch, argv);
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
    int rc = scratch_make(&scratch, "cutin", sizeof(scratch.folder)), status;
    char **files;
    size_t n;

    if (rc != 0)
        return say(cmd, "cannot make a folder for the traces: %s", strerror(-rc));
    status = run(cmd, plan, &scratch, argv);
    progress_begin();
    files = scratch_list(&scratch, &n);
    rc = files ? plan->use_files(plan->user, files, n) : -ENOMEM;
    progress_end();
    scratch_list_free(files);
    scratch_remove(&scratch);
    return status == 0 && rc != 0 ? EXIT_FAILURE : status;
}
