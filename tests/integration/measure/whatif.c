/*
 * whatif.c - `cutin-lab whatif`: a recording goes in, and every option changes the result.
 */
#include "tests/integration/gpu.h"
#include "tools/lab/record/workload.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

TestSuite(whatif, .init = sandbox_enter, .fini = sandbox_leave);

/* Records 20 requests of 20 kernels of 50 us and more. */
static const char *record(void)
{
    const char *file = sandbox_path("w.cutw");
    struct process *p = process_run((const char *[]){LAB, "record", "--sim", "-o", file, "--",
                                                     EXAMPLE("rt_inference"), "--requests", "20",
                                                     "--kernels", "20", "--kernel-us", "50", NULL},
                                    NULL, 60);

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    process_free(p);
    return file;
}

enum { US = 1000, PERIOD_US = 10000, REQUESTS = 20, KERNELS = 20 };

static void call(struct workload *w, struct workload_op op, uint64_t at_us)
{
    op.at_ns = at_us * US;
    cr_assert_eq(workload_add(w, &op), 0);
}

/* What `record` would write on a host that is never late. On a busy one the time between calls can
 * hide all that the device is slower by. */
static const char *punctual_of(uint32_t blocks)
{
    const char *path = sandbox_path(blocks > 1 ? "wide.cutw" : "punctual.cutw");
    struct workload w = {0};
    struct workload_op in = {.kind = WORKLOAD_COPY, .bytes = 1024, .duration_ns = 4 * US},
                       out = {.kind = WORKLOAD_COPY,
                              .bytes = 1024,
                              .duration_ns = 4 * US,
                              .direction = WORKLOAD_TO_HOST},
                       mix = {.kind = WORKLOAD_KERNEL,
                              .duration_ns = 53 * US,
                              .grid = {blocks, 1, 1},
                              .block = {256, 1, 1}},
                       done = {.kind = WORKLOAD_SYNC, .duration_ns = 1000 * US};
    char why[256];

    cr_assert_eq(workload_kernel(&w, "mix"), 0);
    for (uint64_t i = 0; i < REQUESTS; i++) {
        call(&w, in, i * PERIOD_US);
        for (uint64_t k = 0; k < KERNELS; k++)
            call(&w, mix, i * PERIOD_US + 20 + 3 * k);
        call(&w, out, i * PERIOD_US + 20 + 3 * KERNELS);
        call(&w, done, i * PERIOD_US + 25 + 3 * KERNELS);
    }
    cr_assert_eq(workload_write(&w, path, why, sizeof(why)), 0, "%s", why);
    workload_free(&w);
    return path;
}

static const char *punctual(void)
{
    return punctual_of(1);
}

static json_t *predict(const char *const argv[])
{
    struct process *p = process_run(argv, NULL, 300);
    json_t *root;

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    cr_expect_str_eq(process_err(p), "");
    root = json_loads(process_out(p), 0, NULL);
    cr_assert_not_null(root, "%s", process_out(p));
    process_free(p);
    return root;
}

#define WHATIF(...) predict((const char *[]){LAB, "whatif", "--json", __VA_ARGS__, NULL})

static json_t *machine(json_t *root, size_t i)
{
    return json_array_get(json_object_get(root, "machines"), i);
}

static double number(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    cr_assert(json_is_number(value), "%s", key);
    return json_number_value(value);
}

/* The slowdown of the last machine; releases `root`. */
static double slowdown(json_t *root)
{
    size_t n = json_array_size(json_object_get(root, "machines"));
    double x;

    cr_assert_geq(n, 2);
    cr_expect_eq(number(machine(root, 0), "slowdown"), 1);
    x = number(machine(root, n - 1), "slowdown");
    json_decref(root);
    return x;
}

Test(whatif, unchanged_machine_predicts_the_recording)
{
    json_t *root = WHATIF(record());

    /* The recording contains the times by which a busy host woke late. The model does not, but it
     * has at least the kernels. */
    cr_expect_leq(number(root, "modelled_s"), 1.02 * number(root, "recorded_s"));
    cr_expect_geq(number(root, "modelled_s"), REQUESTS * KERNELS * 50e-6);
    cr_expect_eq(slowdown(root), 1);
    root = WHATIF(punctual());
    cr_expect_float_eq(number(root, "modelled_s"), number(root, "recorded_s"), 1e-4, "%.6f %.6f",
                       number(root, "modelled_s"), number(root, "recorded_s"));
    json_decref(root);
}

Test(whatif, distance_tags_speed_and_size_change_the_times)
{
    const char *f = punctual(), *wide = punctual_of(8640); /* ten times what the GPU holds */
    double near = slowdown(WHATIF("--rtt", "8us", f)), far = slowdown(WHATIF("--rtt", "19us", f));

    cr_expect_gt(near, 1);
    cr_expect_gt(far, near);
    cr_expect_eq(slowdown(WHATIF("--rtt", "1200ns", f)), 1, "where it was");
    cr_expect_eq(slowdown(WHATIF("--rtt", "8", "--native-rtt", "0.008ms", f)), 1);
    cr_expect_gt(slowdown(WHATIF("--rtt", "8us", "--tags", "1", "--request-bytes", "32", f)), near);
    cr_expect_lt(slowdown(WHATIF("--speed", "4", f)), 1);
    cr_expect_gt(slowdown(WHATIF("--speed", "0.25", f)), 1);
    cr_expect_lt(slowdown(WHATIF("--host-speed", "100", f)), 1);
    cr_expect_eq(slowdown(WHATIF("--sms", "1", f)), 1, "kernels of one block");
    cr_expect_gt(slowdown(WHATIF("--sms", "54", wide)), 1);
    cr_expect_lt(slowdown(WHATIF("--sms", "216", wide)), 1);
    cr_expect_eq(slowdown(WHATIF("--sms", "80", "--recorded-sms", "80", wide)), 1);
}

