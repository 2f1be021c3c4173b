/*
 * run.c - `cutin run`: a program under cutin, at a level, with the daemon there.
 *
 * The command becomes the program (exec), so signals, job control and the exit status are the
 * program's own. Whatever is wrong with cutin itself is a warning: the program runs anyway.
 */
#include "subcommand.h"
#include "daemon.h"
#include "gates.h"
#include "paths.h"
#include "preload.h"
#include "shim/lookup/conf.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/level.h"

enum {
    OPT_PRIORITY,
    OPT_SIM,
    OPT_NO_DAEMON,
    OPT_SOCKET,
    OPT_BUDGET_US,
    OPT_DEPTH,
    OPT_WEIGHT,
    OPT_DEADLINE_MS,
    OPT_DISTANCE,
    OPT_TAGS,
};

static const struct option_row options[] = {
    [OPT_PRIORITY] = {"priority", "LEVEL",
                      "be (held while others run, the default), 1, 2, or rt\n"
                      "(real time: never held)"},
    [OPT_SIM] = {"sim", NULL, "run on the simulated GPU, no NVIDIA driver needed"},
    [OPT_NO_DAEMON] = {"no-daemon", NULL,
                       "neither start nor use the daemon: only streams of this\n"
                       "process are ordered"},
    [OPT_SOCKET] = {"socket", "PATH", "the daemon's socket"},
    [OPT_BUDGET_US] = {"budget-us", "N", "estimated GPU time that may be in flight below rt"},
    [OPT_DEPTH] = {"depth", "N", "commands that may be in flight per stream"},
    [OPT_WEIGHT] = {"weight", "N",
                    "share among processes of its level, 1 to 1000, where the\n"
                    "policy is fair"},
    [OPT_DEADLINE_MS] = {"deadline-ms", "N",
                         "deadline of a request from its start, where the policy\n"
                         "is edf; 0: none"},
    [OPT_DISTANCE] = {"distance", "TIME",
                      "run as if the GPU were this round trip away, such as 8us"},
    [OPT_TAGS] = {"tags", "N", "reads that a GPU at a distance has in flight at once (140)"},
    {0},
};

static const char *const levels[] = {LEVEL_NAMES, NULL};

/* What env(1) and timeout(1) exit with when they fail themselves. */
enum { EXIT_OWN_FAILURE = 125 };

struct settings {
    const char *level, *budget_us, *depth, *weight, *deadline_ms, *tags;
    char distance_us[OPTIONS_US]; /* "" = as the environment says */
    const char *socket;           /* NULL: as the environment says */
    bool sim, no_daemon;
};

static void parse(struct settings *s, int argc, char **argv)
{
    const struct subcommand *cmd = &subcommand_run;
    int row;

    while ((row = options_next(cmd, argc, argv)) != OPTIONS_END) {
        switch (row) {
        case OPT_PRIORITY:
            s->level = levels[options_word(cmd, row, optarg, levels)];
            break;
        case OPT_SIM:
            s->sim = true;
            break;
        case OPT_NO_DAEMON:
            s->no_daemon = true;
            break;
        case OPT_SOCKET:
            s->socket = optarg;
            break;
        case OPT_BUDGET_US:
            options_number(cmd, row, optarg, 1, 1000000);
            s->budget_us = optarg;
            break;
        case OPT_DEPTH:
            options_number(cmd, row, optarg, 1, 1024);
            s->depth = optarg;
            break;
        case OPT_WEIGHT:
            options_number(cmd, row, optarg, 1, 1000);
            s->weight = optarg;
            break;
        case OPT_DEADLINE_MS:
            options_number(cmd, row, optarg, 0, 3600000);
            s->deadline_ms = optarg;
            break;
        case OPT_DISTANCE:
            options_us(cmd, row, optarg, 10000, s->distance_us);
            break;
        case OPT_TAGS:
            options_number(cmd, row, optarg, 1, 65536);
            s->tags = optarg;
            break;
        }
    }
    if (optind >= argc)
        fail_usage(cmd, "which program?");
}

