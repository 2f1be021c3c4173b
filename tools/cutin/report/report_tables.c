/*
 * report_tables.c - figures as HTML tables. A cell shows a rounded figure and carries the whole one.
 */
#include "report.h"
#include "result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct column {
    const char *heading, *path; /* of a row's object */
    int decimals;
};

void html_text(FILE *out, const char *text)
{
    for (; text && *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
}

static void print_cell(FILE *out, const json_t *value, int decimals)
{
    char *whole = json_is_number(value) ? json_dumps(value, JSON_ENCODE_ANY) : NULL;

    if (whole)
        fprintf(out, "<td data-value=\"%s\">%.*f</td>", whole, decimals, json_number_value(value));
    else
        fprintf(out, "<td>&ndash;</td>");
    free(whole);
}

/* A row for every member of `rows`. */
static void print_table(FILE *out, const char *caption, const char *what, json_t *rows,
                        const struct column *columns, size_t n)
{
    const char *name;
    json_t *row;

    fprintf(out, "<table><caption>");
    html_text(out, caption);
    fprintf(out, "</caption>\n<tr><th>%s</th>", what);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "<th>%s</th>", columns[i].heading);
    fprintf(out, "</tr>\n");
    json_object_foreach(rows, name, row)
    {
        fprintf(out, "<tr><th>");
        html_text(out, name);
        fprintf(out, "</th>");
        for (size_t i = 0; i < n; i++)
            print_cell(out, result_get(row, columns[i].path), columns[i].decimals);
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</table>\n");
}

#define PRINT_TABLE(out, caption, what, rows, columns)                                             \
    print_table(out, caption, what, rows, columns, sizeof(columns) / sizeof((columns)[0]))

/* ---- the kinds ----------------------------------------------------------------------------- */

static void latency_tables(FILE *out, const json_t *root)
{
    static const struct column modes[] = {
#define COLUMN(field, heading, percent) {heading, #field, 1},
        FIGURES(COLUMN)
#undef COLUMN
            {"samples", "samples", 0},
    };
    static const struct column added[] = {{"p50", "p50", 1}, {"p99", "p99", 1}};
    static const struct column rates[] = {
        {"kernels/s", "kernels_per_s", 0}, {"kernels", "kernels", 0}, {"seconds", "seconds", 1}};
    json_t *be = json_object(), *value;
    const char *name, *sum = json_string_value(result_get(root, "be.checksum"));

    PRINT_TABLE(out, "Real-time latency, microseconds", "mode", result_get(root, "modes"), modes);
    PRINT_TABLE(out, "Added to alone, microseconds", "mode", result_get(root, "added_us"), added);
    json_object_foreach(result_get(root, "be"), name, value)
    {
        if (json_is_object(value))
            json_object_set(be, name, value);
    }
    PRINT_TABLE(out, "Best effort; solo: with nobody above", "mode", be, rates);
    if (sum) {
        fprintf(out, "<p>Best-effort result: ");
        html_text(out, sum);
        fprintf(out, "</p>\n");
    }
    json_decref(be);
}

/* The run's members are modes of calls; a row is a call of modes. */
static json_t *by_call(const json_t *run)
{
    json_t *rows = json_object(), *mode, *figures;
    const char *mode_name, *call;

    json_object_foreach((json_t *)(uintptr_t)run, mode_name, mode)
    {
        json_object_foreach(mode, call, figures)
        {
            if (!json_object_get(rows, call))
                json_object_set_new(rows, call, json_object());
            json_object_set(json_object_get(rows, call), mode_name, figures);
        }
    }
    return rows;
}

static void overhead_tables(FILE *out, const json_t *root)
{
    static const struct column columns[] = {
        {"bare p50", "bare.ns_p50", 0},
        {"p99", "bare.ns_p99", 0},
        {"passed through p50", "pass_through.added_ns_p50", 0},
        {"p99", "pass_through.added_ns_p99", 0},
        {"inline p50", "inline.added_ns_p50", 0},
        {"p99", "inline.added_ns_p99", 0},
        {"buffered p50", "buffered.added_ns_p50", 0},
        {"p99", "buffered.added_ns_p99", 0},
    };
    char caption[128];
    json_t *run;
    size_t i;

    json_array_foreach(result_get(root, "runs"), i, run)
    {
        json_t *rows = by_call(run);

        snprintf(caption, sizeof(caption),
                 "ns per call with %.0f thread%s: bare, and what is added to it",
                 json_number_value(result_get(run, "threads")),
                 json_number_value(result_get(run, "threads")) > 1 ? "s" : "");
        PRINT_TABLE(out, caption, "call", rows, columns);
        json_decref(rows);
    }
}

static void disb_tables(FILE *out, const json_t *root)
{
    static const struct column modes[] = {
        {"mean", "rt.mean_us", 0},
        {"p50", "rt.p50_us", 0},
        {"p99", "rt.p99_us", 0},
        {"p99.9", "rt.p999_us", 0},
        {"p99 &times; rt-only", "rt_vs_alone", 2},
        {"requests/s", "throughput_per_s", 1},
        {"&times; rt-only", "throughput_vs_rt_only", 2},
        {"&times; streams", "throughput_vs_streams", 2},
        {"preempt. p50", "preempt_us.p50", 0},
        {"p99", "preempt_us.p99", 0},
        {"samples", "rt.samples", 0},
        {"unserved", "rt_unserved", 0},
    };
    static const struct column models[] = {{"kernels", "kernels", 0}, {"solo us", "solo_us", 0}};
    char caption[160];
    const char *name;
    json_t *workload;

    json_object_foreach(result_get(root, "workloads"), name, workload)
    {
        snprintf(caption, sizeof(caption),
                 "Workload %s: real-time latency in microseconds, requests "
                 "of all clients, preemption latency",
                 name);
        PRINT_TABLE(out, caption, "mode", json_object_get(workload, "modes"), modes);
    }
    PRINT_TABLE(out, "Models", "model", result_get(root, "models"), models);
}

static void ablation_tables(FILE *out, const json_t *root)
{
    static const struct column columns[] = {
        {"added p50, us", "added_us.p50", 1},
        {"added p99, us", "added_us.p99", 1},
        {"best effort &times; native", "be_throughput_ratio", 2}};
    json_t *rows = result_get(root, "rows"), *named = json_object(), *row;
    char label[160];
    size_t i;

    json_array_foreach(rows ? rows : result_get(root, "ablation"), i, row)
    {
        const char *variant = json_string_value(result_get(row, "variant"));

        snprintf(label, sizeof(label), "%s, %.0f us", variant ? variant : "",
                 json_number_value(result_get(row, "be_kernel_us")));
        json_object_set(named, label, row);
    }
    PRINT_TABLE(out, "Variants, by duration of the best-effort kernels", "variant", named, columns);
    json_decref(named);
}

void report_tables(FILE *out, const char *kind, const json_t *root)
{
    static const struct {
        const char *kind;
        void (*print)(FILE *out, const json_t *root);
    } tables[] = {{"latency", latency_tables},
                  {"overhead", overhead_tables},
                  {"disb", disb_tables},
                  {"ablation", ablation_tables}};

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        if (strcmp(tables[i].kind, kind) == 0)
            tables[i].print(out, root);
}
