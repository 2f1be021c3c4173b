/*
 * report_browser.c - a real browser opens the page of `cutin report`, and has nothing to complain of.
 */
#include "tests/integration/measure/report_files.h"
#include "tests/integration/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(report_browser, .init = sandbox_enter, .fini = sandbox_leave, .timeout = 600);

/* What the browser makes of the file; its console comes with the messages on stderr. */
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

Test(report_browser, opens_the_page_without_a_complaint)
{
    struct process *p;

    needs_chromium();
    mkdir(sandbox_path("results"), 0755);
    report_write(sandbox_path("results/latency.json"), report_latency);
    report_write(sandbox_path("results/disb.json"), report_disb);
    report_write(sandbox_path("results/trace.json"), report_trace);
    p = process_run((const char *[]){CUTIN, "report", sandbox_path("results"), NULL}, NULL, 60);
    cr_assert_eq(p->status, 0, "%s", process_err(p));
    process_free(p);
    p = browse(sandbox_path("results/report.html"));
    cr_assert_eq(p->status, 0, "status %d, %s", p->status, process_err(p));
    cr_expect_null(strstr(process_err(p), "CONSOLE"), "%s", process_err(p));
    cr_expect_not_null(strstr(process_out(p), "<td data-value=\"951.5\">951.5</td>"));
    cr_expect_not_null(strstr(process_out(p), "<td data-value=\"1.034\">1.03</td>"));
    cr_expect_not_null(strstr(process_out(p), "class=\"timeline\""));
    cr_expect_not_null(strstr(process_out(p), "</html>"));
    process_free(p);
}

/* The check above can fail: a page that throws is noticed. */
Test(report_browser, a_page_with_an_error_is_noticed)
{
    struct process *p;

    needs_chromium();
    report_write(sandbox_path("bad.html"), "<html><script>nothing.there()</script></html>");
    p = browse(sandbox_path("bad.html"));
    cr_expect_not_null(strstr(process_err(p), "CONSOLE"), "%s", process_err(p));
    process_free(p);
}