static int set(const char *name, const char *value)
{
    return !value || setenv(name, value, 1) == 0 ? 0 : -ENOMEM;
}

/* The program may change its folder, the daemon does: relative paths mean nothing to either. */
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

/* Finds or starts the daemon. The program runs in any case; the shim itself needs no telling where
 * the default place is, and no socket at all where none can be used. */
static int prepare_daemon(const struct settings *s, const struct paths *paths)
{
    const char *path = s->no_daemon ? "" : absolute(s->socket ? s->socket : daemon_socket());

    if (path[0] && daemon_want(&subcommand_run, paths->daemon, path) == -ENAMETOOLONG)
        path = "";
    if (!path[0] || s->socket)
        return set("CUTIN_SOCKET", path);
    return 0;
}

static bool conf_is(const char *variable, const char *value)
{
    const char *text = getenv("CUTIN_CONF");
    struct conf_part part;

    while (text && conf_next(&text, &part))
        if (conf_sets(&part, variable))
            return part.value_length == strlen(value) &&
                   memcmp(part.value, value, part.value_length) == 0;
    return false;
}

/* As the library reads it. */
static bool is(const char *variable, const char *value)
{
    const char *text = getenv(variable);

    return text ? strcmp(text, value) == 0 : conf_is(variable, value);
}

/* Who has gates: real time has none, nor what nobody outside holds. */
static bool may_have_gates(const struct settings *s)
{
    return !s->no_daemon && !is("CUTIN_PRIORITY", "rt") && !is("CUTIN_PRIORITY", "3") &&
           !is("CUTIN_GATES", "off") && !is("CUTIN_DISABLE", "1");
}

static int prepare(const struct settings *s, const struct paths *paths)
{
    const struct {
        const char *name, *value;
    } variables[] = {
        {"CUTIN_PRIORITY", s->level},
        {"CUTIN_BUDGET_US", s->budget_us},
        {"CUTIN_DEPTH", s->depth},
        {"CUTIN_WEIGHT", s->weight},
        {"CUTIN_DEADLINE_MS", s->deadline_ms},
        {"CUTIN_DISTANCE_US", s->distance_us[0] ? s->distance_us : NULL},
        {"CUTIN_DISTANCE_TAGS", s->tags},
    };
    int rc = prepare_daemon(s, paths);

    for (size_t i = 0; rc == 0 && i < sizeof(variables) / sizeof(variables[0]); i++)
        rc = set(variables[i].name, variables[i].value);
    if (rc == 0 && paths->library[0] && may_have_gates(s))
        gates_learn(paths, s->sim, false);
    if (rc == 0 && s->sim)
        rc = environment_simulate(paths->simulator);
    /* Last, so that nothing but the program itself is started under the library. */
    if (rc == 0 && paths->library[0])
        rc = environment_prepend("LD_PRELOAD", paths->library);
    return rc;
}

static int run(int argc, char **argv)
{
    struct settings s = {0};
    struct paths paths;
    int rc;

    parse(&s, argc, argv);
    paths_find(&paths);
    if (s.sim && !paths.simulator[0]) {
        say(&subcommand_run, "the simulated driver is not installed beside cutin");
        return EXIT_OWN_FAILURE;
    }
    if (!paths.library[0])
        say(&subcommand_run, "libcutin.so is not installed beside cutin; running without it");
    rc = prepare(&s, &paths);
    if (rc != 0) {
        say(&subcommand_run, "cannot set the environment: %s", strerror(-rc));
        return EXIT_OWN_FAILURE;
    }
    if (paths.library[0] && !is("CUTIN_DISABLE", "1"))
        preload_check(&subcommand_run, argv[optind]);
    execvp(argv[optind], argv + optind);
    rc = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
    say(&subcommand_run, "%s: %s", argv[optind], strerror(errno));
    return rc;
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
