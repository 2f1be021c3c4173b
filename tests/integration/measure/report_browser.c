/*
 * report_browser.c - a real browser opens the page of `cutin-lab report`, draws the figures of the
 * files, and reports no error.
 */
#include "tests/integration/measure/report_files.h"
#include "tests/integration/gpu.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(report_browser, .init = sandbox_enter, .fini = sandbox_leave);

/* The document that the browser makes of the file; its console's messages are on stderr. */
static struct process *browse(const char *path)
{
    char profile[512], url[512];

    snprintf(profile, sizeof(profile), "--user-data-dir=%s", sandbox_path("profile"));
    snprintf(url, sizeof(url), "file://%s", path);
    return process_run((const char *[]){"chromium", "--headless", "--no-sandbox", "--disable-gpu",
                                        "--disable-extensions", "--no-first-run", profile,
                                        "--enable-logging=stderr", "--dump-dom", url, NULL},
                       NULL, 90);
}

static void needs_chromium(void)
{
    struct process *p = process_run((const char *[]){"chromium", "--version", NULL}, NULL, 30);
    int status = p->status;

    process_free(p);
    if (status != 0)
        cr_skip_test("no chromium here");
}

/* Makes the page of the folder "results" and shows it in a browser. */
static struct process *show(void)
{
    struct process *p =
        process_run((const char *[]){LAB, "report", sandbox_path("results"), NULL}, NULL, 60);

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    process_free(p);
    p = browse(sandbox_path("results/report.html"));
    cr_assert_eq(p->status, 0, "status %d, %s", p->status, process_err(p));
    cr_expect_null(strstr(process_err(p), "CONSOLE"), "%s", process_err(p));
    return p;
}

static void has(struct process *p, const char *text)
{
    cr_expect_not_null(strstr(process_out(p), text), "the page has no %s", text);
}

static void lacks(struct process *p, const char *text)
{
    cr_expect_null(strstr(process_out(p), text), "the page has %s", text);
}

static bool has_cell(const char *page, double value)
{
    static const char begin[] = "<td data-value=\"";

    while ((page = strstr(page, begin))) {
        page += strlen(begin);
        if (strtod(page, NULL) == value)
            return true;
    }
    return false;
}

/* Every number of these members is in a cell, unrounded. */
static void has_numbers(const char *page, json_t *value, const char *const *keys)
{
    const char *key;
    json_t *member;

    json_object_foreach(value, key, member)
    {
        for (size_t i = 0; keys[i]; i++)
            if (strcmp(key, keys[i]) == 0 && json_is_number(member))
                cr_expect(has_cell(page, json_number_value(member)), "no cell with %s, %g", key,
                          json_number_value(member));
        has_numbers(page, member, keys);
    }
}

Test(report_browser, tables_have_the_figures_of_the_files)
{
    static const char *const latency[] = {"p50_us", "p99_us", "max_us",  "samples",
                                          "p50",    "p99",    "kernels", NULL};
    static const char *const disb[] = {
        "mean_us", "p50_us", "p99_us",  "p999_us", "rt_vs_alone", "throughput_vs_rt_only",
        "p50",     "p99",    "solo_us", NULL};
    json_t *l = json_loads(report_latency, 0, NULL), *d = json_loads(report_disb, 0, NULL);
    struct process *p;

    needs_chromium();
    mkdir(sandbox_path("results"), 0755);
    report_write(sandbox_path("results/latency.json"), report_latency);
    report_write(sandbox_path("results/disb.json"), report_disb);
    p = show();
    has_numbers(process_out(p), json_object_get(l, "modes"), latency);
    has_numbers(process_out(p), json_object_get(l, "added_us"), latency);
    has_numbers(process_out(p), json_object_get(l, "be"), latency);
    has_numbers(process_out(p), json_object_get(d, "workloads"), disb);
    has_numbers(process_out(p), json_object_get(d, "models"), disb);
    cr_expect_not(has_cell(process_out(p), 951.25), "the check of cells can fail");
    has(p, "<td data-value=\"951.5\">951.5</td>");
    has(p, "<td data-value=\"1.034\">1.03</td>");
    has(p, "<td data-value=\"245.25\">245.2</td>"); /* rounded as C rounds */
    has(p, "<td data-value=\"88.75\">88.8</td>");
    has(p, "<td>–</td>");
    has(p, "<code>cutin latency --sim</code> in latency.json</p>");
    has(p, "<p class=\"notice\">Measured on the simulated GPU");
    has(p, "<p>Best-effort result: identical</p>");
    has(p, "<td class=\"text\">&lt;script&gt;alert(1)&lt;/script&gt;</td>");
    has(p, "<td class=\"text\">A &amp; B \"CPU\"</td>");
    lacks(p, "<p class=\"notice\">The run was interrupted");
    lacks(p, "<h2>Other files</h2>");
    has(p, "</html>");
    process_free(p);
    json_decref(l);
    json_decref(d);
}

Test(report_browser, draws_plots)
{
    struct process *p;

    needs_chromium();
    if (system("command -v gnuplot >/dev/null") != 0)
        cr_skip_test("no gnuplot here");
    mkdir(sandbox_path("results"), 0755);
    report_write(sandbox_path("results/latency.json"), report_latency);
    p = show();
    has(p, "<div class=\"plot\"><svg ");
    has(p, "cutin: p50 245 us, p99 952 us</text>");
    process_free(p);
}

Test(report_browser, draws_a_cut_in_of_a_trace)
{
    struct process *p;

    needs_chromium();
    mkdir(sandbox_path("results"), 0755);
    report_write(sandbox_path("results/trace.json"), report_trace);
    p = show();
    has(p, "class=\"timeline\"");
    has(p, "<title>active, 500.0 us from 0.0 us on</title>");
    has(p, "<title>held, 480.0 us from 10.0 us on</title>");
    has(p, "<title>gemm&lt;4&gt;, 300.0 us from 100.0 us on</title>");
    has(p, "fill=\"#000\">gemm&lt;4&gt;</text>");
    has(p, "serve (rt), thread 70</text>");
    has(p, "&lt;train&gt; (be), thread 80</text>");
    lacks(p, "far away");
    process_free(p);
}

Test(report_browser, page_shows_notices_for_incomplete_results)
{
    json_t *l = json_loads(report_latency, 0, NULL);
    struct process *p;

    needs_chromium();
    mkdir(sandbox_path("results"), 0755);
    json_object_set_new(l, "interrupted", json_true());
    cr_assert_eq(json_dump_file(l, sandbox_path("results/latency.json"), 0), 0);
    report_write(sandbox_path("results/empty.json"), "{}");
    report_write(sandbox_path("results/half.json"), "{\"modes\": {");
    report_write(sandbox_path("results/quiet.json"), "{\"traceEvents\": []}");
    p = show();
    has(p, "<p class=\"notice\">The run was interrupted:");
    has(p, "<p>The trace has no cut-in that held other work.</p>");
    has(p, "no results of cutin: empty.json, half.json.</p>");
    process_free(p);
    json_decref(l);
}

/* The checks above can fail: a page that throws an exception is noticed. */
Test(report_browser, script_error_in_page_is_detected)
{
    struct process *p;

    needs_chromium();
    report_write(sandbox_path("bad.html"), "<html><script>nothing.there()</script></html>");
    p = browse(sandbox_path("bad.html"));
    cr_expect_not_null(strstr(process_err(p), "CONSOLE"), "%s", process_err(p));
    process_free(p);
}
