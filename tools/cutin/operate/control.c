/*
 * control.c - `cutin set`, `pause`, `resume`, `reset` and `policy`: change running processes.
 */
#include "tools/cutin/subcommand.h"
#include "tools/cutin/daemon.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/level.h"
#include "common/text.h"
#include "scheduler/wire/query.h"
#include "scheduler/policy/policy.h"

static const char *const levels[] = {LEVEL_NAMES, NULL};

static int level = -1;
static uint32_t weight, budget_us, depth, reset_stream = CONTROL_ALL_STREAMS;

static const struct option_row set_options[] = {
    {"priority", "LEVEL", "be, 1, 2 or rt", TAKE_WORD(level, levels)},
    {"weight", "N", "share among processes of its level, 1 to 1000",
     TAKE_NUMBER(weight, 1, WEIGHT_MOST)},
    {"budget-us", "N", "estimated GPU time that may be in flight below rt",
     TAKE_NUMBER(budget_us, 1, BUDGET_US_MOST)},
    {"depth", "N", "commands that may be in flight per stream", TAKE_NUMBER(depth, 1, DEPTH_MOST)},
    DAEMON_SOCKET_OPTION,
    {0},
};

static const struct option_row plain_options[] = {DAEMON_SOCKET_OPTION, {0}};

static const struct option_row reset_options[] = {
    {"stream", "N",
     "only this stream; streams are numbered from 0, in the order\n"
     "of their creation",
     TAKE_NUMBER(reset_stream, 0, CONTROL_ALL_STREAMS - 1)},
    DAEMON_SOCKET_OPTION,
    {0},
};

/* Gives one process the orders of one of these commands. */
static int order(const struct subcommand *cmd, int argc, char **argv)
{
    const char *socket;
    uint64_t pid;
    int rc = 0, n = 0;

    options_read(cmd, argc, argv);
    const struct {
        const struct subcommand *of;
        enum control_kind kind;
        bool given;
        uint32_t value;
    } orders[] = {{&subcommand_set, CONTROL_LEVEL, level >= 0, (uint32_t)level},
                  {&subcommand_set, CONTROL_WEIGHT, weight > 0, weight},
                  {&subcommand_set, CONTROL_BUDGET_US, budget_us > 0, budget_us},
                  {&subcommand_set, CONTROL_DEPTH, depth > 0, depth},
                  {&subcommand_pause, CONTROL_PAUSE, true, 0},
                  {&subcommand_resume, CONTROL_RESUME, true, 0},
                  {&subcommand_reset, CONTROL_RESET, true, reset_stream}};

    if (optind >= argc)
        fail_usage(cmd, "no process given; give a PID from `cutin list`");
    if (!number_read(argv[optind], 1, INT32_MAX, &pid))
        fail_usage(cmd, "%s is not a process id", argv[optind]);
    optind++;
    options_no_operands(cmd, argc, argv);
    socket = daemon_socket();
    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders) && rc == 0; i++)
        if (orders[i].of == cmd && orders[i].given) {
            rc = control_order(socket, (struct control_target){.pid = (int32_t)pid}, orders[i].kind,
                               orders[i].value);
            n++;
        }
    if (n == 0)
        fail_usage(cmd, "nothing to set: --priority, --weight, --budget-us or --depth");
    switch (rc) {
    case 0:
        return EXIT_SUCCESS;
    case -ESRCH:
        return say(cmd, "no process %d runs under cutin; `cutin list` shows those that do",
                   (int)pid);
    case -EPERM:
        return say(cmd,
                   "not permitted: process %d is another user's, or the level is above what it may "
                   "have; `control` and the levels under [allow] in cutind.conf decide this",
                   (int)pid);
    case -EOPNOTSUPP:
        return say(cmd,
                   "process %d started as rt, so its streams have no queues; start it at a lower "
                   "level and raise it with `cutin set --priority rt`",
                   (int)pid);
    default:
        return say(cmd, "%s", daemon_error(socket, rc));
    }
}

const struct subcommand subcommand_set = {
    .name = "set",
    .summary = "change a running process: its level, weight, budget or depth",
    .synopsis = "PID [--priority LEVEL] [--weight N] [--budget-us N] [--depth N]",
    .about =
        "Takes effect at once, until the process ends. Only for your own processes, up to your "
        "granted level,\nunless cutind.conf allows more.",
    .options = set_options,
    .anywhere = true,
    .run = order,
};

const struct subcommand subcommand_pause = {
    .name = "pause",
    .summary = "hold all streams of a process until it is resumed",
    .synopsis = "PID [--socket PATH]",
    .options = plain_options,
    .anywhere = true,
    .run = order,
};

const struct subcommand subcommand_resume = {
    .name = "resume",
    .summary = "continue a paused process where it stopped",
    .synopsis = "PID [--socket PATH]",
    .options = plain_options,
    .anywhere = true,
    .run = order,
};

const struct subcommand subcommand_reset = {
    .name = "reset",
    .summary = "drop the commands that a process has buffered",
    .synopsis = "PID [--stream N]",
    .about =
        "Dropped commands never run, so the results of the process change. `dropped` in `cutin list"
        "\n--json` counts them.",
    .options = reset_options,
    .anywhere = true,
    .run = order,
};

static bool policy_list, policy_as_json;

static const struct option_row policy_options[] = {
    {"list", NULL, "list the policies and what they do", TAKE_FLAG(policy_list)},
    {"json", NULL, "one JSON object on stdout", TAKE_FLAG(policy_as_json)},
    DAEMON_SOCKET_OPTION,
    {0},
};

static int policy(const struct subcommand *cmd, int argc, char **argv)
{
    const char *name;
    char now[PAGE_NAME + 1] = "";
    json_t *all;
    int rc;

    options_read(cmd, argc, argv);
    name = optind < argc ? argv[optind++] : NULL;
    options_no_operands(cmd, argc, argv);
    all = policy_list && policy_as_json ? json_object() : NULL;
    for (uint32_t i = 0; policy_list && policies[i]; i++)
        if (all)
            json_object_set_new(all, policies[i]->name, json_string(policies[i]->help));
        else
            printf("%-8s %s\n", policies[i]->name, policies[i]->help);
    if (policy_list)
        return all ? print_object(json_pack("{s:o}", "policies", all), 0) : EXIT_SUCCESS;
    rc = control_policy(daemon_socket(), name, now);
    if (rc == -EPERM)
        return say(cmd, "not permitted: the policy is for root, the daemon's user and those under "
                        "`control` in cutind.conf");
    /* A missing policy and a missing socket are the same error: is there a daemon? */
    if (rc == -ENOENT && name && daemon_probe(daemon_socket()) == 0)
        return say(cmd, "there is no policy %s; `cutin policy --list` shows all", name);
    if (rc != 0)
        return say(cmd, "%s", daemon_error(daemon_socket(), rc));
    if (policy_as_json)
        return print_object(json_pack("{s:s}", "policy", now), 0);
    puts(now);
    return EXIT_SUCCESS;
}

const struct subcommand subcommand_policy = {
    .name = "policy",
    .summary = "show or change which processes of a level go first",
    .synopsis = "[NAME] [--list] [--json] [--socket PATH]",
    .about = "Prints the current policy. NAME changes it, until the daemon ends or reloads its\n"
             "configuration; see cutind.conf(5).",
    .options = policy_options,
    .anywhere = true,
    .run = policy,
};
