/*
 * latency.c - `cutin latency --json` prints the fields that scripts use. Its figures are tested by
 * their order, and by ratios within one run with a wide margin: on the stepped clock, to which a
 * busy host adds nothing.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

TestSuite(latency, .init = sandbox_enter, .fini = sandbox_leave);

static json_t *get(json_t *root, const char *path)
{
    char copy[128], *save = NULL;

    snprintf(copy, sizeof(copy), "%s", path);
    for (char *key = strtok_r(copy, ".", &save); key; key = strtok_r(NULL, ".", &save)) {
        root = json_object_get(root, key);
        if (!root)
            return NULL;
    }
    return root;
}

static void is_number(json_t *root, const char *group, const char *mode, const char *key)
{
    char path[128];

    snprintf(path, sizeof(path), "%s.%s.%s", group, mode, key);
    cr_expect(json_is_number(get(root, path)), "%s is not a number", path);
}

static json_t *printed(struct process *p)
{
    json_error_t error;
    json_t *root;

    cr_assert_eq(p->status, 0, "status %d, %s", p->status, process_err(p));
    root = json_loads(process_out(p), 0, &error);
    cr_assert_not_null(root, "%s in %s", error.text, process_out(p));
    return root;
}

static double number(json_t *root, const char *group, const char *mode, const char *key)
{
    char path[128];

    snprintf(path, sizeof(path), "%s.%s.%s", group, mode, key);
    cr_assert(json_is_number(get(root, path)), "%s is not a number", path);
    return json_number_value(get(root, path));
}

/* The median wait that `mode` adds is `times` times less than what `than` adds, in the device's own
 * time. On the host's clock this cannot be tested. */
static void adds_less(json_t *root, const char *mode, const char *than, double times)
{
    double less = number(root, "added_us", mode, "p50"),
           more = number(root, "added_us", than, "p50");

    if (clock_steps())
        cr_expect_leq(less * times, more, "%s adds %.0f us, %s %.0f", mode, less, than, more);
}

static void are_in_order(json_t *root, const char *mode)
{
    static const char *const figures[] = {"min_us", "p50_us", "p90_us", "p99_us", "max_us"};

    for (int i = 1; i < 5; i++)
        cr_expect_leq(number(root, "modes", mode, figures[i - 1]),
                      number(root, "modes", mode, figures[i]), "%s of %s", figures[i], mode);
}

/* p50 and p99, with intervals around them. */
static void has_estimates(json_t *estimates)
{
    cr_assert_eq(json_array_size(estimates), 2);
    for (size_t i = 0; i < 2; i++) {
        json_t *e = json_array_get(estimates, i), *within = get(e, "us_95");
        double us = json_number_value(get(e, "us"));
        cr_expect_leq(json_number_value(json_array_get(within, 0)), us);
        cr_expect_geq(json_number_value(json_array_get(within, 1)), us);
        cr_expect(json_is_number(get(e, "vs_alone")));
        cr_expect_eq(json_array_size(get(e, "vs_alone_95")), 2);
    }
}

Test(latency, json_has_every_key)
{
    static const char *const modes[] = {"alone", "native", "cutin"};
    static const char *const figures[] = {"min_us", "p50_us", "p90_us",
                                          "p99_us", "max_us", "samples"};
    struct process *p = process_run((const char *[]){CUTIN, "latency", "--sim", "--samples", "300",
                                                     "--rate", "2000", "--solo-ms", "50",
                                                     "--be-kernel-us", "200", "--json", NULL},
                                    NULL, 80);
    json_t *root = printed(p);

    for (int m = 0; m < 3; m++)
        for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++)
            is_number(root, "modes", modes[m], figures[f]);
    for (int m = 1; m < 3; m++) {
        is_number(root, "added_us", modes[m], "p50");
        is_number(root, "added_us", modes[m], "p99");
        is_number(root, "be", modes[m], "kernels_per_s");
    }
    cr_expect(json_is_boolean(get(root, "modes.cutin.within_floor")));
    is_number(root, "floor", "spin", "max_us");
    is_number(root, "floor", "launch_us", "p99_us");
    cr_expect(json_is_boolean(get(root, "claim.realtime")));
    cr_expect(json_is_object(get(root, "config")));
    cr_expect_eq(json_integer_value(get(root, "modes.cutin.samples")), 300);
    cr_expect(json_is_null(get(root, "modes.cutin.p999_us")), "of 300 samples");
    cr_expect(json_is_true(get(root, "engagement.engaged")));
    cr_expect_geq(json_integer_value(get(root, "engagement.cut_ins")), 1);
    has_estimates(get(root, "modes.cutin.estimates"));
    for (int m = 0; m < 3; m++)
        are_in_order(root, modes[m]);
    for (int m = 1; m < 3; m++)
        cr_expect_float_eq(number(root, "added_us", modes[m], "p50"),
                           number(root, "modes", modes[m], "p50_us") -
                               number(root, "modes", "alone", "p50_us"),
                           0.01);
    adds_less(root, "cutin", "native", 4);
    json_decref(root);
    process_free(p);
}

