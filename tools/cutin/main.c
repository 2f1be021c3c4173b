/*
 * main.c - the cutin command: what somebody who serves needs.
 */
#include "paths.h"
#include "subcommand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct subcommand *const running[] = {&subcommand_run, &subcommand_list,
                                                   &subcommand_top, NULL};
static const struct subcommand *const controlling[] = {&subcommand_set,    &subcommand_pause,
                                                       &subcommand_resume, &subcommand_reset,
                                                       &subcommand_policy, NULL};
static const struct subcommand *const finding_out[] = {
    &subcommand_doctor, &subcommand_latency, &subcommand_trace, &subcommand_profile, NULL};
static const struct subcommand *const others[] = {&subcommand_cdi, &subcommand_version,
                                                  &subcommand_help, NULL};

static const struct group groups[] = {
    {"Run and watch", running},
    {"Control running processes", controlling},
    {"Check and measure", finding_out},
    {"Other", others},
    {0},
};

static const struct program program = {
    .name = "cutin",
    .purpose = "Real-time GPU work cuts in on best-effort work.",
    .more = "cutin(7) explains how it works.\n"
            "Benchmarks, recordings and predictions are commands of cutin-lab(1).",
    .groups = groups,
};

/* ---- commands of 0.1 that cutin-lab has now: the old names work in 0.2, and go with it ------- */

static const char *const moved[] = {"record", "replay", "disb", "overhead", "report", "whatif"};

/* `words` begins with a place for the program, and ends with NULL. */
_Noreturn static void become_lab(const char *old, const char *name, char **words)
{
    struct paths paths;

    paths_find(&paths);
    if (!paths.lab[0]) {
        say(NULL, "`cutin %s` is `cutin-lab %s` now, and cutin-lab is not installed beside cutin",
            old, name);
        exit(EXIT_USAGE);
    }
    say(NULL, "`cutin %s` is `cutin-lab %s` now; the old name works in this release only", old,
        name);
    words[0] = (char *)"cutin-lab";
    execv(paths.lab, words);
    say(NULL, "%s: %s", paths.lab, strerror(errno));
    exit(EXIT_CANNOT_RUN);
}

/* Becomes cutin-lab where the words name such a command, after a line on stderr that names the new
 * one; exits with 2 where cutin-lab is not installed. Else does nothing. */
static void forward_moved(int argc, char **argv)
{
    const char *name = argc > 2 && strcmp(argv[1], "help") == 0 ? argv[2] : argv[1];
    int at = 2;

    for (size_t i = 0; i < sizeof(moved) / sizeof(*moved) && argc > 1; i++)
        if (strcmp(moved[i], name) == 0)
            become_lab(name, name, argv);
    if (argc < 2 || strcmp(argv[1], "latency") != 0)
        return;
    /* `cutin latency ... --ablation ...`: the option becomes the command. */
    while (at < argc && strcmp(argv[at], "--ablation") != 0)
        at++;
    if (at == argc)
        return;
    memmove(argv + at, argv + at + 1, (size_t)(argc - at) * sizeof(*argv));
    argv[1] = (char *)"ablation";
    become_lab("latency --ablation", "ablation", argv);
}

int main(int argc, char **argv)
{
    forward_moved(argc, argv);
    return program_main(&program, argc, argv);
}
