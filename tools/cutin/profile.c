/*
 * profile.c - `cutin profile`: shows what was learned about kernels.
 */
#include "subcommand.h"
#include "kernel_name.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "common/profile_file.h"

static struct profile_header header;
static struct profile_row rows[PROFILE_ROWS];
static struct profile_text text;
static bool json, mangled;

static const struct option_row options[] = {
    {"json", NULL, "one JSON object on stdout", TAKE_FLAG(json)},
    {"mangled", NULL, "show names mangled and in full", TAKE_FLAG(mangled)},
    {0},
};

/* Sorts by total GPU time, the longest first. */
static int by_time(const void *a, const void *b)
{
    const struct profile_row *m = a, *n = b;
    double x = (double)m->mean_ns * (double)m->launches,
           y = (double)n->mean_ns * (double)n->launches;

    return x < y ? 1 : x > y ? -1 : 0;
}

static uint64_t least_blocks(const struct profile_row *row)
{
    return UINT64_C(1) << 2 * (row->bucket % 32);
}

static const char *name_of(const struct profile_row *row, size_t width, bool whole)
{
    return kernel_name(row->name ? text.text + row->name : "(without a name)", width, whole);
}

/* The column is as wide as needed, but not for mangled names of thousands of characters. */
static void print_table(int n)
{
    int width = 24;

    for (int i = 0; i < n; i++) {
        int length = (int)strlen(name_of(&rows[i], KERNEL_NAME_TABLE, mangled));
        if (length > width && length <= KERNEL_NAME_TABLE)
            width = length;
    }
    printf("%s\n%-*s %12s %10s %10s %10s %12s\n", header.gpu, width, "FUNCTION", "BLOCKS",
           "MEAN US", "UPPER US", "P99 US", "LAUNCHES");
    for (const struct profile_row *row = rows; row < rows + n; row++) {
        char blocks[32], mean[32];

        snprintf(blocks, sizeof(blocks), "%" PRIu64 "..", least_blocks(row));
        snprintf(mean, sizeof(mean), "%s%.1f", row->at_most ? "<= " : "", row->mean_ns / 1e3);
        printf("%-*s %12s %10s %10.1f %10.1f %12" PRIu64 "\n", width,
               name_of(row, KERNEL_NAME_TABLE, mangled), blocks, mean, row->upper_ns / 1e3,
               profile_percentile_ns(row, 99) / 1e3, row->launches);
    }
    putchar('\n');
}

/* Reads one file and prints it, or adds it to the list if there is one. Returns whether it could be
 * read. */
static bool take_file(const char *path, json_t *list)
{
    int n = profile_read(path, &header, rows, &text);
    json_t *kernels;

    if (n < 0) {
        say(&subcommand_profile, "%s: %s", path,
            n == -EBADMSG ? "damaged, or of another version; it will be replaced" : strerror(-n));
        return false;
    }
    printable(header.gpu);
    qsort(rows, (size_t)n, sizeof(*rows), by_time);
    if (!list) {
        print_table(n);
        return true;
    }
    kernels = json_array();
    for (const struct profile_row *row = rows; row < rows + n; row++)
        json_array_append_new(
            kernels,
            json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:b, s:I, s:I}", "function",
                      name_of(row, KERNEL_NAME_WHOLE, mangled), "symbol", name_of(row, 0, true),
                      "blocks_from", (json_int_t)least_blocks(row), "mean_us", row->mean_ns / 1e3,
                      "upper_us", row->upper_ns / 1e3, "p99_us",
                      profile_percentile_ns(row, 99) / 1e3, "at_most", row->at_most != 0,
                      "launches", (json_int_t)row->launches, "samples", (json_int_t)row->samples));
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:o}", "gpu", header.gpu, "file", path, "kernels", kernels));
    return true;
}

static int profile(const struct subcommand *cmd, int argc, char **argv)
{
    char folder[PROFILE_PATH];
    struct dirent **entries;
    json_t *list;
    int n, read = 0;
    bool failed;

    options_read(cmd, argc, argv);
    options_no_operands(cmd, argc, argv);
    profile_folder(folder);
    if (!folder[0])
        return say(cmd, "neither XDG_CACHE_HOME nor HOME names a folder");
    list = json ? json_array() : NULL;
    /* The files of all GPUs, in the order of their names. */
    n = scandir(folder, &entries, NULL, alphasort);
    failed = n < 0 && errno != ENOENT;
    if (failed)
        say(cmd, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *dot = strrchr(entries[i]->d_name, '.');
        char path[PROFILE_PATH + 256];

        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (dot && dot > entries[i]->d_name && strcmp(dot, ".profile") == 0)
            read += take_file(path, list);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    if (json)
        return print_object(json_pack("{s:o}", "gpus", list), JSON_REAL_PRECISION(7));
    if (read == 0 && !failed)
        printf("No profiles yet: best-effort programs under cutin write them to %s.\n", folder);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct subcommand subcommand_profile = {
    .name = "profile",
    .summary = "show how long kernels run, as learned so far",
    .synopsis = "[--json] [--mangled]",
    .about =
        "Times come from sampled launches, per function and grid size (from BLOCKS to four times\n"
        "as many).\n"
        "MEAN: of the latest launches.\n"
        "UPPER: hardly ever exceeded by these; best effort counts each launch as this long.\n"
        "P99: over all samples, to half a power of two.\n"
        "Names are demangled and shortened to fit; JSON has them in full, and `symbol` is the\n"
        "name in the module.",
    .options = options,
    .run = profile,
};
