/*
 * main.c - the cutin command: one table of subcommands, and who is called.
 */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct command *const commands[] = {
    &command_run,    &command_trace,   &command_record,   &command_replay, &command_list,
    &command_top,    &command_set,     &command_pause,    &command_resume, &command_reset,
    &command_policy, &command_latency, &command_overhead, &command_disb,   &command_report,
    &command_doctor, &command_profile, &command_version,  &command_help,   NULL,
};

const struct command *command_find(const char *name)
{
    for (const struct command *const *cmd = commands; *cmd; cmd++)
        if (strcmp((*cmd)->name, name) == 0)
            return *cmd;
    return NULL;
}

static void overview(FILE *out)
{
    fprintf(out, "Usage: cutin COMMAND [OPTIONS]\n"
                 "Real-time GPU work cuts in on best-effort work.\n\n");
    for (const struct command *const *cmd = commands; *cmd; cmd++)
        fprintf(out, "  cutin %-10s %s\n", (*cmd)->name, (*cmd)->summary);
    fprintf(out, "\n`cutin COMMAND --help` describes a command; cutin(7) how it all works.\n");
}

static int help(int argc, char **argv)
{
    const struct command *about;

    while (options_next(&command_help, argc, argv) != OPTIONS_END)
        ;
    if (argc < 2) {
        overview(stdout);
        return EXIT_SUCCESS;
    }
    about = command_find(argv[1]);
    if (!about)
        fail_usage(NULL, "unknown command %s", argv[1]);
    options_help(about);
    return EXIT_SUCCESS;
}

const struct command command_help = {
    .name = "help",
    .summary = "what the commands are, or what one of them does",
    .synopsis = "[COMMAND]",
    .run = help,
};

int main(int argc, char **argv)
{
    const struct command *cmd;

    if (argc < 2) {
        overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        argv[1] = (char *)"help";
    else if (strcmp(argv[1], "--version") == 0)
        argv[1] = (char *)"version";
    cmd = command_find(argv[1]);
    if (!cmd)
        fail_usage(NULL, "unknown %s %s", argv[1][0] == '-' ? "option" : "command", argv[1]);
    return cmd->run(argc - 1, argv + 1);
}
