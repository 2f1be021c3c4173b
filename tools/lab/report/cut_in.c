/*
 * cut_in.c - one cut-in of a trace: what happened around it.
 *
 * The trace is what `cutin trace` makes (trace_json.c): slices of category "cut in" while real-time
 * work is active, "hold" while a best-effort stream is held, "kernel" for what the simulated GPU
 * ran. It shows the middle one of the cut-ins that held another process: not the first, where
 * everything is cold, nor the last.
 */
#include "tools/cutin/kernel_name.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_CANDIDATES = 200,
    MOST_US = 5000, /* of one cut-in */
    WIDTH = 1180,   /* of the picture, which script.js draws, with the text left of the slices */
    LABEL = 250,
    COLUMN = 7,       /* width of a character */
    LEAST_LABEL = 12, /* columns; a shorter name would tell nothing */
};

struct trace {
    json_t *events, *names; /* all events, and those that name processes and threads */
};

static double at(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

static const char *text(const json_t *event, const char *key)
{
    const char *value = json_string_value(json_object_get(event, key));

    return value ? value : "";
}

static bool overlaps(const json_t *event, double from_us, double to_us)
{
    return at(event, "ts") < to_us && at(event, "ts") + at(event, "dur") > from_us;
}

bool trace_is(const json_t *root)
{
    return json_is_array(json_object_get(root, "traceEvents"));
}

/* Gathers the events of a phase, of one category or of all (NULL). */
static json_t *gather(json_t *events, const char *phase, const char *category)
{
    json_t *gathered = json_array(), *event;
    size_t i;

    json_array_foreach(events, i,
                       event) if (strcmp(text(event, "ph"), phase) == 0 &&
                                  (!category || strcmp(text(event, "cat"), category) == 0))
        json_array_append(gathered, event);
    return gathered;
}

/* ---- choosing the cut-in ------------------------------------------------------------------- */

static const char *name_of(const struct trace *t, const char *what, long pid, long tid)
{
    json_t *event;
    size_t i;

    json_array_foreach(
        t->names, i,
        event) if (strcmp(text(event, "name"), what) == 0 && (long)at(event, "pid") == pid &&
                   (!tid || (long)at(event, "tid") ==
                                tid)) return text(json_object_get(event, "args"), "name");
    return "";
}

/* Tracks of the simulator are named after the process that they belong to. */
static const char *process_of(const struct trace *t, const json_t *event)
{
    long pid = (long)at(event, "pid"), owner;
    const char *track = name_of(t, "thread_name", pid, (long)at(event, "tid"));

    return name_of(t, "process_name", sscanf(track, "process %ld,", &owner) == 1 ? owner : pid, 0);
}

/* Whether one of these slices overlaps that time and belongs to a process below real time. */
static bool met_somebody(const struct trace *t, json_t *slices, double from_us, double to_us)
{
    json_t *slice;
    size_t i;

    json_array_foreach(slices, i, slice) if (overlaps(slice, from_us, to_us) &&
                                             !strstr(process_of(t, slice), "(rt)")) return true;
    return false;
}

/* From the middle outwards: the first one that met a kernel and held a process. If there is none:
 * the first that held a process. */
static const json_t *choose(const struct trace *t)
{
    json_t *actives = gather(t->events, "X", "cut in"), *holds = gather(t->events, "X", "hold"),
           *kernels = gather(t->events, "X", "kernel"), *chosen = NULL;
    size_t all = json_array_size(actives);

    for (size_t n = 0; n < 2 * all && n < MOST_CANDIDATES; n++) {
        size_t step = (n + 1) / 2, i = n % 2 ? all / 2 - step : all / 2 + step;
        json_t *active = json_array_get(actives, i); /* NULL if `i` wrapped below 0 */
        double ts = at(active, "ts");
        if (!active || !met_somebody(t, holds, ts, ts + at(active, "dur")))
            continue;
        chosen = chosen ? chosen : active;
        if (met_somebody(t, kernels, ts, ts)) {
            chosen = active;
            break;
        }
    }
    json_decref(actives);
    json_decref(holds);
    json_decref(kernels);
    return chosen;
}

/* ---- what happened around it --------------------------------------------------------------- */

/* The label is as much of the name as fits into the slice; none if that tells nothing. */
static json_t *slice_of(const json_t *event, double from_us, double to_us)
{
    const char *name = text(event, "name");
    double ts = at(event, "ts"), dur = at(event, "dur"),
           shown = fmin(ts + dur, to_us) - fmax(ts, from_us),
           columns = (shown / (to_us - from_us) * (WIDTH - LABEL - 10) - 6) / COLUMN;
    bool fits = columns >= (double)strlen(name) || columns >= LEAST_LABEL;

    return json_pack(
        "{s:s, s:s*, s:s, s:f, s:f, s:f, s:f}", "name", kernel_name(name, KERNEL_NAME_EVENT, false),
        "label", fits ? kernel_name(name, (size_t)columns, false) : NULL, "cat", text(event, "cat"),
        "pid", at(event, "pid"), "tid", at(event, "tid"), "ts", ts, "dur", dur);
}

static json_t *slices_of(json_t *events, double from_us, double to_us)
{
    json_t *all = gather(events, "X", NULL), *slices = json_array(), *event;
    size_t i;

    json_array_foreach(all, i, event) if (overlaps(event, from_us, to_us))
        json_array_append_new(slices, slice_of(event, from_us, to_us));
    json_decref(all);
    return slices;
}

json_t *cut_in_of(const json_t *root)
{
    json_t *events = json_object_get(root, "traceEvents");
    struct trace trace = {.events = events, .names = gather(events, "M", NULL)};
    const json_t *active = choose(&trace);
    double zero_us, length_us, before_us;

    if (!active) {
        json_decref(trace.names);
        return NULL;
    }
    zero_us = at(active, "ts");
    length_us = fmin(at(active, "dur"), MOST_US);
    before_us = fmax(length_us * 0.3, 150);
    return json_pack("{s:f, s:f, s:f, s:o, s:o}", "from", zero_us - before_us, "to",
                     zero_us + length_us + before_us, "zero", zero_us, "names", trace.names,
                     "slices",
                     slices_of(events, zero_us - before_us, zero_us + length_us + before_us));
}