Test(latency, graph_run_reports_length_and_added_shares)
{
    static const char *const modes[] = {"native", "ungated", "cutin"};

    setenv("CUTIN_GATES", "on", 1); /* a busy machine may see gates too late for auto */
    struct process *p =
        process_run((const char *[]){CUTIN, "latency", "--sim", "--floor-ms", "0", "--samples",
                                     "300", "--rate", "2000", "--be-graph", "100", "--be-kernel-us",
                                     "20", "--solo-ms", "50", "--json", NULL},
                    NULL, 80);
    json_t *root = printed(p);

    for (int m = 0; m < 3; m++)
        is_number(root, "graph", "added_p99_share", modes[m]);
    cr_expect_eq(json_integer_value(get(root, "graph.kernels")), 100);
    cr_expect_geq(json_number_value(get(root, "graph.length_us")), 100 * 20);
    cr_expect_eq(json_integer_value(get(root, "modes.ungated.samples")), 300);
    cr_expect_str_eq(json_string_value(get(root, "be.checksum")), "identical");
    cr_expect_gt(json_number_value(get(root, "be.gate_us")), 0);
    adds_less(root, "cutin", "ungated", 2);
    json_decref(root);
    process_free(p);
}

/* A copy of the command, beside what `make` puts there. */
static const char *tree_new(const char *make)
{
    const char *tree = sandbox_path("tree");
    char command[4096];
    int n = snprintf(command, sizeof(command),
                     "cd %s && mkdir tree && cd tree && mkdir bin lib && "
                     "cp " CUTIN " bin && ln -s " LIB_DIR "/* lib && %s",
                     sandbox_folder(), make);

    cr_assert_lt(n, (int)sizeof(command));
    struct process *p = process_run((const char *[]){"sh", "-c", command, NULL}, NULL, 80);
    cr_assert_eq(p->status, 0, "%s: %s", command, process_err(p));
    process_free(p);
    return tree;
}

/* A cap that forgets what is in flight lets any amount of it be ahead of a request. */
Test(latency, mutant_without_cap_delays_requests)
{
    if (!clock_steps())
        cr_skip_test("a busy host may add as much");
    const char *tree = tree_new("ln -s " BIN_DIR "/cutind " EXAMPLE(
        "be_training") " bin && "
                       "ln -sf " LIB_DIR "/tests/libcutin-mutants.so lib/libcutin.so");
    char command[4096];

    snprintf(command, sizeof(command), "%s/bin/cutin", tree);
    for (int broken = 0; broken < 2; broken++) {
        struct process *p = process_run(
            (const char *[]){command, "latency", "--sim", "--floor-ms", "0", "--samples", "100",
                             "--rate", "2000", "--solo-ms", "50", "--be-kernel-us", "200", "--json",
                             NULL},
            (const char *[]){broken ? "FAULT=stream_uncounted" : "FAULT=none", NULL}, 80);
        json_t *root = printed(p);
        bool less = number(root, "added_us", "cutin", "p50") * 4 <=
                    number(root, "added_us", "native", "p50");
        cr_expect_eq(less, !broken, "adds %.0f us", number(root, "added_us", "cutin", "p50"));
        json_decref(root);
        process_free(p);
    }
}

/* ---- arrivals ------------------------------------------------------------------------------- */

