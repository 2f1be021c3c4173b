/*
 * report.c - `cutin-lab report`: the page has the figures of the files, and loads nothing from
 * outside. report_browser.c tests what its script makes of them in a browser.
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

TestSuite(report, .init = enter, .fini = sandbox_leave);

/* Makes the page of the folder "results". */
static char *make(void)
{
    struct process *p =
        process_run((const char *[]){LAB, "report", sandbox_path("results"), NULL}, NULL, 60);

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

/* The figures that the page's script draws. */
static json_t *figures_of(const char *page)
{
    static const char begin[] = "id=\"figures\">";
    const char *from = strstr(page, begin), *to = from ? strstr(from, "</script>") : NULL;
    json_t *figures;

    cr_assert_not_null(to);
    from += strlen(begin);
    figures = json_loadb(from, (size_t)(to - from), 0, NULL);
    cr_assert_not_null(figures);
    return figures;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static void has_figures(const json_t *result, const char *file, const char *kind, const char *text)
{
    json_t *figures = json_loads(text, 0, NULL);

    cr_expect_str_eq(text_at(result, "file"), file);
    cr_expect_str_eq(text_at(result, "kind"), kind);
    cr_expect(json_equal(json_object_get(result, "figures"), figures), "of %s", file);
    json_decref(figures);
}

Test(report, has_the_figures_of_the_files)
{
    json_t *figures, *results, *texts;
    char *page;

    report_write(sandbox_path("results/latency.json"), report_latency);
    report_write(sandbox_path("results/disb.json"), report_disb);
    page = make();
    figures = figures_of(page);
    results = json_object_get(figures, "results");
    cr_assert_eq(json_array_size(results), 2);
    has_figures(json_array_get(results, 0), "disb.json", "disb", report_disb);
    has_figures(json_array_get(results, 1), "latency.json", "latency", report_latency);
    texts = json_object_get(json_array_get(results, 1), "texts");
    cr_expect_str_eq(text_at(texts, "command"), "cutin latency --sim");
    cr_expect_str_eq(text_at(texts, "simulated"), "true");
    cr_expect_str_eq(text_at(json_object_get(texts, "machine"), "cpus"), "2");
    json_decref(figures);
    free(page);
}

Test(report, page_loads_nothing_and_escapes_scripts)
{
    char *page, *rest;
    int scripts = 0;

    report_write(sandbox_path("results/latency.json"), report_latency);
    report_write(sandbox_path("results/trace.json"), report_trace);
    report_write(sandbox_path("results/<script>.json"), "{}");
    page = make();
    for (rest = page; (rest = strstr(rest, "<script")); rest++)
        scripts++;
    cr_expect_eq(scripts, 2, "the figures and our own, not %d", scripts);
    lacks(page, "src=");
    lacks(page, "@import");
    has(page, "default-src 'none'");
    has(page, "\\u003cscript>alert(1)\\u003c/script>");
    for (rest = page; (rest = strstr(rest, "http")); rest++) /* only names of formats */
        cr_expect(strncmp(rest, "http://www.w3.org/", 18) == 0 ||
                      strncmp(rest, "http-equiv", 10) == 0,
                  "%.60s", rest);
    free(page);
}

Test(report, shows_events_around_cut_in_of_trace)
{
    static const char *const names[] = {"active", "held", "gemm<4>"};
    json_t *figures, *trace, *slices;
    char *page;

    report_write(sandbox_path("results/trace.json"), report_trace);
    page = make();
    figures = figures_of(page);
    trace = json_array_get(json_object_get(figures, "traces"), 0);
    slices = json_object_get(json_object_get(trace, "cut_in"), "slices");
    cr_expect_str_eq(text_at(trace, "file"), "trace.json");
    cr_assert_eq(json_array_size(slices), 3);
    for (size_t i = 0; i < 3; i++)
        cr_expect_str_eq(text_at(json_array_get(slices, i), "name"), names[i]);
    lacks(page, "far away");
    json_decref(figures);
    free(page);
}

Test(report, names_files_that_it_does_not_show)
{
    json_t *figures, *expected = json_pack("[s, s, s]", "?", "empty.json", "half.json"), *quiet;
    char *page;

    report_write(sandbox_path("results/disb.json"), report_disb);
    report_write(sandbox_path("results/\xff.json"), "{}");
    report_write(sandbox_path("results/empty.json"), "{}");
    report_write(sandbox_path("results/half.json"), "{\"modes\": {");
    report_write(sandbox_path("results/quiet.json"), "{\"traceEvents\": []}");
    page = make();
    figures = figures_of(page);
    quiet = json_array_get(json_object_get(figures, "traces"), 0);
    cr_expect_str_eq(text_at(quiet, "file"), "quiet.json");
    cr_expect_null(json_object_get(quiet, "cut_in"));
    cr_expect_eq(json_array_size(json_object_get(figures, "others")), 3);
    for (size_t i = 0; i < 3; i++) {
        const char *name = json_string_value(json_array_get(expected, i));
        bool found = false;

        for (size_t k = 0; k < 3; k++)
            found |= json_equal(json_array_get(json_object_get(figures, "others"), k),
                                json_array_get(expected, i));
        cr_expect(found, "%s", name);
    }
    json_decref(expected);
    json_decref(figures);
    free(page);
}

Test(report, goes_on_without_gnuplot)
{
    char *page;
    struct process *p;

    report_write(sandbox_path("results/latency.json"), report_latency);
    p = process_run((const char *[]){LAB, "report", sandbox_path("results"), NULL},
                    (const char *[]){"PATH=/nonexistent", NULL}, 60);
    cr_expect_eq(p->status, 0);
    cr_expect_not_null(strstr(process_err(p), "gnuplot-nox"), "%s", process_err(p));
    process_free(p);
    page = file_text(sandbox_path("results/report.html"));
    has(page, "gnuplot-nox");
    has(page, "951.5");
    free(page);
}

/* `cutin-lab` of the sandbox, which looks for its files beside itself, fails with these words. */
static void fails_with(const char *words)
{
    struct process *p = process_run(
        (const char *[]){sandbox_path("bin/cutin-lab"), "report", sandbox_path("results"), NULL},
        (const char *[]){"LC_ALL=C", NULL}, 60);

    process_failed(p, words);
    cr_expect_neq(access(sandbox_path("results/report.html"), F_OK), 0, "half a page is left");
    process_free(p);
}

static void run_ok(const char *const argv[])
{
    struct process *p = process_run(argv, NULL, 60);

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    process_free(p);
}

Test(report, missing_installed_file_is_named_and_leaves_no_page)
{
    report_write(sandbox_path("results/latency.json"), report_latency);
    mkdir(sandbox_path("bin"), 0755);
    run_ok((const char *[]){"cp", LAB, sandbox_path("bin/cutin-lab"), NULL});
    fails_with("share/cutin/report/page.html: No such file");
    run_ok((const char *[]){"cp", "-r", BUILD_FOLDER "/share", sandbox_path("share"), NULL});
    cr_assert_eq(unlink(sandbox_path("share/cutin/report/script.js")), 0);
    fails_with("share/cutin/report/script.js: No such file");
}

Test(report, folder_without_results_fails_and_leaves_no_page)
{
    struct process *p =
        process_run((const char *[]){LAB, "report", sandbox_path("results"), NULL}, NULL, 60);

    process_failed(p, "no result");
    cr_expect_neq(access(sandbox_path("results/report.html"), F_OK), 0);
    process_free(p);
    p = process_run((const char *[]){LAB, "report", sandbox_path("nowhere"), NULL}, NULL, 60);
    process_failed(p, "nowhere");
    process_free(p);
}
