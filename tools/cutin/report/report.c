/*
 * report.c - `cutin report`: the results in a folder as one HTML page that needs nothing else.
 */
#include "report.h"
#include "tools/cutin/command.h"
#include "plot.h"
#include "tools/cutin/progress.h"
#include "result.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPT_OUTPUT };

static const struct option_row options[] = {
    [OPT_OUTPUT] = {"output", "FILE", "the page (FOLDER/report.html)"},
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
    char why[512]; /* of the first plot that could not be drawn */
    FILE *out;
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

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"icon\" href=\"data:,\">\n"
    "<title>cutin report</title>\n<style>\n"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;"
    "color:#1a1a1a;background:#fff}\n"
    "h1,h2{line-height:1.2}h2{margin-top:2.2em;border-bottom:1px solid #bbb}\n"
    "table{border-collapse:collapse;margin:1.2em 0;display:block;overflow-x:auto}\n"
    "caption{text-align:left;font-weight:600;padding:.3em 0}\n"
    "th,td{padding:.2em .55em;border-bottom:1px solid #ccc;text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}\n"
    "th:first-child{text-align:left}td.text{text-align:left;white-space:normal}\n"
    "code{background:#eee;padding:.1em .3em;border-radius:3px;overflow-wrap:anywhere}\n"
    ".plot{overflow-x:auto;margin:1em 0}\n"
    "svg{width:100%;min-width:760px;height:auto;border:1px solid #ddd;box-sizing:border-box}\n"
    ".notice{background:#fff3cd;color:#1a1a1a;padding:.5em .8em;border-left:4px solid #e69f00}\n"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#16181c}"
    "th,td{border-color:#444}code{background:#2a2d33}h2{border-color:#555}}\n"
    "@media print{h2{break-after:avoid}svg,table{break-inside:avoid}}\n"
    "</style>\n</head>\n<body>\n<h1>cutin report</h1>\n";

static void text_row(FILE *out, const char *heading, const json_t *value)
{
    char *dumped = NULL;
    const char *text = json_string_value(value);

    if (!value)
        return;
    if (!text)
        text = dumped = json_dumps(value, JSON_ENCODE_ANY);
    fprintf(out, "<tr><th>");
    html_text(out, heading);
    fprintf(out, "</th><td class=\"text\">");
    html_text(out, text);
    fprintf(out, "</td></tr>\n");
    free(dumped);
}

/* What the results say about where they come from; one table per machine that differs. */
static void print_machines(const struct report *r)
{
    static const struct {
        const char *heading, *path;
    } rows[] = {{"GPU", "gpu"},
                {"driver version", "driver_version"},
                {"simulated", "simulated"},
                {"processor", "machine.cpu"},
                {"processors", "machine.cpus"},
                {"kernel", "machine.kernel"},
                {"architecture", "machine.architecture"},
                {"cutin", "version"}};
    const json_t *last = NULL;

    for (size_t i = 0; i < r->entries; i++) {
        const json_t *config = result_get(r->entry[i].root, "config");
        const json_t *machine = result_get(config, "machine");
        if (!r->entry[i].kind || !machine || (last && json_equal(last, machine)))
            continue;
        fprintf(r->out, "%s<table>\n", last ? "" : "<h2>Machine</h2>\n");
        last = machine;
        for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
            text_row(r->out, rows[k].heading, result_get(config, rows[k].path));
        fprintf(r->out, "</table>\n");
    }
}

static void print_configuration(FILE *out, const json_t *config)
{
    const char *key;
    json_t *value;

    fprintf(out, "<details><summary>Configuration</summary><table>\n");
    json_object_foreach((json_t *)(uintptr_t)config, key, value)
    {
        if (strcmp(key, "machine") != 0)
            text_row(out, key, value);
    }
    fprintf(out, "</table></details>\n");
}

static void print_plot(struct report *r, const json_t *root)
{
    int fd = memfd_create("cutin-report", MFD_CLOEXEC);
    char why[256] = "no memory", *text = NULL, *svg;
    struct stat st;

    if (!progress_cancel && fd >= 0 && plot_draw(root, PLOT_SVG, fd, why, sizeof(why)) == 0 &&
        fstat(fd, &st) == 0)
        text = calloc(1, (size_t)st.st_size + 1);
    if (!text && progress_cancel)
        snprintf(why, sizeof(why), "interrupted: no plot");
    if (text && pread(fd, text, (size_t)st.st_size, 0) == st.st_size &&
        (svg = strstr(text, "<svg")) != NULL) { /* without what makes it a file of its own */
        fputs("<div class=\"plot\">", r->out);
        fputs(svg, r->out);
        fputs("</div>\n", r->out);
    } else {
        fprintf(r->out, "<p>");
        html_text(r->out, why);
        fprintf(r->out, "</p>\n");
        if (!r->why[0])
            snprintf(r->why, sizeof(r->why), "%s", why);
    }
    free(text);
    if (fd >= 0)
        close(fd);
}

static void print_result(struct report *r, const struct entry *e)
{
    const json_t *config = result_get(e->root, "config");
    const char *command = json_string_value(result_get(config, "command"));

    fprintf(r->out, "<h2>%s</h2>\n<p>", e->kind->title);
    if (command) {
        fprintf(r->out, "<code>");
        html_text(r->out, command);
        fprintf(r->out, "</code> in ");
    }
    html_text(r->out, e->name);
    fprintf(r->out, "</p>\n");
    if (json_is_true(result_get(config, "simulated")))
        fprintf(r->out, "<p class=\"notice\">Measured on the simulated GPU: ratios show the "
                        "mechanism, absolute times are modelled.</p>\n");
    if (json_is_true(result_get(e->root, "interrupted")))
        fprintf(r->out,
                "<p class=\"notice\">The run was interrupted: these are the figures of what "
                "it had measured.</p>\n");
    print_plot(r, e->root);
    report_tables(r->out, e->kind->name, e->root);
    print_configuration(r->out, config);
}

static void print_trace(struct report *r, const struct entry *e)
{
    fprintf(r->out, "<h2>One cut-in</h2>\n<p>From the trace in ");
    html_text(r->out, e->name);
    fprintf(r->out, ".</p>\n");
    if (!report_timeline(r->out, e->root))
        fprintf(r->out, "<p>The trace has no cut-in that held somebody.</p>\n");
}

static void print_others(const struct report *r)
{
    const char *before = "<h2>Other files</h2>\n<p>Not shown, because they are no results of "
                         "cutin: ";

    for (size_t i = 0; i < r->entries; i++) {
        const struct entry *e = &r->entry[i];
        if (e->kind || trace_is(e->root))
            continue;
        fputs(before, r->out);
        html_text(r->out, e->name);
        before = ", ";
    }
    if (before[0] == ',')
        fprintf(r->out, ".</p>\n");
}

/* Plots are what takes its time; an interrupt leaves out what is left of them. */
static void print_results(struct report *r)
{
    for (size_t i = 0; i < r->entries; i++) {
        progress_show((double)i, (double)r->entries, r->entry[i].name);
        if (r->entry[i].kind)
            print_result(r, &r->entry[i]);
    }
    progress_end();
}

static void print_page(struct report *r)
{
    fputs(head, r->out);
    print_machines(r);
    for (size_t i = 0; i < r->entries; i++)
        if (trace_is(r->entry[i].root))
            print_trace(r, &r->entry[i]);
    print_results(r);
    print_others(r);
    fprintf(r->out, "</body>\n</html>\n");
}

/* ---- the command --------------------------------------------------------------------------- */

static size_t shown(const struct report *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->entries; i++)
        n += r->entry[i].kind || trace_is(r->entry[i].root);
    return n;
}