static json_t *overloaded(const char *arrivals)
{
    struct process *p =
        process_run((const char *[]){CUTIN, "latency", "--sim", "--floor-ms", "0", "--mode",
                                     "alone", "--samples", "40", "--rate", "400", "--rt-kernel-us",
                                     "5000", "--arrivals", arrivals, "--json", NULL},
                    NULL, 80);
    json_t *root = printed(p);

    process_free(p);
    return root;
}

/* The tools look for the daemon beside themselves, and find one that sleeps first, as if busy. */
Test(latency, waits_for_a_daemon_that_is_slow_to_start)
{
    char command[4096];
    const char *tree = tree_new("printf '#!/bin/sh\nsleep 3\nexec " BIN_DIR "/cutind \"$@\"\n' "
                                ">bin/cutind && chmod +x bin/cutind");

    snprintf(command, sizeof(command), "%s/bin/cutin", tree);
    struct process *p = process_run((const char *[]){command, "latency", "--sim", "--floor-ms", "0",
                                                     "--mode", "cutin", "--samples", "10", NULL},
                                    NULL, 80);
    cr_expect_eq(p->status, 0, "%s", process_err(p));
    process_free(p);
}

/* Requests of 5 ms, one every 2.5 ms: each waits 2.5 ms longer than the one before it. A client
 * that sends the next request only after an answer never sees that. */
Test(latency, open_loop_counts_queueing_that_closed_loop_omits)
{
    json_t *open = overloaded("uniform:0"), *closed = overloaded("closed");
    double half = json_number_value(get(open, "modes.alone.p50_us"));

    cr_expect_geq(half, 20 * 5000 - 20 * 2500);
    cr_expect_geq(json_number_value(get(open, "modes.alone.max_us")), 40 * 5000 - 40 * 2500);
    cr_expect_geq(json_integer_value(get(open, "modes.alone.backlog.most")), 19);
    cr_expect_eq(json_integer_value(get(open, "modes.alone.backlog.late")), 39);
    cr_expect_str_eq(json_string_value(get(open, "config.loop")), "open");
    cr_expect_lt(json_number_value(get(closed, "modes.alone.p50_us")), half);
    cr_expect_str_eq(json_string_value(get(closed, "config.loop")), "closed");
    cr_expect_null(get(closed, "modes.alone.backlog"));
    json_decref(open);
    json_decref(closed);
}

/* None is dropped: there are as many samples as arrivals, however long each waits. */
Test(latency, every_arrival_is_a_sample)
{
    static const char *const kinds[] = {"poisson", "uniform:0.5", "gamma:0.3", "closed"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct process *p =
            process_run((const char *[]){CUTIN, "latency", "--sim", "--floor-ms", "0", "--samples",
                                         "300", "--rate", "2000", "--solo-ms", "20", "--arrivals",
                                         kinds[i], "--json", NULL},
                        NULL, 80);
        json_t *root = printed(p);
        cr_expect_eq(json_integer_value(get(root, "modes.native.samples")), 300, "%s", kinds[i]);
        cr_expect_eq(json_integer_value(get(root, "modes.cutin.samples")), 300, "%s", kinds[i]);
        json_decref(root);
        process_free(p);
    }
}

Test(latency, trace_file_sets_arrivals)
{
    char path[256], kind[300];
    struct process *p;
    json_t *root;
    FILE *f;

    snprintf(path, sizeof(path), "%s/arrivals", sandbox_folder());
    f = fopen(path, "w");
    cr_assert_not_null(f);
    for (int i = 1; i <= 10; i++)
        fprintf(f, "%d\n", 4 * i);
    fclose(f);
    snprintf(kind, sizeof(kind), "trace:%s", path);
    p = process_run((const char *[]){CUTIN, "latency", "--sim", "--floor-ms", "0", "--mode",
                                     "alone", "--samples", "10", "--arrivals", kind, "--json",
                                     NULL},
                    NULL, 80);
    root = printed(p);
    cr_expect_float_eq(json_number_value(get(root, "config.rate_per_s")), 250, 1e-9);
    json_decref(root);
    process_free(p);
    p = process_run((const char *[]){CUTIN, "latency", "--sim", "--floor-ms", "0", "--mode",
                                     "alone", "--samples", "11", "--arrivals", kind, NULL},
                    NULL, 80);
    cr_expect_eq(p->status, 1);
    cr_expect_not_null(strstr(process_err(p), "has 10 arrivals"), "%s", process_err(p));
    process_free(p);
}

