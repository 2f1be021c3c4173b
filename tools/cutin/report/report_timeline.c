/*
 * report_timeline.c - one cut-in of a trace, drawn: a row per track, time to the right.
 *
 * The trace is what `cutin trace` makes (trace_json.c): slices of category "cut in" while real-time
 * work is active, "hold" while a best-effort stream is held, "kernel" and "copy" for what the simulated
 * GPU ran, "device" for what was timed. The
 * cut-in in the middle of those that held somebody is shown: neither the first, where everything is
 * cold, nor the last.
 */
#include "tools/cutin/kernel_name.h"
#include "report.h"
#include "result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TRACKS = 18,
    MOST_SLICES = 4000, /* in the picture */
    MOST_GATHERED = 65536,
    MOST_CANDIDATES = 200,
    LABEL = 250,
    COLUMN = 7,       /* width of a character */
    LEAST_LABEL = 12, /* columns; below, a name that was shortened tells nothing */
    WIDTH = 1180,
    ROW = 24,
    TOP = 44,
    MOST_US = 5000, /* of one cut-in */
};

struct track {
    json_int_t pid, tid;
    int order; /* of its kind, see order_of */
    size_t slices;
};

struct picture {
    json_t *events;
    json_t **names; /* the events that name processes and threads */
    size_t named;
    double from_us, to_us, zero_us;
    struct track track[MOST_TRACKS];
    size_t tracks;
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

static bool is_slice(const json_t *event, const char *category)
{
    return strcmp(text(event, "ph"), "X") == 0 &&
           (!category || strcmp(text(event, "cat"), category) == 0);
}

static bool overlaps(const json_t *event, double from_us, double to_us)
{
    return at(event, "ts") < to_us && at(event, "ts") + at(event, "dur") > from_us;
}

bool trace_is(const json_t *root)
{
    return json_is_array(json_object_get(root, "traceEvents"));
}

/* ---- names --------------------------------------------------------------------------------- */

/* The slices of a category, or the events that name things. */
static size_t gather(json_t *events, const char *phase, const char *category, json_t **out)
{
    size_t i, n = 0;
    json_t *event;

    json_array_foreach(events, i, event)
    {
        if (n < MOST_GATHERED && strcmp(text(event, "ph"), phase) == 0 &&
            (!category || strcmp(text(event, "cat"), category) == 0))
            out[n++] = event;
    }
    return n;
}

static const char *name_of(const struct picture *p, const char *what, json_int_t pid,
                           json_int_t tid)
{
    for (size_t i = 0; i < p->named; i++)
        if (strcmp(text(p->names[i], "name"), what) == 0 &&
            (json_int_t)at(p->names[i], "pid") == pid &&
            (!tid || (json_int_t)at(p->names[i], "tid") == tid))
            return text(json_object_get(p->names[i], "args"), "name");
    return "";
}

/* The simulator's tracks are named after the process that they belong to. */
static json_int_t owner_of(const struct picture *p, json_int_t track_pid, json_int_t tid)
{
    long pid;

    return sscanf(name_of(p, "thread_name", track_pid, tid), "process %ld,", &pid) == 1 ? pid
                                                                                        : track_pid;
}

static const char *process_of(const struct picture *p, const json_t *event)
{
    json_int_t pid = owner_of(p, (json_int_t)at(event, "pid"), (json_int_t)at(event, "tid"));

    return name_of(p, "process_name", pid, 0);
}

/* ---- which one ----------------------------------------------------------------------------- */

/* Was somebody held while it lasted? */
static bool held_somebody(json_t *const *holds, size_t n, const json_t *active)
{
    for (size_t i = 0; i < n; i++)
        if (overlaps(holds[i], at(active, "ts"), at(active, "ts") + at(active, "dur")))
            return true;
    return false;
}

/* Did a kernel of somebody else run when it began? */
static bool found_somebody(const struct picture *p, json_t *const *kernels, size_t n,
                           const json_t *active)
{
    for (size_t i = 0; i < n; i++)
        if (overlaps(kernels[i], at(active, "ts"), at(active, "ts")) &&
            !strstr(process_of(p, kernels[i]), "(rt)"))
            return true;
    return false;
}

/* From the middle outwards: the first that met a kernel and held somebody, or else held somebody. */
static const json_t *choose(const struct picture *p)
{
    json_t **actives = calloc(MOST_GATHERED, sizeof(json_t *)),
           **holds = calloc(MOST_GATHERED, sizeof(json_t *)),
           **kernels = calloc(MOST_GATHERED, sizeof(json_t *)), *chosen = NULL;
    size_t all = actives ? gather(p->events, "X", "cut in", actives) : 0,
           held = holds ? gather(p->events, "X", "hold", holds) : 0,
           ran = kernels ? gather(p->events, "X", "kernel", kernels) : 0;

    for (size_t n = 0; n < 2 * all && n < MOST_CANDIDATES; n++) {
        size_t step = (n + 1) / 2, i = n % 2 ? all / 2 - step : all / 2 + step;
        if (i >= all || !held_somebody(holds, held, actives[i])) /* wraps below 0 */
            continue;
        chosen = chosen ? chosen : actives[i];
        if (found_somebody(p, kernels, ran, actives[i])) {
            chosen = actives[i];
            break;
        }
    }
    free(actives);
    free(holds);
    free(kernels);
    return chosen;
}

/* ---- tracks -------------------------------------------------------------------------------- */

enum { ORDER_CUT_IN, ORDER_HOLD, ORDER_GPU, ORDER_CALLS, ORDERS };

/* Rows from top to bottom: who is active, who is held, what the GPU runs (simulated, or timed), who
 * calls. */
static int order_of(const json_t *event)
{
    static const struct {
        const char *category;
        int order;
    } orders[] = {{"cut in", ORDER_CUT_IN},
                  {"hold", ORDER_HOLD},
                  {"kernel", ORDER_GPU},
                  {"copy", ORDER_GPU},
                  {"device", ORDER_GPU}};

    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
        if (strcmp(text(event, "cat"), orders[i].category) == 0)
            return orders[i].order;
    return ORDER_CALLS;
}

static int by_order(const void *a, const void *b)
{
    const struct track *x = a, *y = b;

    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return (x->tid > y->tid) - (x->tid < y->tid);
}

static struct track *track_of(struct picture *p, const json_t *event)
{
    json_int_t pid = (json_int_t)at(event, "pid"), tid = (json_int_t)at(event, "tid");

