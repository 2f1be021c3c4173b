/*
 * trace.c - `cutin trace` of two processes that share the simulated GPU: the file is JSON that a
 * viewer accepts, and contains what happened.
 */
#include "tests/integration/gpu.h"
#include "tests/scheduler/stop.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(trace, .init = sandbox_enter, .fini = sandbox_leave);

/* A training job runs before the requests come and until they are answered. */
static const char both[] =
    "\"$0\" run -- \"$1\" --kernel-us 1000 & job=$!; "
    "until \"$0\" list 2>/dev/null | grep -q be_training; do sleep 0.05; done; "
    "\"$0\" run --priority rt -- \"$2\" --rate 20 --kernels 20 --seconds 3600 --json & service=$!; "
    "until [ -e \"$3\" ]; do sleep 0.05; done; "
    "kill $service; wait $service; status=$?; kill $job; wait $job; exit $status";

enum { REQUESTS = 51, KERNELS = 20 };

static bool has_served(const struct message_row *row)
{
    uint64_t kernels = 0;

    for (uint32_t i = 0; i < row->devices; i++)
        kernels += row->device[i].kernels;
    return kernels >= REQUESTS * KERNELS;
}

/* True once it was held more often than at the first call. */
static bool was_held(const struct message_row *row)
{
    static uint64_t before = UINT64_MAX;

    if (before == UINT64_MAX)
        before = client_holds(row);
    return client_holds(row) > before;
}

/* Runs until enough requests are answered and a later hold has ended, since a trace keeps the
 * latest events. `requests` gets the number of requests. */
static json_t *trace_both(size_t *requests)
{
    struct process *p =
        process_start((const char *[]){CUTIN, "trace", "--sim", "-o", sandbox_path("t.json"), "--",
                                       "sh", "-c", both, CUTIN, EXAMPLE("be_training"),
                                       EXAMPLE("rt_inference"), sandbox_path("enough"), NULL},
                      NULL);
    bool enough = client_wait("rt_inference", has_served, 60, NULL) &&
                  client_wait("be_training", was_held, 60, NULL);
    json_error_t error;
    json_t *root, *events;

    sandbox_tell("enough");
    process_wait(p, 90);
    daemon_stop(daemon_path());
    cr_assert_eq(p->status, 0, "%s", process_err(p));
    cr_assert(enough);
    *requests = 1 + (size_t)number_after(process_out(p), "\"requests\"");
    cr_expect_not_null(strstr(process_err(p), "2 processes"), "%s", process_err(p));
    process_free(p);
    root = json_load_file(sandbox_path("t.json"), 0, &error);
    cr_assert_not_null(root, "line %d: %s", error.line, error.text);
    events = json_incref(json_object_get(root, "traceEvents"));
    json_decref(root);
    return events;
}

static const char *text(const json_t *event, const char *key)
{
    const char *value = json_string_value(json_object_get(event, key));

    return value ? value : "";
}