static int write_page(struct report *r, const char *path)
{
    int rc = 0;

    r->out = fopen(path, "we");
    if (!r->out)
        return -errno;
    print_page(r);
    if (ferror(r->out))
        rc = -EIO;
    if (fclose(r->out) != 0 && rc == 0)
        rc = -errno;
    return rc;
}

static void report_free(struct report *r)
{
    for (size_t i = 0; i < r->entries; i++) {
        free(r->entry[i].name);
        json_decref(r->entry[i].root);
    }
}

static int report(int argc, char **argv)
{
    static struct report r;
    const struct command *cmd = &command_report;
    char path[4352] = "";
    int row, rc;

    while ((row = options_next(cmd, argc, argv)) != OPTIONS_END)
        snprintf(path, sizeof(path), "%s", optarg);
    if (optind + 1 != argc)
        fail_usage(cmd, "one folder is needed");
    r.folder = argv[optind];
    if (!path[0])
        snprintf(path, sizeof(path), "%s/report.html", r.folder);
    progress_begin();
    rc = read_folder(&r);
    if (rc != 0) {
        say(cmd, "cannot read %s: %s", r.folder, strerror(-rc));
    } else if (shown(&r) == 0) {
        say(cmd,
            "%s has no result of cutin; store some there, as in `cutin latency --json "
            ">%s/latency.json`",
            r.folder, r.folder);
        rc = -ENOENT;
    } else if ((rc = write_page(&r, path)) != 0) {
        say(cmd, "cannot write %s: %s", path, strerror(-rc));
    } else {
        if (r.why[0])
            say(cmd, "%s", r.why);
        printf("%s\n", path);
    }
    report_free(&r);
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

const struct command command_report = {
    .name = "report",
    .summary = "the results in a folder as one HTML page",
    .synopsis = "[OPTIONS] FOLDER",
    .about =
        "Reads every .json file in FOLDER that latency, overhead or disb printed with --json, and\n"
        "traces, and writes a page with machine, configuration, tables, plots and one cut-in.",
    .options = options,
    .run = report,
};
