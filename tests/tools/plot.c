/*
 * plot.c - plots show what the figures say; a failure is one line and leaves no file.
 */
#include "tests/integration/process.h"
#include "tools/cutin/result.h"
#include "tools/lab/report/plot.h"

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
    plot_figures(out, result_kind_of(root), root);
    fclose(out);
    json_decref(root);
    return script;
}

static void has(const char *script, const char *text)
{
    cr_expect_not_null(strstr(script, text), "no %s in\n%s", text, script);
}

Test(plot, scripts_contain_the_figures)
{
    char *script = script_of(latency);

    has(script, "array MEMBER[2] = ['alone', 'cutin']\n");
    has(script, "\n3 245.000000000 951.000000000\n");
    has(script, "\n953.250 2\n");
    has(script, "config_gpu = 'the GPU'\n");
    has(script, "config_simulated = 1\n");
    has(script, "config_be_kernel_us = 200\n");
    free(script);
    script = script_of(overhead);
    has(script, "array GROUP[1] = ['1']\n");
    has(script, "array MEMBER[2] = ['pass_through', 'inline']\n");
    has(script, "\n0 53.000000000 NaN NaN\n0 339.000000000 NaN NaN\n");
    free(script);
    script = script_of(ablation);
    has(script, "array MEMBER[1] = ['no-cap']\n");
    has(script, "\n0 111.000000000 241.000000000 0.970000000 200.000000000\n");
    free(script);
    script = script_of(disb);
    has(script, "array GROUP[1] = ['W''1']\n");
    has(script, "\n3 1.034000000 1.970000000\n");
    has(script, "\n3003.000 2\n");
    free(script);
}

Test(plot, unknown_json_object_is_refused)
{
    json_t *root = load("{\"modes\": 1, \"x\": [1]}");
    char why[256];

    cr_expect_null(result_kind_of(root));
    cr_expect_eq(plot_write(result_kind_of(root), root, sandbox_path("x.svg"), why, sizeof(why)),
                 -EINVAL);
    cr_expect_neq(access(sandbox_path("x.svg"), F_OK), 0);
    json_decref(root);
}

/* A name in a file of figures cannot end its string and continue as a command. */
Test(plot, names_stay_inside_their_quotes)
{
    char *script =
        script_of("{\"rows\": [{\"variant\": \"a', 0; system('x\\n\", \"be_kernel_us\": 1,"
                  " \"added_us\": {}}]}");

    has(script, "array MEMBER[1] = ['a'', 0; system(''x ']\n");
    free(script);
    script = script_of("{\"rows\": [{\"variant\": \"a\", \"added_us\": {}}],"
                       " \"config\": {\"x = system('y')\": 1, \"gpu\": \"`date`\\nEND\"}}");
    cr_expect_null(strstr(script, "system"), "%s", script);
    has(script, "config_gpu = '`date` END'\n");
    free(script);
}

Test(plot, a_file_that_is_neither_png_nor_svg_is_refused)
{
    static const char *const names[] = {"x.pdf", ".png"};
    json_t *root = load(latency);
    char why[256];

    for (int i = 0; i < 2; i++) {
        cr_expect_eq(plot_write(result_kind_of(root), root, names[i], why, sizeof(why)), -EINVAL);
        cr_expect_not_null(strstr(why, names[i]));
    }
    json_decref(root);
}

Test(plot, error_without_gnuplot_names_the_package)
{
    json_t *root = load(latency);
    char why[256] = "";

    setenv("PATH", sandbox_folder(), 1);
    cr_expect_eq(plot_write(result_kind_of(root), root, sandbox_path("x.png"), why, sizeof(why)),
                 -ENOENT);
    cr_expect_not_null(strstr(why, "gnuplot-nox"));
    cr_expect_null(strchr(why, '\n'));
    cr_expect_neq(access(sandbox_path("x.png"), F_OK), 0, "half a file is left");
    json_decref(root);
}

Test(plot, failing_gnuplot_leaves_no_file)
{
    const char *program = sandbox_path("gnuplot");
    FILE *f = fopen(program, "w");
    json_t *root = load(latency);
    char why[256];

    fputs("#!/bin/sh\necho half\nexit 1\n", f);
    fclose(f);
    chmod(program, 0755);
    setenv("PATH", sandbox_folder(), 1);
    cr_expect_eq(plot_write(result_kind_of(root), root, sandbox_path("x.png"), why, sizeof(why)),
                 -EIO);
    cr_expect_neq(access(sandbox_path("x.png"), F_OK), 0);
    json_decref(root);
}

static char *draw(const char *text, const char *name, const char *begins)
{
    json_t *root = load(text);
    char why[256], *drawn;

    cr_expect_eq(plot_write(result_kind_of(root), root, sandbox_path(name), why, sizeof(why)), 0,
                 "%s", why);
    drawn = file_text(sandbox_path(name));
    cr_expect_eq(strncmp(drawn, begins, strlen(begins)), 0, "%s begins with %.8s", name, drawn);
    json_decref(root);
    return drawn;
}

static void draw_and_find(const char *text, const char *name, const char *const *labels)
{
    char *drawn = draw(text, name, "<?xml");

    for (; *labels; labels++)
        has(drawn, *labels);
    free(drawn);
}

Test(plot, gnuplot_draws_every_kind_of_result)
{
    if (system("command -v gnuplot >/dev/null") != 0)
        cr_skip_test("no gnuplot here");
    free(draw(latency, "l.png", "\x89PNG"));
    draw_and_find(latency, "l.svg",
                  (const char *[]){"alone: p50 37 us, p99 88 us<", "cutin: p50 245 us, p99 951 us<",
                                   "kernels of 200 us, 3 samples each<",
                                   "the GPU (simulated), cutin 1<", NULL});
    draw_and_find(overhead, "o.svg",
                  (const char *[]){"1 thread<", ">53<", ">339<", "simulated GPU, cutin <", NULL});
    draw_and_find(ablation, "a.svg",
                  (const char *[]){"no-cap, 200 us<", "> 111<", "> 241<", "> 0.97<", NULL});
    draw_and_find(disb, "d.svg",
                  (const char *[]){">1.03<", ">1.97<", ">W'1<", "W'1: real-time latency", NULL});
}

Test(plot, printed_json_is_equal_and_keeps_numbers_on_one_line)
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
