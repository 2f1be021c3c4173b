/*
 * report.c - `cutin-lab report`: puts the results in a folder into one self-contained HTML page.
 */
#include "report.h"
#include "tools/lab/lab.h"
#include "tools/cutin/progress.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/atomic_file.h"

static const char *output;

static const struct option_row options[] = {
    {"output", "FILE", "write the page here (FOLDER/report.html)", TAKE_TEXT(output)},
    {0},
};

enum { MOST_FILES = 256 };

/* ---- the folder ---------------------------------------------------------------------------- */

static int is_json(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);

    return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

/* Plots take most of the time. After an interrupt the rest of them is left out. */
static void add_file(struct page *page, const char *folder, const char *name)
{
    const struct result_kind *kind;
    char path[4352];
    json_t *root; /* NULL: not JSON */

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    root = json_load_file(path, 0, NULL);
    kind = root ? result_kind_of(root) : NULL;
    if (kind)
        html_add_result(page, name, kind, root);
    if (trace_is(root))
        html_add_trace(page, name, root);
    if (!kind && !trace_is(root))
        html_add_other(page, name);
    json_decref(root);
}

static int add_folder(struct page *page, const char *folder)
{
    struct dirent **names;
    int n = scandir(folder, &names, is_json, alphasort), rc = n < 0 ? -errno : 0;

    for (int i = 0; i < n; i++) {
        if (i < MOST_FILES) {
            progress_show(i, n < MOST_FILES ? n : MOST_FILES, names[i]->d_name);
            add_file(page, folder, names[i]->d_name);
        }
        free(names[i]);
    }
    progress_end();
    if (n >= 0)
        free(names);
    return rc;
}

/* ---- the command --------------------------------------------------------------------------- */

/* Returns 0, or -errno with one line in `why`. */
static int write_text(const char *text, const char *path, char *why, size_t why_bytes)
{
    struct atomic_file whole;
    int rc = atomic_file_open(&whole, path) && fputs(text, whole.out) >= 0 ? 0 : -errno;

    if (whole.out)
        rc = atomic_file_close(&whole, rc);
    if (rc != 0)
        snprintf(why, why_bytes, "cannot write %s: %s", path, strerror(-rc));
    return rc;
}

static int write_page(const struct subcommand *cmd, const struct page *page, const char *path)
{
    char why[2 * PATH_MAX] = "no memory", *text = html_make(page, why, sizeof(why));
    int rc = text ? write_text(text, path, why, sizeof(why)) : -ENOENT;

    if (rc != 0) {
        say(cmd, "%s", why);
    } else {
        if (page->why[0])
            say(cmd, "%s", page->why);
        printf("%s\n", path);
    }
    free(text);
    return rc;
}

static int report(const struct subcommand *cmd, int argc, char **argv)
{
    struct page page = {json_array(), json_array(), json_array(), ""};
    const char *folder;
    char path[4352];
    int rc;

    options_read(cmd, argc, argv);
    if (optind + 1 != argc)
        fail_usage(cmd, "give one folder");
    folder = argv[optind];
    snprintf(path, sizeof(path), "%s%s", output ? output : folder, output ? "" : "/report.html");
    progress_begin();
    rc = add_folder(&page, folder);
    if (rc != 0) {
        say(cmd, "cannot read %s: %s", folder, strerror(-rc));
    } else if (json_array_size(page.results) + json_array_size(page.traces) == 0) {
        say(cmd,
            "%s has no results of cutin; make some, as in `cutin latency --json >%s/latency.json`",
            folder, folder);
        rc = -ENOENT;
    } else {
        rc = write_page(cmd, &page, path);
    }
    html_free(&page);
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

const struct subcommand subcommand_report = {
    .name = "report",
    .summary = "make one HTML page of the results in a folder",
    .synopsis = "[OPTIONS] FOLDER",
    .about =
        "Reads the .json files in FOLDER that latency, overhead, ablation and disb print with\n"
        "--json, and traces. Writes a page with machine, configuration, tables, plots, and one\n"
        "cut-in of each trace.",
    .options = options,
    .run = report,
};
