/*
 * run.c - `cutin run`: runs a program under cutin at a level, and starts the daemon if need be.
 *
 * The command becomes the program (exec), so signals, job control and the exit status are the
 * program's own. A problem of cutin itself is a warning: the program runs anyway.
 */
#include "tools/cutin/daemon.h"
#include "run.h"
#include "shim/lookup/conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bounds.h"
#include "common/level.h"

static const char *const levels[] = {LEVEL_NAMES, NULL};

static struct {
    const char *level, *budget_us, *depth, *weight, *deadline_ms;
    bool sim, no_daemon;
} given;

static const struct option_row options[] = {
    {"priority", "LEVEL",
     "be (held while others run, the default), 1, 2, or rt\n"
     "(real time: never held)",
     TAKE_WORD(given.level, levels)},
    {"sim", NULL, "run on the simulated GPU, no NVIDIA driver needed", TAKE_FLAG(given.sim)},
    {"no-daemon", NULL,
     "neither start nor use the daemon: only streams of this\n"
     "process are ordered",
     TAKE_FLAG(given.no_daemon)},
    DAEMON_SOCKET_OPTION,
    {"budget-us", "N", "estimated GPU time that may be in flight below rt",
     TAKE_NUMBER(given.budget_us, 1, BUDGET_US_MOST)},
    {"depth", "N", "commands that may be in flight per stream",
     TAKE_NUMBER(given.depth, 1, DEPTH_MOST)},
    {"weight", "N",
     "share among processes of its level, 1 to 1000, under the\n"
     "policy fair",
     TAKE_NUMBER(given.weight, 1, WEIGHT_MOST)},
    {"deadline-ms", "N",
     "deadline of each request, from its start, under the policy\n"
     "edf; 0: none",
     TAKE_NUMBER(given.deadline_ms, 0, 3600000)},
    {0},
};

/* Makes a path absolute: the daemon changes its folder, and the program may. */
static const char *absolute(const char *path)
{
    char *folder, *out = NULL;

    if (path[0] == '/' || path[0] == '\0')
        return path;
    folder = getcwd(NULL, 0);
    if (!folder || asprintf(&out, "%s/%s", folder, path) < 0)
        out = NULL;
    free(folder);
    return out ? out : path;
}

/* Compares as the library does. */
static bool is(const char *variable, const char *value)
{
    const char *text = getenv(variable), *conf = getenv("CUTIN_CONF");
    struct conf_part part;

    if (text)
        return strcmp(text, value) == 0;
    while (conf && conf_next(&conf, &part))
        if (conf_sets(&part, variable))
            return part.value_length == strlen(value) &&
                   memcmp(part.value, value, part.value_length) == 0;
    return false;
}

static int run(const struct subcommand *cmd, int argc, char **argv)
{
    struct paths paths;
    const char *socket = "";
    int rc;

    options_read(cmd, argc, argv);
    if (optind >= argc)
        fail_usage(cmd, "no program given");
    paths_find(&paths);
    if (given.sim && !paths.simulator[0]) {
        say(cmd, "the simulated driver is not installed beside cutin");
        return EXIT_OWN_FAILURE;
    }
    if (!paths.library[0])
        say(cmd, "libcutin.so is not installed beside cutin; running without it");
    /* Finds or starts the daemon. The program gets its path, because its children may have another
     * folder for sockets. It runs in any case, without a socket if none can be used. */
    if (!given.no_daemon)
        socket = absolute(daemon_socket());
    if (socket[0] && daemon_ensure(cmd, paths.daemon, socket) == -ENAMETOOLONG)
        socket = "";
    rc = environment_set((struct variable[]){{"CUTIN_SOCKET", socket},
                                             {"CUTIN_PRIORITY", given.level},
                                             {"CUTIN_BUDGET_US", given.budget_us},
                                             {"CUTIN_DEPTH", given.depth},
                                             {"CUTIN_WEIGHT", given.weight},
                                             {"CUTIN_DEADLINE_MS", given.deadline_ms},
                                             {0}});
    /* Real time has no gates. A process that no other can hold has none either. */
    if (rc == 0 && paths.library[0] && !given.no_daemon && !is("CUTIN_PRIORITY", "rt") &&
        !is("CUTIN_PRIORITY", "3") && !is("CUTIN_GATES", "off") && !is("CUTIN_DISABLE", "1"))
        gates_probe(&paths, given.sim, false);
    /* Comes last, so that only the program itself starts under the library. */
    if (rc == 0)
        rc = environment_preload(paths.library, given.sim ? paths.simulator : NULL);
    if (rc != 0) {
        say(cmd, "cannot set the environment: %s", strerror(-rc));
        return EXIT_OWN_FAILURE;
    }
    if (paths.library[0] && !is("CUTIN_DISABLE", "1"))
        preload_check(cmd, argv[optind]);
    return program_exec(cmd, argv + optind);
}

const struct subcommand subcommand_run = {
    .name = "run",
    .summary = "run a program under cutin",
    .synopsis = "[OPTIONS] [--] PROGRAM [ARGUMENT...]",
    .about =
        "PROGRAM is found on PATH and replaces this command: signals and exit status are its\n"
        "own; 125 to 127 as with env(1). Starts a daemon if none answers. Without --priority,\n"
        "CUTIN_PRIORITY in the environment is the level.",
    .options = options,
    .run = run,
};