Test(whatif, modules_list_every_step_or_requested_one)
{
    const char *f = punctual();
    json_t *root = WHATIF("--modules", "4", "--link", "384", "--dram", "1536", f);

    cr_expect_eq(json_array_size(json_object_get(root, "machines")), 5);
    cr_expect_str_eq(json_string_value(json_object_get(machine(root, 1), "machine")), "modules");
    cr_expect_geq(slowdown(root), 0.99);
    root = WHATIF("--modules", "2", "--blocks", "batches", "--pages", "first-touch",
                  "--remote-cache", "4", "--pattern", "mesh", "--memory", "0.9", f);
    cr_expect_eq(json_array_size(json_object_get(root, "machines")), 2);
    json_decref(root);
}

Test(whatif, real_time_lengthens_request_latency)
{
    const char *f = punctual();
    json_t *root = WHATIF("--rate", "200", "--requests", "300", "--seed", "3", f), *latency;
    double alone, beside;

    latency = json_object_get(machine(root, 1), "latency");
    cr_expect_eq(number(latency, "samples"), 300);
    cr_expect_geq(number(latency, "p99_us"), number(latency, "p50_us"));
    alone = number(latency, "p90_us");
    json_decref(root);
    root = WHATIF("--rate", "200", "--requests", "300", "--seed", "3", "--rt", f, "--rt-rate",
                  "200", "--budget-us", "100", f);
    beside = number(json_object_get(machine(root, 1), "latency"), "p90_us");
    cr_expect_gt(beside, alone, "held while real time ran");
    latency = json_object_get(machine(root, 1), "real_time");
    cr_expect_gt(number(latency, "samples"), 100);
    cr_expect_lt(number(latency, "p90_us"), beside);
    cr_expect_geq(number(latency, "min_us"),
                  number(json_object_get(root, "real_time_alone"), "min_us"));
    json_decref(root);
}

Test(whatif, device_of_modules_is_held_as_one)
{
    const char *f = punctual();
    json_t *alone = WHATIF("--modules", "4", "--rate", "200", "--requests", "300", f),
           *beside = WHATIF("--modules", "4", "--rate", "200", "--requests", "300", "--rt-rate",
                            "200", "--budget-us", "100", f);

    for (size_t i = 1; i < 5; i++) {
        json_t *rt = json_object_get(machine(beside, i), "real_time"),
               *be = json_object_get(machine(beside, i), "latency"),
               *free = json_object_get(machine(alone, i), "latency");

        cr_expect_gt(number(rt, "samples"), 100, "row %zu", i);
        cr_expect_lt(number(rt, "p90_us"), number(be, "p90_us"), "row %zu", i);
        cr_expect_gt(number(be, "p90_us"), number(free, "p90_us"), "row %zu", i);
    }
    json_decref(alone);
    json_decref(beside);
}

Test(whatif, skip_leaves_out_requests)
{
    const char *f = punctual();
    json_t *all = WHATIF(f), *some = WHATIF("--skip", "11", f);
    struct process *p;

    cr_expect_lt(number(some, "modelled_s"), number(all, "modelled_s"));
    json_decref(all);
    json_decref(some);
    p = process_run((const char *[]){LAB, "whatif", "--skip", "1000", f, NULL}, NULL, 30);
    cr_expect_eq(p->status, 1);
    cr_expect_not_null(strstr(process_err(p), "nothing"), "%s", process_err(p));
    process_free(p);
}

Test(whatif, tables_say_what_was_assumed)
{
    struct process *p = process_run((const char *[]){LAB, "whatif", record(), "--rtt", "8us",
                                                     "--modules", "4", "--rate", "100", NULL},
                                    NULL, 60);

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    cr_expect_not_null(strstr(process_out(p), "6.8 more than recorded"));
    cr_expect_not_null(strstr(process_out(p), "kernels assumed: stencil"));
    cr_expect_not_null(strstr(process_out(p), "+ first touch"));
    cr_expect_not_null(strstr(process_out(p), "not measured"));
    process_free(p);
}

Test(whatif, papers_option_lists_results_of_papers)
{
    json_t *root = predict((const char *[]){LAB, "whatif", "--papers", "--json", NULL});

    cr_expect_geq(json_array_size(json_object_get(root, "papers")), 22);
    json_decref(root);
}

Test(whatif, more_modules_than_multiprocessors_are_refused)
{
    struct process *p = process_run(
        (const char *[]){LAB, "whatif", "--modules", "4", "--sms", "3", record(), NULL}, NULL, 30);

    cr_expect_eq(p->status, 1);
    cr_expect_not_null(strstr(process_err(p), "impossible machine"), "%s", process_err(p));
    process_free(p);
}