static double number(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

static bool is(const json_t *event, const char *ph, const char *name)
{
    return strcmp(text(event, "ph"), ph) == 0 && (!name || strcmp(text(event, "name"), name) == 0);
}

static size_t count(const json_t *events, const char *ph, const char *name, const char *category)
{
    size_t n = 0, i;
    json_t *e;

    json_array_foreach(events, i, e) n +=
        is(e, ph, name) && (!category || strcmp(text(e, "cat"), category) == 0);
    return n;
}

/* The id of the process whose name begins so, or 0. Text about lost events may follow the name. */
static json_int_t process_called(const json_t *events, const char *name)
{
    json_t *e;
    size_t i;

    json_array_foreach(events, i,
                       e) if (is(e, "M", "process_name") &&
                              strncmp(text(json_object_get(e, "args"), "name"), name,
                                      strlen(name)) == 0) return (json_int_t)number(e, "pid");
    return 0;
}

/* No kernel begins before the first call, or overlaps another one of its stream. */
static void device_in_order(const json_t *events)
{
    json_t *e, *o;
    double first_call = INFINITY;
    size_t i, k;

    json_array_foreach(events, i, e) if (is(e, "X", NULL) && strcmp(text(e, "cat"), "call") == 0)
        first_call = fmin(first_call, number(e, "ts"));
    json_array_foreach(events, i, e)
    {
        if (!is(e, "X", NULL) || strcmp(text(e, "cat"), "kernel") != 0)
            continue;
        cr_assert_geq(number(e, "ts"), first_call);
        for (k = i + 1; k < json_array_size(events) && k < i + 50; k++) {
            o = json_array_get(events, k);
            if (is(o, "X", NULL) && strcmp(text(o, "cat"), "kernel") == 0 &&
                number(o, "pid") == number(e, "pid") && number(o, "tid") == number(e, "tid"))
                cr_assert(number(o, "ts") + 0.001 >= number(e, "ts") + number(e, "dur") ||
                              number(o, "ts") + number(o, "dur") <= number(e, "ts") + 0.001,
                          "two kernels of a stream at once");
        }
    }
}

Test(trace, shows_two_processes_on_one_clock)
{
    size_t requests, i;
    json_t *events = trace_both(&requests), *e;

    json_int_t rt = process_called(events, "rt_inference (rt)");
    size_t calls = 0, works = 0;

    cr_assert_geq(requests, REQUESTS);
    /* Every launch is there, both as a call and on the device. */
    json_array_foreach(events, i, e)
    {
        calls += is(e, "X", "mix_spin") && strcmp(text(e, "cat"), "call") == 0 &&
                 (json_int_t)number(e, "pid") == rt;
        works += is(e, "X", "mix_spin") && strcmp(text(e, "cat"), "kernel") == 0 &&
                 (json_int_t)number(json_object_get(e, "args"), "pid") == rt;
    }
    cr_expect_eq(calls, requests * KERNELS);
    cr_expect_eq(works, requests * KERNELS);
    cr_expect_neq(process_called(events, "be_training (be)"), 0);
    cr_expect_eq(count(events, "X", "active", "cut in"), count(events, "i", "cut in", NULL));
    cr_expect_geq(count(events, "X", "active", "cut in"), requests);
    cr_expect_geq(count(events, "X", "held", "hold"), 1);
    cr_expect_geq(count(events, "f", "waits", NULL), 1);
    json_array_foreach(events, i, e)
    {
        cr_assert(json_is_integer(json_object_get(e, "pid")));
        cr_assert_neq(strlen(text(e, "name")), 0);
        if (is(e, "M", NULL))
            continue;
        cr_assert(number(e, "ts") >= 0 && number(e, "ts") < 900e6, "%s at %f", text(e, "name"),
                  number(e, "ts"));
        if (is(e, "X", NULL))
            cr_assert(number(e, "dur") >= 0 && json_is_integer(json_object_get(e, "tid")));
        if (is(e, "C", NULL)) /* "in flight" is never below 0; alone, a process may have much */
            cr_assert_lt(number(json_object_get(e, "args"), "in flight"), 1e6);
    }
    device_in_order(events);
    json_decref(events);
}

/* Perfetto's own parser, if it is installed. */
Test(trace, perfetto_parses_file_without_errors)
{
    const char *parser = getenv("TRACE_PROCESSOR") ? getenv("TRACE_PROCESSOR") : "trace_processor";
    const char *query = sandbox_path("q.sql");
    struct process *p;
    size_t slices, requests;
    json_t *events;
    FILE *f;

    p = process_run((const char *[]){parser, "--version", NULL}, NULL, 30);
    if (p->status != 0)
        cr_skip_test(
            "no trace_processor of Perfetto on PATH, and TRACE_PROCESSOR does not name one");
    process_free(p);
    events = trace_both(&requests);
    slices = count(events, "X", NULL, NULL);
    f = fopen(query, "w");
    cr_assert_not_null(f);
    fputs(
        "select 'slices=' || count(*) from slice where dur >= 0 and name not in ('hold','cut in');"
        "select 'errors=' || sum(value) from stats where severity = 'error';",
        f);
    fclose(f);
    p = process_run((const char *[]){parser, "-q", query, sandbox_path("t.json"), NULL}, NULL, 60);
    cr_expect_eq(p->status, 0, "%s", process_err(p));
    cr_expect_geq(number_after(process_out(p), "slices"), (double)slices);
    cr_expect_eq(number_after(process_out(p), "errors"), 0);
    process_free(p);
    json_decref(events);
}

Test(trace, merge_converts_trace_file_and_refuses_others)
{
    const char *trace = sandbox_path("one.trace"), *out = sandbox_path("m.json");
    char variable[300];
    struct process *p;
    json_t *root;

    snprintf(variable, sizeof(variable), "CUTIN_TRACE=%s", trace);
    p = process_run((const char *[]){CUTIN, "run", "--no-daemon", "--sim", "--",
                                     EXAMPLE("be_training"), "--steps", "5", NULL},
                    (const char *[]){variable, NULL}, 60);
    cr_assert_eq(p->status, 0, "%s", process_err(p));
    process_free(p);
    p = process_run((const char *[]){CUTIN, "trace", "--merge", "-o", out, trace, NULL}, NULL, 30);
    cr_assert_eq(p->status, 0, "%s", process_err(p));
    process_free(p);
    root = json_load_file(out, 0, NULL);
    cr_assert_not_null(root);
    cr_expect_geq(count(json_object_get(root, "traceEvents"), "X", "mix_spin", "call"), 5);
    json_decref(root);
    cr_assert_eq(unlink(out), 0);
    p = process_run((const char *[]){CUTIN, "trace", "--merge", "--report", trace, NULL}, NULL, 30);
    cr_expect_eq(p->status, 0, "%s", process_err(p));
    cr_expect_not_null(strstr(process_out(p), "the GPU "), "%s", process_out(p));
    cr_expect_str_eq(process_err(p), "");
    process_free(p);
    p = process_run((const char *[]){CUTIN, "trace", "--merge", "-o", out, CUTIN, NULL}, NULL, 30);
    cr_expect_eq(p->status, 1);
    cr_expect_not_null(strstr(process_err(p), "neither"), "%s", process_err(p));
    process_free(p);
}

/* The exit status is the program's. Tracing a program without CUDA is no success. */
Test(trace, exit_status_is_programs_or_1_without_cuda)
{
    const char *out = sandbox_path("n.json");
    static const struct {
        const char *script;
        int status;
    } cases[] = {{"exit 7", 7}, {"kill -TERM $$", 143}, {"true", 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct process *p = process_run(
            (const char *[]){CUTIN, "trace", "-o", out, "--", "sh", "-c", cases[i].script, NULL},
            NULL, 30);
        cr_expect_eq(p->status, cases[i].status, "%s: %d", cases[i].script, p->status);
        process_free(p);
    }
}
