/*
 * distance.c - `cutin-lab distance`: runs a program as if its GPU were far away (docs/distance.md).
 *
 * The command becomes the program, like `cutin run`, with one more library preloaded.
 */
#include "lab.h"
#include "tools/cutin/paths.h"
#include "tools/cutin/run/run.h"

#include <getopt.h>
#include <string.h>

static struct plan {
    char rtt_us[OPTIONS_US];
    const char *tags;
    bool sim;
} given;

static const struct option_row options[] = {
    {"rtt", "TIME", "round trip to the GPU, such as 8us", TAKE_US(given.rtt_us, 10000)},
    {"tags", "N", "reads of host memory in flight at once (140)",
     TAKE_NUMBER(given.tags, 1, 65536)},
    {"sim", NULL, "run on the simulated GPU", TAKE_FLAG(given.sim)},
    {0},
};

static int distance(const struct subcommand *cmd, int argc, char **argv)
{
    struct paths paths;

    options_read(cmd, argc, argv);
    if (!given.rtt_us[0])
        fail_usage(cmd, "no distance given; use --rtt");
    if (optind >= argc)
        fail_usage(cmd, "no program given");
    paths_find(&paths);
    if (!paths.library[0] || !paths.distance[0] || (given.sim && !paths.simulator[0])) {
        say(cmd, "%s is not installed beside cutin-lab",
            !paths.library[0]    ? "libcutin.so"
            : !paths.distance[0] ? "libcutin_distance.so"
                                 : "the simulated driver");
        return EXIT_OWN_FAILURE;
    }
    const struct variable variables[] = {
        {"CUTIN_DISTANCE_US", given.rtt_us}, {"CUTIN_DISTANCE_TAGS", given.tags}, {0}};
    int rc = environment_set(variables);

    if (rc == 0)
        rc = environment_preload(paths.distance, NULL);
    if (rc == 0)
        rc = environment_preload(paths.library, given.sim ? paths.simulator : NULL);
    if (rc != 0) {
        say(cmd, "cannot set the environment: %s", strerror(-rc));
        return EXIT_OWN_FAILURE;
    }
    preload_check(cmd, argv[optind]);
    return program_exec(cmd, argv + optind);
}

const struct subcommand subcommand_distance = {
    .name = "distance",
    .summary = "run a program as if its GPU were far away",
    .synopsis = "--rtt TIME [OPTIONS] [--] PROGRAM [ARGUMENT...]",
    .about = "Every command to the GPU waits for the longer way, on the GPU, in stream order: the "
             "model\n"
             "of cutin-lab whatif --rtt, live. PROGRAM is under cutin, at the level that the "
             "environment\n"
             "says, and may be `cutin run`, which has a level and a daemon. The exit status is "
             "PROGRAM's;\n"
             "125 to 127 as with env(1).",
    .options = options,
    .run = distance,
};
