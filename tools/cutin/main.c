/*
 * main.c - the cutin command: one table of subcommands, and who is called.
 */
#include "subcommand.h"
#include "tools/simgpu/face/simconfig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct subcommand *const subcommands[] = {
    &subcommand_run,      &subcommand_trace,
    &subcommand_record,   &subcommand_replay,
    &subcommand_list,     &subcommand_top,
    &subcommand_set,      &subcommand_pause,
    &subcommand_resume,   &subcommand_reset,
    &subcommand_policy,   &subcommand_latency,
    &subcommand_overhead, &subcommand_disb,
    &subcommand_report,   &subcommand_doctor,
    &subcommand_profile,  &subcommand_whatif,
    &subcommand_cdi,      &subcommand_version,
    &subcommand_help,     NULL,
};

const struct subcommand *subcommand_find(const char *name)
{
    for (const struct subcommand *const *cmd = subcommands; *cmd; cmd++)
        if (strcmp((*cmd)->name, name) == 0)
            return *cmd;
    return NULL;
}

static void overview(FILE *out)
{
    fprintf(out, "Usage: cutin COMMAND [OPTIONS]\n"
                 "Real-time GPU work cuts in on best-effort work.\n\n");
    for (const struct subcommand *const *cmd = subcommands; *cmd; cmd++)
        fprintf(out, "  cutin %-10s %s\n", (*cmd)->name, (*cmd)->summary);
    fprintf(out, "\n`cutin COMMAND --help` describes a command; cutin(7) how it all works.\n");
}

static int help(int argc, char **argv)
{
    const struct subcommand *about;

    while (options_next(&subcommand_help, argc, argv) != OPTIONS_END)
        ;
    if (argc < 2) {
        overview(stdout);
        return EXIT_SUCCESS;
    }
    about = subcommand_find(argv[1]);
    if (!about)
        fail_usage(NULL, "unknown command %s", argv[1]);
    options_help(about);
    return EXIT_SUCCESS;
}

const struct subcommand subcommand_help = {
    .name = "help",
    .summary = "what the commands are, or what one of them does",
    .synopsis = "[COMMAND]",
    .run = help,
};

int main(int argc, char **argv)
{
    const struct subcommand *cmd;

    if (argc < 2) {
        overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        argv[1] = (char *)"help";
    else if (strcmp(argv[1], "--version") == 0)
        argv[1] = (char *)"version";
    cmd = subcommand_find(argv[1]);
    if (!cmd)
        fail_usage(NULL, "unknown %s %s", argv[1][0] == '-' ? "option" : "command", argv[1]);
    simconfig_get(); /* what is misused is told here, and not by each process that is started */
    return cmd->run(argc - 1, argv + 1);
}
