/*
 * trace_json.c - the picture of a trace: what two threads recorded, in any order.
 */
#include "tools/cutin/trace/trace_view.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/cutin-trace.XXXXXX", path[80];

static void enter(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/a.trace", folder);
}

static void leave(void)
{
    unlink(path);
    cr_expect_eq(rmdir(folder), 0, "something was left in %s", folder);
}

TestSuite(trace_json, .init = enter, .fini = leave);

static void put(enum trace_kind kind, uint64_t turn, uint64_t us)
{
    struct trace_record r = {.kind = (uint16_t)kind, .stream = 1, .ns = 1000 * us};

    r.cut.turn = turn;
    trace_put(&r);
}

/* From `origin_us` to `end_us` (0: to the last record), with a mark at `mark_us`. */
static json_t *picture(uint64_t origin_us, uint64_t end_us, uint64_t mark_us)
{
    struct trace_json j = {0};
    struct trace_view v;
    char why[256], *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    json_t *root;

    trace_flush();
    cr_assert_eq(trace_view_open(&v, path, why, sizeof(why)), 0, "%s", why);
    trace_json_begin(&j, out, 1000 * origin_us, 1);
    j.end_ns = 1000 * end_us;
    trace_json_mark(&j, 1, 1, "early", 1000 * mark_us);
    trace_json_add(&j, &v);
    cr_assert_eq(trace_json_end(&j), 0);
    fclose(out);
    trace_view_close(&v);
    root = json_loads(text, 0, NULL);
    cr_assert_not_null(root, "%s", text);
    free(text);
    return root;
}

/* Compares the slices "active", in the order of the file, as "from-to" in microseconds. */
static void expect_active(const char *expected)
{
    json_t *root = picture(0, 0, 0), *e;
    char said[256] = "";
    size_t i, marks = 0, slices = 0;

    json_array_foreach(json_object_get(root, "traceEvents"), i, e)
    {
        const char *ph = json_string_value(json_object_get(e, "ph")),
                   *name = json_string_value(json_object_get(e, "name"));
        double from = json_number_value(json_object_get(e, "ts"));
        size_t n = strlen(said);

        marks += strcmp(ph, "i") == 0 && strcmp(name, "cut in") == 0;
        if (strcmp(ph, "X") != 0 || strcmp(name, "active") != 0)
            continue;
        slices++;
        snprintf(said + n, sizeof(said) - n, "%s%.0f-%.0f", n ? " " : "", from,
                 from + json_number_value(json_object_get(e, "dur")));
    }
    cr_expect_str_eq(said, expected);
    cr_expect_eq(marks, slices);
    json_decref(root);
}

static void begin(void)
{
    cr_assert_eq(trace_open(path, 1024, false, 3), 0);
}

Test(trace_json, active_slice_lasts_from_cut_in_to_cut_out)
{
    begin();
    put(TRACE_CUT_IN, 1, 10);
    put(TRACE_CUT_OUT, 1, 20);
    put(TRACE_CUT_IN, 2, 30); /* until the trace's end */
    put(TRACE_CUT_IN, 3, 40);
    expect_active("10-20 30-40 40-40");
}

Test(trace_json, late_cut_out_does_not_overlap_next_slice)
{
    begin();
    put(TRACE_CUT_IN, 1, 10);
    put(TRACE_CUT_IN, 2, 20);
    put(TRACE_CUT_OUT, 1, 21);
    put(TRACE_CUT_OUT, 2, 30);
    expect_active("10-20 20-30");
}

Test(trace_json, cut_out_recorded_before_its_cut_in_is_matched)
{
    begin();
    put(TRACE_CUT_OUT, 1, 10);
    put(TRACE_CUT_IN, 1, 11);
    put(TRACE_CUT_IN, 2, 20);
    put(TRACE_CUT_OUT, 3, 30);
    put(TRACE_CUT_OUT, 2, 31);
    put(TRACE_CUT_IN, 3, 32);
    expect_active("11-11 20-30 32-32");
}

Test(trace_json, cut_out_without_cut_in_has_no_slice)
{
    begin();
    put(TRACE_CUT_OUT, 7, 10);
    put(TRACE_CUT_IN, 8, 20);
    put(TRACE_CUT_OUT, 8, 30);
    expect_active("20-30");
}
/* A submission lasts beyond the end of the picture, and a mark comes before its beginning. */
Test(trace_json, events_begin_within_the_requested_window)
{
    struct trace_record r = {.kind = TRACE_SUBMITTED, .stream = 1, .ns = 30000};
    size_t i, begun = 0;
    json_t *root, *e;

    begin();
    r.queue.took_ns = 900000;
    trace_put(&r);
    root = picture(20, 40, 19);
    json_array_foreach(json_object_get(root, "traceEvents"), i, e)
    {
        const char *name = json_string_value(json_object_get(e, "name"));
        json_t *at = json_object_get(e, "ts");
        double us = json_number_value(at);

        begun += at && strcmp(name, "submit") == 0;
        cr_expect(!at || (us >= 0 && us <= 20), "%s at %g", name, us);
    }
    cr_expect_eq(begun, 1);
    json_decref(root);
}
