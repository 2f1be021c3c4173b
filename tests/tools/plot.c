/*
 * plot.c - plots say what the figures say, and fail in one line that leaves no file.
 */
#include "tools/cutin/report/plot.h"
#include "tests/integration/process.h"
#include "tools/cutin/report/result.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(plot, .init = sandbox_enter, .fini = sandbox_leave);

static const char latency[] =
    "{\"modes\": {\"alone\": {\"p50_us\": 37.0, \"p99_us\": 88.0, \"cdf_us\": [30, 37, 91]},"
    " \"cutin\": {\"p50_us\": 245.0, \"p99_us\": 951.0, \"cdf_us\": [60.5, 245, 953.25]}},"
    " \"added_us\": {}, \"config\": {\"gpu\": \"the GPU\", \"simulated\": true, \"version\": \"1\","
    " \"be_kernel_us\": 200, \"samples\": 3}}";
static const char overhead[] =
    "{\"pass_through\": {}, \"runs\": [{\"threads\": 1,"
    " \"pass_through\": {\"launch\": {\"added_ns_p50\": 53.0}},"
    " \"inline\": {\"launch\": {\"added_ns_p50\": 339.0}}}], \"config\": {\"simulated\": true}}";
static const char ablation[] =
    "{\"rows\": [{\"variant\": \"no-cap\", \"be_kernel_us\": 200, \"added_us\": {\"p50\": 111,"
    " \"p99\": 241}, \"be_throughput_ratio\": 0.97}]}";

static const char disb[] =
    "{\"models\": {}, \"workloads\": {\"W'1\": {\"modes\": {"
    " \"rt-only\": {\"rt\": {\"p50_us\": 2700, \"p99_us\": 2900, \"cdf_us\": [2600, 2700, 2901]},"
    " \"rt_vs_alone\": 1, \"throughput_vs_rt_only\": 1},"
    " \"cutin\": {\"rt\": {\"p50_us\": 2750, \"p99_us\": 3000, \"cdf_us\": [2610, 2750, 3003]},"
    " \"rt_vs_alone\": 1.034, \"throughput_vs_rt_only\": 1.97}}}}, \"config\": {}}";

static json_t *load(const char *text)
{
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);

    cr_assert_not_null(root, "%s", error.text);
    return root;
}

static char *script_of(const char *text)
{
    json_t *root = load(text);
    char *script = NULL;
    size_t size;
    FILE *out = open_memstream(&script, &size);

    cr_assert_not_null(result_kind_of(root));
    result_kind_of(root)->script(root, out);
    fclose(out);
    json_decref(root);
    return script;
}

static void has(const char *script, const char *text)
{
    cr_expect_not_null(strstr(script, text), "no %s in\n%s", text, script);
}

Test(plot, the_scripts_have_the_figures)
{
    char *script = script_of(latency);

    has(script, "'alone: p50 37 us, p99 88 us'");
    has(script, "'cutin: p50 245 us, p99 951 us'");
    has(script, "\n953.250 2\n");
    has(script, "'the GPU (simulated)");
    free(script);
    script = script_of(overhead);
    has(script, " 53\n");
    has(script, " 339\n");
    free(script);
    script = script_of(ablation);
    has(script, "0 111 241 0.97\n");
    has(script, "'no-cap, 200 us'");
    free(script);
    script = script_of(disb);
    has(script, " 1.034 1.034\n");
    has(script, " 1.97 1.97\n");
    has(script, "\n3003.000 2\n");
    has(script, "'W''1'");
    free(script);
}

Test(plot, other_objects_are_no_results_of_ours)
{
    json_t *root = load("{\"modes\": 1, \"x\": [1]}");
    char why[256];

    cr_expect_null(result_kind_of(root));
    cr_expect_eq(plot_write(root, sandbox_path("x.svg"), why, sizeof(why)), -EINVAL);
    cr_expect_neq(access(sandbox_path("x.svg"), F_OK), 0);
    json_decref(root);
}

/* A name in a file of figures cannot end its string and go on as a command. */
Test(plot, names_stay_inside_their_quotes)
{
    char *script =
        script_of("{\"rows\": [{\"variant\": \"a', 0; system('x\\n\", \"be_kernel_us\": 1,"
                  " \"added_us\": {}}]}");

    has(script, "'a'', 0; system(''x , 1 us'");
    free(script);
}

Test(plot, a_file_that_is_neither_png_nor_svg_is_refused)
{
    char why[256];

    cr_expect_eq(plot_check("x.pdf", why, sizeof(why)), -EINVAL);
    cr_expect_not_null(strstr(why, "x.pdf"));
    cr_expect_eq(plot_check(".png", why, sizeof(why)), -EINVAL);
}

Test(plot, without_gnuplot_one_line_says_what_to_install)
{
    json_t *root = load(latency);
    char why[256] = "";

    setenv("PATH", sandbox_folder(), 1);
    cr_expect_eq(plot_check("x.png", why, sizeof(why)), -ENOENT);
    cr_expect_not_null(strstr(why, "gnuplot-nox"));
    cr_expect_eq(plot_write(root, sandbox_path("x.png"), why, sizeof(why)), -ENOENT);
    cr_expect_null(strchr(why, '\n'));
    cr_expect_neq(access(sandbox_path("x.png"), F_OK), 0, "half a file is left");
    json_decref(root);
}

Test(plot, a_gnuplot_that_fails_leaves_no_file)
{
    const char *program = sandbox_path("gnuplot");
    FILE *f = fopen(program, "w");
    json_t *root = load(latency);
    char why[256];

    fputs("#!/bin/sh\necho half\nexit 1\n", f);
    fclose(f);
    chmod(program, 0755);
    setenv("PATH", sandbox_folder(), 1);
    cr_expect_eq(plot_check("x.png", why, sizeof(why)), 0);
    cr_expect_eq(plot_write(root, sandbox_path("x.png"), why, sizeof(why)), -EIO);
    cr_expect_neq(access(sandbox_path("x.png"), F_OK), 0);
    json_decref(root);
}

static void draw(const char *text, const char *name, const char *begins)
{
    json_t *root = load(text);
    char why[256], head[16] = "";
    FILE *f;

    cr_expect_eq(plot_write(root, sandbox_path(name), why, sizeof(why)), 0, "%s", why);
    f = fopen(sandbox_path(name), "r");
    cr_assert_not_null(f);
    cr_expect_gt(fread(head, 1, sizeof(head) - 1, f), 8);
    cr_expect_eq(strncmp(head, begins, strlen(begins)), 0, "%s begins with %s", name, head);
    fclose(f);
    json_decref(root);
}

Test(plot, gnuplot_draws_every_kind)
{
    char why[256];

    if (plot_check("x.png", why, sizeof(why)) != 0)
        cr_skip_test("%s", why);
    draw(latency, "l.png", "\x89PNG");
    draw(latency, "l.svg", "<?xml");
    draw(overhead, "o.svg", "<?xml");
    draw(ablation, "a.svg", "<?xml");
    draw(disb, "d.svg", "<?xml");
}

Test(plot, printed_json_is_the_same_and_numbers_share_a_line)
{
    json_t *root =
        load("{\"a\": [1, 2.5, 3], \"b\": [[1, 2], {\"c\": \"[1, \\\"2]\"}], \"d\": []}");
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    json_t *again;

    cr_expect_eq(result_print(root, out), 0);
    fclose(out);
    again = load(text);
    cr_expect(json_equal(root, again), "%s", text);
    cr_expect_not_null(strstr(text, "[1, 2.5, 3]"), "%s", text);
    free(text);
    json_decref(again);
    json_decref(root);
}
