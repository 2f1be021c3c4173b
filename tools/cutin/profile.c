/*
 * profile.c - `cutin profile`: what was learned about kernels.
 */
#include "command.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/profile_file.h"

enum { OPT_JSON };

static const struct option_row options[] = {
    [OPT_JSON] = {"json", NULL, "one JSON object on stdout"},
    {0},
};

/* Names come out of files: what a terminal and JSON take as text. */
static void printable(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static double total_ns(const struct profile_row *row)
{
    return (double)row->mean_ns * (double)row->launches;
}

/* What takes most of the GPU's time first. */
static int by_time(const void *a, const void *b)
{
    double x = total_ns(a), y = total_ns(b);

    return x < y ? 1 : x > y ? -1 : 0;
}

static uint64_t least_blocks(const struct profile_row *row)
{
    return UINT64_C(1) << 2 * (row->bucket % 32);
}

static json_t *row_json(const struct profile_row *row)
{
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:I, s:I}", "function", row->name, "blocks_from",
                     (json_int_t)least_blocks(row), "mean_us", row->mean_ns / 1e3, "spread_us",
                     row->spread_ns / 1e3, "p99_us", profile_percentile_ns(row, 99) / 1e3,
                     "launches", (json_int_t)row->launches, "samples", (json_int_t)row->samples);
}

static json_t *gpu_json(const struct profile_header *h, const char *file,
                        const struct profile_row *rows, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list, row_json(&rows[i]));
    return json_pack("{s:s, s:s, s:o}", "gpu", h->gpu, "file", file, "kernels", list);
}

static void print_table(const struct profile_header *h, const struct profile_row *rows, int n)
{
    printf("%s\n%-44s %12s %10s %10s %10s %12s\n", h->gpu, "FUNCTION", "BLOCKS", "MEAN US",
           "SPREAD US", "P99 US", "LAUNCHES");
    for (int i = 0; i < n; i++) {
        char blocks[32];

        snprintf(blocks, sizeof(blocks), "%" PRIu64 "..", least_blocks(&rows[i]));
        printf("%-44.44s %12s %10.1f %10.1f %10.1f %12" PRIu64 "\n", rows[i].name, blocks,
               rows[i].mean_ns / 1e3, rows[i].spread_ns / 1e3,
               profile_percentile_ns(&rows[i], 99) / 1e3, rows[i].launches);
    }
    putchar('\n');
}

static bool is_profile(const char *name)
{
    size_t length = strlen(name), tail = strlen(".profile");

    return length > tail && strcmp(name + length - tail, ".profile") == 0;
}

/* Reads one file and prints it, or adds it to `list`. Returns whether it could be read. */
static bool take_file(const char *path, struct profile_row *rows, json_t *list)
{
    struct profile_header header;
    int n = profile_read(path, &header, rows);

    if (n < 0) {
        say(&command_profile, "%s: %s", path,
            n == -EBADMSG ? "damaged, or of another version; it will be replaced" : strerror(-n));
        return false;
    }
    printable(header.gpu);
    for (int i = 0; i < n; i++)
        printable(rows[i].name);
    qsort(rows, (size_t)n, sizeof(*rows), by_time);
    if (list)
        json_array_append_new(list, gpu_json(&header, path, rows, n));
    else
        print_table(&header, rows, n);
    return true;
}

/* Every GPU's file, in the order of their names. Returns how many were read, or -errno. */
static int take_all(const char *folder, json_t *list)
{
    struct profile_row *rows = calloc(PROFILE_ROWS, sizeof(*rows));
    struct dirent **entries;
    int n = rows ? scandir(folder, &entries, NULL, alphasort) : -1, read = n < 0 ? -errno : 0;

    for (int i = 0; i < n; i++) {
        char path[PROFILE_PATH + 256];

        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (is_profile(entries[i]->d_name))
            read += take_file(path, rows, list);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    free(rows);
    return read;
}

static int print_json(json_t *list)
{
    json_t *root = json_pack("{s:o}", "gpus", list);
    int rc = root ? json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(7)) : -1;

    putchar('\n');
    json_decref(root);
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int profile(int argc, char **argv)
{
    char folder[PROFILE_PATH];
    json_t *list = NULL;
    int n;

    while (options_next(&command_profile, argc, argv) != OPTIONS_END)
        if (!list)
            list = json_array();
    options_no_operands(&command_profile, argc, argv);
    profile_folder(folder);
    if (!folder[0]) {
        say(&command_profile, "neither XDG_CACHE_HOME nor HOME names a folder");
        json_decref(list);
        return EXIT_FAILURE;
    }
    n = take_all(folder, list);
    if (n < 0 && n != -ENOENT)
        say(&command_profile, "%s: %s", folder, strerror(-n));
    if (list)
        return print_json(list);
    if (n == 0 || n == -ENOENT)
        printf("Nothing is known yet: best-effort programs under cutin leave it in %s.\n", folder);
    return n >= 0 || n == -ENOENT ? EXIT_SUCCESS : EXIT_FAILURE;
}

const struct command command_profile = {
    .name = "profile",
    .summary = "what was learned about kernels: how long they run",
    .synopsis = "[--json]",
    .about =
        "Times are of sampled launches, for each function and grid (from BLOCKS to four times\n"
        "as many). MEAN is a moving average that follows low values faster, SPREAD the average\n"
        "distance from it; best effort counts a launch as their sum. P99 is over all samples,\n"
        "to half a power of two.",
    .options = options,
    .run = profile,
};
