/*
 * report.c - `cutin report`: the page has the figures of the files, and nothing from outside.
 */
#include "tests/integration/measure/report_files.h"
#include "tests/integration/gpu.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void enter(void)
{
    sandbox_enter();
    mkdir(sandbox_path("results"), 0755);
}

TestSuite(report, .init = enter, .fini = sandbox_leave, .timeout = 600);

/* The page of the folder "results". */
static char *make(void)
{
    struct process *p =
        process_run((const char *[]){CUTIN, "report", sandbox_path("results"), NULL}, NULL, 60);

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    process_free(p);
    return file_text(sandbox_path("results/report.html"));
}

static void has(const char *page, const char *text)
{
    cr_expect_not_null(strstr(page, text), "the page has no %s", text);
}

static void lacks(const char *page, const char *text)
{
    cr_expect_null(strstr(page, text), "the page has %s", text);
}

/* Every number of these members stands in a cell, whole. */
static void has_numbers(const char *page, const json_t *value, const char *const *keys)
{
    const char *key;
    json_t *member;

    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        for (size_t i = 0; keys[i]; i++)
            if (strcmp(key, keys[i]) == 0 && json_is_number(member)) {
                char cell[128], *number = json_dumps(member, JSON_ENCODE_ANY);

                snprintf(cell, sizeof(cell), "<td data-value=\"%s\">", number);
                has(page, cell);
                free(number);
            }
        has_numbers(page, member, keys);
    }
}

Test(report, tables_have_the_figures_of_the_files)
{
    static const char *const latency[] = {"p50_us", "p99_us", "max_us",  "samples",
                                          "p50",    "p99",    "kernels", NULL};
    static const char *const disb[] = {
        "mean_us", "p50_us", "p99_us",  "p999_us", "rt_vs_alone", "throughput_vs_rt_only",
        "p50",     "p99",    "solo_us", NULL};
    json_t *l = json_loads(report_latency, 0, NULL), *d = json_loads(report_disb, 0, NULL);
    char *page;

    report_write(sandbox_path("results/latency.json"), report_latency);
    report_write(sandbox_path("results/disb.json"), report_disb);
    page = make();
    has_numbers(page, json_object_get(l, "modes"), latency);
    has_numbers(page, json_object_get(l, "added_us"), latency);
    has_numbers(page, json_object_get(l, "be"), latency);
    has_numbers(page, json_object_get(d, "workloads"), disb);
    has_numbers(page, json_object_get(d, "models"), disb);
    has(page, "<td data-value=\"245.25\">245.2</td>");
    has(page, "<code>cutin latency --sim</code>");
    has(page, "simulated GPU");
    json_decref(l);
    json_decref(d);
    free(page);
}

Test(report, needs_nothing_from_outside_and_runs_nothing)
{
    char *page, *rest;

    report_write(sandbox_path("results/latency.json"), report_latency);
    report_write(sandbox_path("results/trace.json"), report_trace);
    page = make();
    lacks(page, "<script");
    lacks(page, "src=");
    lacks(page, "@import");
    has(page, "&lt;script&gt;alert(1)&lt;/script&gt;");
    has(page, "A &amp; B &quot;CPU&quot;");
    for (rest = page; (rest = strstr(rest, "http")) != NULL; rest++) /* names, not places */
        cr_expect(strncmp(rest, "http://www.w3.org/", 18) == 0, "%.60s", rest);
    free(page);
}

Test(report, says_which_figures_are_of_an_interrupted_run)
{
    json_t *l = json_loads(report_latency, 0, NULL);
    char *page;

    json_object_set_new(l, "interrupted", json_false());
    cr_assert_eq(json_dump_file(l, sandbox_path("results/latency.json"), 0), 0);
    page = make();
    lacks(page, "interrupted:");
    free(page);
    json_object_set_new(l, "interrupted", json_true());
    cr_assert_eq(json_dump_file(l, sandbox_path("results/latency.json"), 0), 0);
    page = make();
    has(page, "The run was interrupted:");
    json_decref(l);
    free(page);
}

Test(report, draws_a_cut_in_of_a_trace)
{
    char *page;

    report_write(sandbox_path("results/trace.json"), report_trace);
    page = make();
    has(page, "class=\"timeline\"");
    has(page, "<title>active, 500.0 us from 0.0 us on</title>");
    has(page, "<title>held, 480.0 us from 10.0 us on</title>");
    has(page, "<title>gemm&lt;4&gt;, 300.0 us from 100.0 us on</title>");
    has(page, "&lt;train&gt; (be)");
    lacks(page, "far away");
    free(page);
}

Test(report, names_files_that_it_does_not_show)
{
    char *page;

    report_write(sandbox_path("results/disb.json"), report_disb);
    report_write(sandbox_path("results/empty.json"), "{}");
    report_write(sandbox_path("results/half.json"), "{\"modes\": {");
    report_write(sandbox_path("results/quiet.json"), "{\"traceEvents\": []}");
    page = make();
    has(page, "empty.json, half.json.");
    has(page, "no cut-in");
    free(page);
}

Test(report, goes_on_without_gnuplot)
{
    char *page;
    struct process *p;

    report_write(sandbox_path("results/latency.json"), report_latency);
    p = process_run((const char *[]){CUTIN, "report", sandbox_path("results"), NULL},
                    (const char *[]){"PATH=/nonexistent", NULL}, 60);
    cr_expect_eq(p->status, 0);
    cr_expect_not_null(strstr(process_err(p), "gnuplot-nox"), "%s", process_err(p));
    process_free(p);
    page = file_text(sandbox_path("results/report.html"));
    has(page, "gnuplot-nox");
    has(page, "<td data-value=\"951.5\">");
    free(page);
}

Test(report, a_folder_without_results_is_one_line_and_no_page)
{
    struct process *p =
        process_run((const char *[]){CUTIN, "report", sandbox_path("results"), NULL}, NULL, 60);

    cr_expect_eq(p->status, 1);
    cr_expect_not_null(strstr(process_err(p), "no result"), "%s", process_err(p));
    cr_expect_neq(access(sandbox_path("results/report.html"), F_OK), 0);
    process_free(p);
    p = process_run((const char *[]){CUTIN, "report", sandbox_path("nowhere"), NULL}, NULL, 60);
    cr_expect_eq(p->status, 1);
    cr_expect_not_null(strstr(process_err(p), "nowhere"), "%s", process_err(p));
    process_free(p);
}