/* ---- histograms ----------------------------------------------------------------------------- */

static char *written(const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", sandbox_folder(), name);
    return file_text(path);
}

Test(latency, histograms_hold_every_sample)
{
    const char *latencies = sandbox_path("latencies"), *const files[] = {"h.json", "h.hgrm"};
    json_t *root, *counts, *pair;
    json_int_t sum = 0;
    struct process *p =
        process_run((const char *[]){CUTIN, "latency", "--sim", "--floor-ms", "0", "--samples",
                                     "60", "--solo-ms", "20", "--mode", "alone", "--mode", "cutin",
                                     "--latencies", latencies, NULL},
                    NULL, 80);
    char *text;
    size_t i;

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    process_free(p);
    for (int k = 0; k < 2; k++) {
        p = process_run((const char *[]){LAB, "histogram", latencies, sandbox_path(files[k]), NULL},
                        NULL, 80);
        cr_assert_eq(p->status, 0, "%s", process_err(p));
        process_free(p);
    }
    text = written("h.json");
    root = json_loads(text, 0, NULL);
    cr_assert_not_null(root, "%s", text);
    counts = get(root, "cutin.buckets");
    json_array_foreach(counts, i, pair) sum += json_integer_value(json_array_get(pair, 1));
    cr_expect_eq(sum, 60);
    cr_expect_eq(json_integer_value(get(root, "cutin.digits")), 3);
    cr_expect_gt(strlen(json_string_value(get(root, "alone.max_at"))), 20);
    json_decref(root);
    free(text);
    text = written("h.cutin.hgrm");
    cr_expect_not_null(strstr(text, "Total count    =           60]"), "%s", text);
    cr_expect_not_null(strstr(text, "#[Max at 20"), "%s", text);
    free(text);
    free(written("h.alone.hgrm"));
}

/* On the plain driver as under cutin, no answer comes sooner than delay and kernel allow. */
Test(latency, a_distance_delays_every_mode)
{
    static const char *const modes[] = {"alone", "native", "cutin"};
    struct process *p = process_run((const char *[]){CUTIN, "latency", "--sim", "--floor-ms", "0",
                                                     "--samples", "60", "--solo-ms", "50",
                                                     "--distance", "501.2us", "--json", NULL},
                                    NULL, 80);
    json_t *root = printed(p);

    cr_expect_float_eq(json_number_value(get(root, "config.distance_us")), 501.2, 1e-9);
    for (int m = 0; m < 3; m++) {
        char path[64];

        snprintf(path, sizeof(path), "modes.%s.min_us", modes[m]);
        cr_expect_geq(json_number_value(get(root, path)), 520, "%s", path);
    }
    cr_expect_str_eq(json_string_value(get(root, "be.checksum")), "identical");
    json_decref(root);
    process_free(p);
}

Test(latency, a_percentile_of_too_few_samples_is_refused)
{
    struct process *p = process_run((const char *[]){CUTIN, "latency", "--sim", "--samples", "300",
                                                     "--percentile", "99.9", NULL},
                                    NULL, 80);

    cr_expect_eq(p->status, 2);
    cr_expect_not_null(strstr(process_err(p), "needs at least 2995 samples, not 300"), "%s",
                       process_err(p));
    process_free(p);
}

/* ---- stages --------------------------------------------------------------------------------- */

Test(latency, log_and_events_both_give_cut_in_stages)
{
    static const char *const methods[] = {"log", "events"};

    for (int k = 0; k < 2; k++) {
        struct process *p =
            process_run((const char *[]){CUTIN, "latency", "--sim", "--floor-ms", "0", "--samples",
                                         "60", "--solo-ms", "20", "--mode", "cutin", "--stages",
                                         methods[k], "--json", NULL},
                        NULL, 80);
        json_t *root = printed(p);
        cr_expect_eq(json_integer_value(get(root, "stages.cut_ins")), 60);
        cr_expect_eq(json_integer_value(get(root, "stages.us.call.samples")), 60);
        cr_expect_geq(json_integer_value(get(root, "stages.us.hold.samples")), 1);
        cr_expect_geq(json_integer_value(get(root, "stages.us.begin.samples")), 1);
        cr_expect_geq(json_integer_value(get(root, "stages.us.again.samples")), 1);
        cr_expect_geq(json_number_value(get(root, "stages.us.run.min_us")), 19.9);
        cr_expect_not_null(
            strstr(json_string_value(get(root, "stages.method")), k == 0 ? "log" : "events"));
        json_decref(root);
        process_free(p);
    }
}

