/*
 * moved.c - commands of 0.1 that cutin-lab has now (see moved.h).
 */
#include "moved.h"
#include "paths.h"
#include "subcommand.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const moved[] = {"record", "replay", "disb", "overhead", "report", "whatif"};
static const char ablation[] = "--ablation";

static bool is_moved(const char *name)
{
    for (size_t i = 0; i < sizeof(moved) / sizeof(*moved); i++)
        if (strcmp(moved[i], name) == 0)
            return true;
    return false;
}

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

/* `cutin latency ... --ablation ...`: the option becomes the command. */
static void forward_ablation(int argc, char **argv)
{
    int at = 2;

    while (at < argc && strcmp(argv[at], ablation) != 0)
        at++;
    if (at == argc)
        return;
    memmove(argv + at, argv + at + 1, (size_t)(argc - at) * sizeof(*argv));
    argv[1] = (char *)"ablation";
    become_lab("latency --ablation", "ablation", argv);
}

void moved_forward(int argc, char **argv)
{
    const char *help = argc > 2 && strcmp(argv[1], "help") == 0 ? argv[2] : NULL;

    if (argc > 1 && is_moved(help ? help : argv[1]))
        become_lab(help ? help : argv[1], help ? help : argv[1], argv);
    if (argc > 1 && strcmp(argv[1], "latency") == 0)
        forward_ablation(argc, argv);
}