    for (size_t i = 0; i < p->tracks; i++)
        if (p->track[i].pid == pid && p->track[i].tid == tid)
            return &p->track[i];
    if (p->tracks == MOST_TRACKS)
        return NULL;
    p->track[p->tracks] = (struct track){pid, tid, order_of(event), 0};
    return &p->track[p->tracks++];
}

static void find_tracks(struct picture *p)
{
    json_t *event;
    size_t i;

    /* The kinds that matter first, should there be too many tracks. */
    for (int order = 0; order < ORDERS; order++)
        json_array_foreach(p->events, i, event)
        {
            if (is_slice(event, NULL) && order_of(event) == order &&
                overlaps(event, p->from_us, p->to_us))
                track_of(p, event);
        }
    qsort(p->track, p->tracks, sizeof(*p->track), by_order);
}

/* ---- drawing ------------------------------------------------------------------------------- */

static double x_of(const struct picture *p, double us)
{
    double share = (us - p->from_us) / (p->to_us - p->from_us);

    return LABEL + fmin(fmax(share, 0), 1) * (WIDTH - LABEL - 10);
}

static const char *fill_of(const struct picture *p, const json_t *event)
{
    const char *process = process_of(p, event);

    if (order_of(event) == ORDER_HOLD)
        return "url(#held)";
    if (strcmp(text(event, "cat"), "wait") == 0)
        return "#bbbbbb";
    return strstr(process, "(rt)") ? "#0072b2" : strstr(process, "(be") ? "#e69f00" : "#009e73";
}

static void draw_slice(FILE *out, const struct picture *p, size_t row, const json_t *event)
{
    double from = x_of(p, at(event, "ts")), to = x_of(p, at(event, "ts") + at(event, "dur"));
    const char *fill = fill_of(p, event), *name = text(event, "name");
    double columns = (to - from - 6) / COLUMN;
    bool dark = strcmp(fill, "#0072b2") == 0 || strcmp(fill, "#009e73") == 0;

    fprintf(out,
            "<rect x=\"%.2f\" y=\"%zu\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"#222\" "
            "stroke-width=\"0.4\"><title>",
            from, TOP + row * ROW + 3, fmax(to - from, 0.8), ROW - 6, fill);
    html_text(out, kernel_name(name, KERNEL_NAME_EVENT, false));
    fprintf(out, ", %.1f us from %.1f us on</title></rect>\n", at(event, "dur"),
            at(event, "ts") - p->zero_us);
    if (columns < (double)strlen(name) && columns < LEAST_LABEL)
        return;
    fprintf(out, "<text x=\"%.2f\" y=\"%zu\" text-anchor=\"middle\" fill=\"%s\">", (from + to) / 2,
            TOP + row * ROW + 16, dark ? "#fff" : "#000");
    html_text(out, kernel_name(name, (size_t)columns, false));
    fprintf(out, "</text>\n");
}

static void draw_label(FILE *out, const struct picture *p, size_t row)
{
    const struct track *t = &p->track[row];
    const char *process = name_of(p, "process_name", t->pid, 0),
               *owner = name_of(p, "process_name", owner_of(p, t->pid, t->tid), 0),
               *thread = name_of(p, "thread_name", t->pid, t->tid);
    char label[160], number[32];

    snprintf(number, sizeof(number), "thread %" JSON_INTEGER_FORMAT, t->tid);
    if (owner_of(p, t->pid, t->tid) != t->pid)
        snprintf(label, sizeof(label), "%s: %s", process, owner);
    else
        snprintf(label, sizeof(label), "%s, %s", process, thread[0] ? thread : number);
    if (strlen(label) > 40)
        snprintf(label + 37, 4, "...");
    fprintf(out,
            "<line x1=\"0\" x2=\"%d\" y1=\"%zu\" y2=\"%zu\" stroke=\"#ddd\"/>\n"
            "<text x=\"4\" y=\"%zu\">",
            WIDTH, TOP + row * ROW, TOP + row * ROW, TOP + row * ROW + 16);
    html_text(out, label);
    fprintf(out, "</text>\n");
}

/* A round step that gives 5 to 12 marks. */
static double axis_step(double span_us)
{
    double step = pow(10, floor(log10(span_us / 5)));

    return span_us / step > 25 ? step * 5 : span_us / step > 12 ? step * 2 : step;
}

static void draw_axis(FILE *out, const struct picture *p)
{
    double step = axis_step(p->to_us - p->from_us);
    size_t bottom = TOP + p->tracks * ROW;

    for (double us = ceil((p->from_us - p->zero_us) / step) * step; us <= p->to_us - p->zero_us;
         us += step) {
        double x = x_of(p, p->zero_us + us);
        fprintf(out,
                "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%d\" y2=\"%zu\" stroke=\"#ddd\"/>"
                "<text x=\"%.2f\" y=\"%zu\" text-anchor=\"middle\">%g</text>\n",
                x, x, TOP, bottom, x, bottom + 15, round(us * 1000) / 1000);
    }
    fprintf(out,
            "<text x=\"%d\" y=\"%zu\" text-anchor=\"middle\">microseconds from the cut-in</text>\n",
            (LABEL + WIDTH) / 2, bottom + 32);
}

static void draw_cut_in(FILE *out, const struct picture *p)
{
    double x = x_of(p, p->zero_us);

    fprintf(out,
            "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%d\" y2=\"%zu\" stroke=\"#d00\" "
            "stroke-width=\"1.5\" stroke-dasharray=\"5 3\"/>"
            "<text x=\"%.2f\" y=\"%d\" fill=\"#d00\" text-anchor=\"middle\">cut in</text>\n",
            x, x, TOP - 6, TOP + p->tracks * ROW, x, TOP - 10);
}

static void draw_legend(FILE *out)
{
    static const struct {
        const char *fill, *what;
    } legend[] = {{"#0072b2", "real time"},
                  {"#e69f00", "best effort"},
                  {"url(#held)", "held"},
                  {"#bbbbbb", "waits for the GPU"}};

    for (int i = 0; i < 4; i++)
        fprintf(out,
                "<rect x=\"%d\" y=\"6\" width=\"14\" height=\"12\" fill=\"%s\" stroke=\"#222\" "
                "stroke-width=\"0.4\"/><text x=\"%d\" y=\"16\">%s</text>\n",
                LABEL + 150 * i, legend[i].fill, LABEL + 150 * i + 20, legend[i].what);
}

static void draw(FILE *out, const struct picture *p)
{
    size_t i, drawn = 0, height = TOP + p->tracks * ROW + 40;
    json_t *event;

    fprintf(
        out,
        "<div class=\"plot\"><svg class=\"timeline\" viewBox=\"0 0 %d %zu\" role=\"img\" "
        "aria-label=\"timeline of one "
        "cut-in\" font-family=\"sans-serif\" font-size=\"12\">\n<defs><pattern id=\"held\" "
        "width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><rect width=\"6\" height=\"6\" "
        "fill=\"#f2f2f2\"/><path d=\"M0 6L6 0\" stroke=\"#888\"/></pattern></defs>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        WIDTH, height);
    draw_legend(out);
    for (size_t row = 0; row < p->tracks; row++)
        draw_label(out, p, row);
    draw_axis(out, p);
    for (size_t row = 0; row < p->tracks; row++)
        json_array_foreach(p->events, i, event)
        {
            if (is_slice(event, NULL) && drawn < MOST_SLICES &&
                (json_int_t)at(event, "pid") == p->track[row].pid &&
                (json_int_t)at(event, "tid") == p->track[row].tid &&
                overlaps(event, p->from_us, p->to_us)) {
                draw_slice(out, p, row, event);
                drawn++;
            }
        }
    draw_cut_in(out, p);
    fprintf(out, "</svg></div>\n");
}

bool report_timeline(FILE *out, const json_t *trace)
{
    struct picture p = {.events = json_object_get(trace, "traceEvents"),
                        .names = calloc(MOST_GATHERED, sizeof(json_t *))};
    const json_t *active = NULL;
    double length_us;

    if (p.names) {
        p.named = gather(p.events, "M", NULL, p.names);
        active = choose(&p);
    }
    if (active) {
        p.zero_us = at(active, "ts");
        length_us = fmin(at(active, "dur"), MOST_US);
        p.from_us = p.zero_us - fmax(length_us * 0.3, 150);
        p.to_us = p.zero_us + length_us + fmax(length_us * 0.3, 150);
        find_tracks(&p);
        draw(out, &p);
    }
    free(p.names);
    return active != NULL;
}