/* ---- presets -------------------------------------------------------------------------------- */

Test(latency, preset_prints_published_figures_beside_measured)
{
    static const char *const names[] = {"xsched", "reef", "gpreempt", "mlperf-server"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct process *p = process_run(
            (const char *[]){LAB, "preset", names[i], "--sim", "--floor-ms", "0", "--samples", "40",
                             "--warm-up", "5", "--solo-ms", "50", "--json", NULL},
            NULL, 80);
        json_t *root = printed(p), *rows = get(root, "preset.rows"), *row;
        size_t k;
        cr_expect_str_eq(json_string_value(get(root, "preset.name")), names[i]);
        cr_expect_eq(json_integer_value(get(root, "config.warm_up")), 5);
        cr_expect_eq(json_integer_value(get(root, "modes.cutin.samples")), 40);
        cr_expect_geq(json_array_size(rows), 3);
        cr_expect_gt(json_integer_value(get(root, "config.rt_kernels")), 1);
        json_array_foreach(rows, k, row)
        {
            cr_expect(json_is_string(get(row, "paper")));
            cr_expect(json_is_true(get(row, "another_machine")));
            cr_expect_not_null(get(row, "here"));
        }
        json_decref(root);
        process_free(p);
    }
}

Test(latency, preset_leaves_unmeasured_figures_null)
{
    struct process *p =
        process_run((const char *[]){LAB, "preset", "reef", "--sim", "--floor-ms", "0", "--samples",
                                     "10", "--mode", "alone", "--json", NULL},
                    NULL, 80);
    json_t *root = printed(p), *row;
    size_t k;

    json_array_foreach(get(root, "preset.rows"), k, row) cr_expect(json_is_null(get(row, "here")));
    cr_expect_eq(k, 4);
    json_decref(root);
    process_free(p);
}

/* ---- break ---------------------------------------------------------------------------------- */

static bool has_process(json_t *trace, const char *name)
{
    json_t *event;
    size_t i;

    json_array_foreach(get(trace, "traceEvents"), i, event)
    {
        const char *said = json_string_value(get(event, "args.name"));
        if (said && strncmp(said, name, strlen(name)) == 0)
            return true;
    }
    return false;
}

/* Every answer takes longer than 1 us. No event begins outside of the 50 ms and the one behind the
 * answer, however long a call took that began within. */
Test(latency, break_ends_run_and_traces_last_50_ms)
{
    char path[256], *text;
    struct process *p;
    json_t *root, *trace, *event;
    size_t i;

    snprintf(path, sizeof(path), "%s/break.json", sandbox_folder());
    p = process_run((const char *[]){CUTIN, "latency", "--sim", "--floor-ms", "0", "--samples",
                                     "1000", "--mode", "cutin", "--solo-ms", "20", "--break", "1",
                                     "--break-trace", path, "--json", NULL},
                    NULL, 80);
    root = printed(p);
    cr_expect_eq(json_integer_value(get(root, "modes.cutin.samples")), 1);
    cr_expect_gt(json_number_value(get(root, "broke.us")), 1);
    cr_expect_str_eq(json_string_value(get(root, "broke.trace")), path);
    text = written("break.json");
    trace = json_loads(text, 0, NULL);
    cr_assert_not_null(trace, "%s", text);
    cr_expect(has_process(trace, "cutin (rt)"));
    cr_expect(has_process(trace, "cutin (be)"));
    cr_expect(has_process(trace, "GPU (simulated)"));
    cr_expect(has_process(trace, "the request that took too long"));
    json_array_foreach(get(trace, "traceEvents"), i, event)
    {
        double at = json_number_value(get(event, "ts"));
        cr_assert(at >= 0 && at <= 51000, "%g us", at);
    }
    json_decref(trace);
    json_decref(root);
    free(text);
    process_free(p);
}
