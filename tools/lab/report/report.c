/*
 * report.c - `cutin-lab report`: the results in a folder as one HTML page that needs nothing else.
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

#include "common/whole.h"

static const char *output;

static const struct option_row options[] = {
    {"output", "FILE", "write the page here (FOLDER/report.html)", TAKE_TEXT(output)},
    {0},
};

enum { MOST_FILES = 256 };

struct entry {
    char *name;   /* of the file in the folder */
    json_t *root; /* NULL: no JSON */
    const struct result_kind *kind;
};

struct report {
    const char *folder;
    struct entry entry[MOST_FILES];
    size_t entries;
};

/* ---- the folder ---------------------------------------------------------------------------- */

static int is_json(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);

    return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

static void read_entry(struct report *r, const char *name)
{
    struct entry *e = &r->entry[r->entries++];
    char path[4352];

    snprintf(path, sizeof(path), "%s/%s", r->folder, name);
    e->name = strdup(name);
    e->root = json_load_file(path, 0, NULL);
    e->kind = e->root ? result_kind_of(e->root) : NULL;
}

static int read_folder(struct report *r)
{
    struct dirent **names;
    int n = scandir(r->folder, &names, is_json, alphasort), rc = n < 0 ? -errno : 0;

    for (int i = 0; i < n; i++) {
        if (r->entries < MOST_FILES)
            read_entry(r, names[i]->d_name);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    return rc;
}

/* ---- the page ------------------------------------------------------------------------------ */

/* Plots are what takes its time; an interrupt leaves out what is left of them. */
static void fill_page(struct page *page, const struct report *r)
{
    for (size_t i = 0; i < r->entries; i++) {
        const struct entry *e = &r->entry[i];

        progress_show((double)i, (double)r->entries, e->name);
        if (e->kind)
            page_add_result(page, e->name, e->kind, e->root);
        if (trace_is(e->root))
            page_add_trace(page, e->name, e->root);
        if (!e->kind && !trace_is(e->root))
            page_add_other(page, e->name);
    }
    progress_end();
}

/* ---- the command --------------------------------------------------------------------------- */

/* 0, or -errno with one line in `why`. */
static int write_text(const char *text, const char *path, char *why, size_t why_bytes)
{
    struct whole whole;
    int rc = whole_open(&whole, path) && fputs(text, whole.out) >= 0 ? 0 : -errno;

    if (whole.out)
        rc = whole_close(&whole, rc);
    if (rc != 0)
        snprintf(why, why_bytes, "cannot write %s: %s", path, strerror(-rc));
    return rc;
}

static int write_page(const struct subcommand *cmd, const struct report *r, const char *path)
{
    struct page page = {json_array(), json_array(), json_array(), ""};
    char why[2 * PATH_MAX] = "no memory", *text;
    int rc = -ENOENT;

    fill_page(&page, r);
    text = page_make(&page, why, sizeof(why));
    if (text)
        rc = write_text(text, path, why, sizeof(why));
    if (rc != 0) {
        say(cmd, "%s", why);
    } else {
        if (page.why[0])
            say(cmd, "%s", page.why);
        printf("%s\n", path);
    }
    free(text);
    page_free(&page);
    return rc;
}

static void report_free(struct report *r)
{
    for (size_t i = 0; i < r->entries; i++) {
        free(r->entry[i].name);
        json_decref(r->entry[i].root);
    }
}

static bool shows_something(const struct report *r)
{
    for (size_t i = 0; i < r->entries; i++)
        if (r->entry[i].kind || trace_is(r->entry[i].root))
            return true;
    return false;
}

static int report(int argc, char **argv)
{
    static struct report r;
    const struct subcommand *cmd = &subcommand_report;
    char path[4352];
    int rc;

    options_read(cmd, argc, argv);
    if (optind + 1 != argc)
        fail_usage(cmd, "give one folder");
    r.folder = argv[optind];
    snprintf(path, sizeof(path), "%s%s", output ? output : r.folder, output ? "" : "/report.html");
    progress_begin();
    rc = read_folder(&r);
    if (rc != 0) {
        say(cmd, "cannot read %s: %s", r.folder, strerror(-rc));
    } else if (!shows_something(&r)) {
        say(cmd,
            "%s has no results of cutin; make some, as in `cutin latency --json >%s/latency.json`",
            r.folder, r.folder);
        rc = -ENOENT;
    } else {
        rc = write_page(cmd, &r, path);
    }
    report_free(&r);
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
