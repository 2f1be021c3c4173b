/*
 * version.c - `version`: which one this is, and where its parts lie.
 */
#include "subcommand.h"
#include "paths.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static bool json;

static const struct option_row options[] = {
    {"json", NULL, "one JSON object on stdout", TAKE_FLAG(json)},
    {0},
};

static int version(int argc, char **argv)
{
    struct paths paths;

    options_read(&subcommand_version, argc, argv);
    options_no_operands(&subcommand_version, argc, argv);
    paths_find(&paths);
    if (json)
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
    .options = options,
    .run = version,
};
