/*
 * program.c - finds the subcommand that is called, and prints the overview of all.
 */
#include "subcommand.h"
#include "paths.h"
#include "progress.h"
#include "common/text.h"
#include "tools/simgpu/face/simconfig.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct program *program;

/* Returns the subcommand, or names the one that was probably meant and exits 2. */
static const struct subcommand *subcommand_find(const char *name)
{
    const char *what = name[0] == '-' ? "option" : "command", *meant = NULL;
    size_t least = EDIT_TOO_FAR, length = strlen(name);

    for (const struct group *group = program->groups; group->heading; group++)
        for (const struct subcommand *const *cmd = group->subcommands; *cmd; cmd++) {
            bool same = (*cmd)->elsewhere && strcmp((*cmd)->elsewhere, name) == 0;
            size_t changes = same ? 0 : edit_distance(name, length, (*cmd)->name);

            if (strcmp((*cmd)->name, name) == 0)
                return *cmd;
            if (changes < least) {
                least = changes;
                meant = (*cmd)->name;
            }
        }
    if (meant)
        fail_usage(NULL, "unknown %s %s (did you mean %s?)", what, name, meant);
    fail_usage(NULL, "unknown %s %s", what, name);
}

static void overview(FILE *out)
{
    fprintf(out, "Usage: %s COMMAND [OPTIONS]\n%s\n", program->name, program->purpose);
    for (const struct group *group = program->groups; group->heading; group++) {
        fprintf(out, "\n%s:\n", group->heading);
        for (const struct subcommand *const *cmd = group->subcommands; *cmd; cmd++)
            fprintf(out, "  %s %-10s %s\n", program->name, (*cmd)->name, (*cmd)->summary);
    }
    fprintf(out, "\n`%s COMMAND --help` describes a command; %s\n", program->name, program->more);
}

static int help(const struct subcommand *cmd, int argc, char **argv)
{
    options_read(cmd, argc, argv);
    if (argc < 2)
        overview(stdout);
    else
        options_help(subcommand_find(argv[1]));
    return EXIT_SUCCESS;
}

const struct subcommand subcommand_help = {
    .name = "help",
    .summary = "list the commands, or describe one",
    .synopsis = "[COMMAND]",
    .run = help,
};

/* `version`: which version this is, and where its parts are. */
static bool version_as_json;

static const struct option_row version_options[] = {
    {"json", NULL, "one JSON object on stdout", TAKE_FLAG(version_as_json)},
    {0},
};

static int version(const struct subcommand *cmd, int argc, char **argv)
{
    struct paths paths;

    options_read(cmd, argc, argv);
    options_no_operands(cmd, argc, argv);
    paths_find(&paths);
    if (version_as_json)
        return print_object(json_pack("{s:s, s:s, s:s, s:s}", "version", CUTIN_VERSION, "library",
                                      paths.library, "daemon", paths.daemon, "simulator",
                                      paths.simulator),
                            0);
    printf("%s %s\n", program_name, CUTIN_VERSION);
    return EXIT_SUCCESS;
}

const struct subcommand subcommand_version = {
    .name = "version",
    .summary = "print the version",
    .synopsis = "[--json]",
    .options = version_options,
    .run = version,
};

int print_object(json_t *root, size_t flags)
{
    bool whole = root && json_dumpf(root, stdout,
                                    flags & JSON_COMPACT ? flags : JSON_INDENT(2) | flags) == 0;

    putchar('\n');
    json_decref(root);
    return fflush(stdout) == 0 && whole ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* stdout may be a file on a full disk, so this checks that all of it was written. */
static void stdout_end(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    say(NULL, "cannot write to stdout");
    _exit(EXIT_FAILURE);
}

int program_main(const struct program *this, int argc, char **argv)
{
    const struct subcommand *cmd;
    int rc;

    program = this;
    program_name = program->name;
    atexit(stdout_end);
    if (argc < 2) {
        overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        argv[1] = (char *)"help";
    else if (strcmp(argv[1], "--version") == 0)
        argv[1] = (char *)"version";
    cmd = subcommand_find(argv[1]);
    simconfig_get(); /* reports bad simulator settings once, before any process starts */
    rc = cmd->run(cmd, argc - 1, argv + 1);
    /* A program that the command ran keeps its own exit status. */
    return progress_cancel && rc <= EXIT_FAILURE ? 128 + progress_cancel : rc;
}
