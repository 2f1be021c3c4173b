/*
 * trace_json.c - writes traces as Trace Event Format (see trace_view.h).
 */
#include "trace_view.h"
#include "tools/cutin/kernel_name.h"
#include "tools/cutin/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/level.h"

/* Tracks that are no threads have numbers above every thread id. For each stream they are in the
 * order of the kinds, of which the first two are those of enum trace_time. */
enum track { TRACK_QUEUE, TRACK_ACTIVE, TRACK_DEVICE, TRACKS };
static const char *const track_names[] = {"queue", "active", "GPU (timed)"};
enum {
    TRACK_FIRST = 100000000,
    GPU_PROCESS = 1000000000,
    MOST_STREAMS = 65536, /* in one process; others are left out */
    MOST_GPU_TRACKS = 4096,
    SHOW_EVERY = 1024, /* records from one show of the progress to the next */
};

/* What is open in a stream while its records are walked through. */
struct open_stream {
    struct trace_times times;
    bool named[TRACKS];
};

struct walk {
    struct trace_json *j;
    const struct trace_view *v;
    struct trace_clocks clocks;
    struct open_stream *stream; /* MOST_STREAMS */
    uint64_t last_ns;
    json_int_t pid;
};

/* Shows the progress. False: stop here. */
static bool proceed(const struct trace_json *j, double done, double of)
{
    progress_show((double)j->source + done / of, (double)j->sources, "trace");
    return !progress_cancel;
}

/* Takes the event. NULL (no memory): the event is left out. */
static void put(struct trace_json *j, json_t *event)
{
    if (!event)
        return;
    fputs(j->events++ ? ",\n" : "", j->out);
    json_dumpf(event, j->out, JSON_COMPACT | JSON_REAL_PRECISION(16));
    json_decref(event);
}

static const char *record_name(const struct walk *w, const struct trace_record *r)
{
    return kernel_name(trace_view_name(w->v, r->name), KERNEL_NAME_EVENT, w->j->mangled);
}

static double us(const struct trace_json *j, uint64_t ns)
{
    return ((double)ns - (double)j->origin_ns) / 1000.0;
}

static bool within(const struct trace_json *j, uint64_t ns)
{
    return ns >= j->origin_ns && (!j->end_ns || ns <= j->end_ns);
}

/* Takes ownership of `args`. */
static void put_slice(struct trace_json *j, json_int_t pid, json_int_t tid, const char *name,
                      const char *category, uint64_t from_ns, uint64_t took_ns, json_t *args)
{
    put(j, json_pack("{s:s,s:s,s:s,s:I,s:I,s:f,s:f,s:o}", "ph", "X", "name", name, "cat", category,
                     "pid", pid, "tid", tid, "ts", us(j, from_ns), "dur", (double)took_ns / 1000.0,
                     "args", args));
}

void trace_json_name(struct trace_json *j, int64_t pid, int64_t tid, const char *name)
{
    put(j, json_pack("{s:s,s:s,s:I,s:I,s:{s:s}}", "ph", "M", "name",
                     tid ? "thread_name" : "process_name", "pid", (json_int_t)pid, "tid",
                     (json_int_t)tid, "args", "name", name));
}

void trace_json_mark(struct trace_json *j, int64_t pid, int64_t tid, const char *name, uint64_t ns)
{
    if (within(j, ns))
        put(j,
            json_pack("{s:s,s:s,s:s,s:I,s:I,s:f,s:s}", "ph", "i", "name", name, "cat", "mark",
                      "pid", (json_int_t)pid, "tid", (json_int_t)tid, "ts", us(j, ns), "s", "p"));
}

void trace_json_slice(struct trace_json *j, int64_t pid, int64_t tid, const char *name,
                      uint64_t from_ns, uint64_t to_ns)
{
    if (from_ns < j->origin_ns)
        from_ns = j->origin_ns;
    put_slice(j, pid, tid, name, "mark", from_ns, to_ns - from_ns, json_object());
}

static void put_flow(const struct walk *w, const struct trace_record *r, const char *ph)
{
    put(w->j, json_pack("{s:s,s:s,s:s,s:o,s:I,s:I,s:f,s:s*}", "ph", ph, "name", "waits", "cat",
                        "queue", "id",
                        json_sprintf("%" JSON_INTEGER_FORMAT ".%u.%" PRIu64, w->pid, r->stream,
                                     r->queue.ticket),
                        "pid", w->pid, "tid", (json_int_t)r->tid, "ts", us(w->j, r->ns), "bp",
                        ph[0] == 'f' ? "e" : NULL));
}

static json_int_t track(struct walk *w, uint32_t stream, enum track kind)
{
    json_int_t tid = TRACK_FIRST + (json_int_t)stream * TRACKS + kind;
    char name[64];

    if (!w->stream[stream].named[kind]) {
        snprintf(name, sizeof(name), "stream %u: %s", stream, track_names[kind]);
        trace_json_name(w->j, w->pid, tid, name);
        w->stream[stream].named[kind] = true;
    }
    return tid;
}

/* Writes a time of being held, or active. */
static void put_time(struct walk *w, uint32_t stream, enum trace_time time, uint64_t from_ns,
                     uint64_t to_ns)
{
    bool cut = time == TRACE_TIME_ACTIVE;

    put_slice(w->j, w->pid, track(w, stream, (enum track)time), cut ? "active" : "held",
              cut ? "cut in" : "hold", from_ns, to_ns - from_ns, json_object());
}

static void walk_record(struct walk *w, const struct trace_record *r)
{
    uint64_t start_ns, took_ns, done_ns = r->ns + r->queue.took_ns;
    const char *category = "call", *mark = NULL;
    const uint32_t *g = r->kernel.grid;
    const uint16_t *b = r->kernel.block;
    enum track marked = TRACK_QUEUE;
    enum trace_time time;
    struct trace_span span;
    json_t *args = NULL;

    if (r->stream >= MOST_STREAMS || !within(w->j, r->ns))
        return;
    if (w->last_ns < r->ns)
        w->last_ns = r->ns;
    switch ((enum trace_kind)r->kind) {
    case TRACE_KERNEL:
        args = json_pack("{s:i,s:i,s:o,s:o,s:i,s:s*}", "stream", (int)r->stream, "op",
                         (int)r->kernel.op, "grid", json_sprintf("%u x %u x %u", g[0], g[1], g[2]),
                         "block", json_sprintf("%u x %u x %u", b[0], b[1], b[2]), "shared",
                         (int)r->kernel.shared, "waits for",
                         r->kernel.waits ? "I/O of its own" : NULL);
        break;
    case TRACE_COPY:
        args = json_pack("{s:i,s:i,s:I}", "stream", (int)r->stream, "op", (int)r->copy.op, "bytes",
                         (json_int_t)r->copy.bytes);
        break;
    case TRACE_SYNC:
        category = "wait";
        args = json_object();
        break;
    case TRACE_BUFFERED:
        put_flow(w, r, "s");
        break;
    case TRACE_SUBMITTED:
        if (r->queue.ticket == UINT64_MAX)
            break;
        put_slice(w->j, w->pid, r->tid, "submit", "queue", r->ns, r->queue.took_ns,
                  json_pack("{s:i}", "stream", (int)r->stream));
        put_flow(w, r, "f");
        break;
    case TRACE_DROPPED:
        mark = "dropped";
        break;
    case TRACE_LIFTED:
        trace_json_mark(w->j, w->pid, r->tid, "cap lifted", r->ns);
        break;
    case TRACE_HELD:
        mark = "hold";
        break;
    case TRACE_CUT_IN:
        mark = "cut in";
        marked = TRACK_ACTIVE;
        break;
    case TRACE_SAMPLE:
        if (trace_clocks_convert(&w->clocks, r, &start_ns, &took_ns) && within(w->j, start_ns))
            put_slice(w->j, w->pid, track(w, r->stream, TRACK_DEVICE), record_name(w, r), "device",
                      start_ns, took_ns, json_pack("{s:i}", "op", (int)r->sample.op));
        break;
    default:
        break;
    }
    if (args) /* a call, of which each kind has its length at the same place */
        put_slice(w->j, w->pid, r->tid, record_name(w, r), category, r->ns, r->copy.took_ns, args);
    if (mark)
        trace_json_mark(w->j, w->pid, track(w, r->stream, marked), mark, r->ns);
    if (trace_of_queue(r) && within(w->j, done_ns))
        put(w->j, json_pack("{s:s,s:o,s:I,s:f,s:{s:i,s:i}}", "ph", "C", "name",
                            json_sprintf("stream %u", r->stream), "pid", w->pid, "ts",
                            us(w->j, done_ns), "args", "buffered", (int)r->queue.buffered,
                            "in flight", (int)r->queue.in_flight));
    time = trace_times_follow(&w->stream[r->stream].times, r, &span);
    if (time != TRACE_TIMES)
        put_time(w, r->stream, time, span.from_ns, span.to_ns);
}

void trace_json_add(struct trace_json *j, const struct trace_view *v)
{
    const struct trace_header *h = &v->file->header;
    struct walk w = {.j = j, .v = v, .pid = (json_int_t)h->pid};
    struct trace_record r;
    char name[160];
    int used;

    w.stream = calloc(MOST_STREAMS, sizeof(*w.stream));
    if (!w.stream)
        return;
    trace_clocks_read(&w.clocks, v);
    used = snprintf(name, sizeof(name), "%.*s (%s)", (int)sizeof(h->program) - 1, h->program,
                    level_name(h->level));
    if (v->lost)
        snprintf(name + used, sizeof(name) - (size_t)used, ", %" PRIu64 " records %s", v->lost,
                 h->keep_first ? "did not fit" : "were overwritten");
    trace_json_name(j, w.pid, 0, name);
    for (uint64_t i = v->first, n = v->end - v->first; i < v->end; i++) {
        if ((i - v->first) % SHOW_EVERY == 0 && !proceed(j, (double)(i - v->first), (double)n))
            break;
        if (trace_view_get(v, i, &r))
            walk_record(&w, &r);
    }
    j->source++;
    if (j->end_ns)
        w.last_ns = j->end_ns;
    for (uint32_t i = 0; i < MOST_STREAMS * TRACE_TIMES; i++) {
        uint64_t from_ns = w.stream[i / TRACE_TIMES].times.open[i % TRACE_TIMES].from_ns;
        if (from_ns && w.last_ns >= from_ns) /* not over when the trace ended */
            put_time(&w, i / TRACE_TIMES, i % TRACE_TIMES, from_ns, w.last_ns);
    }
    free(w.stream);
}

uint64_t trace_json_add_log(struct trace_json *j, FILE *log)
{
    uint64_t *seen = calloc(MOST_GPU_TRACKS, sizeof(*seen)), works = 0, took_ns, key;
    size_t tracks = 0, lines = 0, room = 0, i;
    struct device_work l;
    struct stat st = {0};
    char *text = NULL, name[64];

    fstat(fileno(log), &st);
    if (seen)
        trace_json_name(j, GPU_PROCESS, 0, "GPU (simulated)");
    while (seen && getline(&text, &room, log) > 0) {
        if (lines++ % SHOW_EVERY == 0 && !proceed(j, (double)ftell(log), (double)st.st_size + 1))
            break;
        if (!device_log_parse(text, &l) || !within(j, l.start_ns))
            continue;
        /* Streams of the device have numbers of their own. A track is named when first met. */
        key = (uint64_t)(uint32_t)l.pid << 32 | l.stream;
        for (i = 0; i < tracks && seen[i] != key;)
            i++;
        if (i == tracks && i < MOST_GPU_TRACKS) {
            seen[tracks++] = key;
            snprintf(name, sizeof(name), "process %d, stream %u", l.pid, l.stream);
            trace_json_name(j, GPU_PROCESS, (json_int_t)i + 1, name);
        }
        took_ns = l.end_ns - l.start_ns;
        put_slice(j, GPU_PROCESS, (json_int_t)i + 1,
                  l.name[0] == '-' ? l.kind : kernel_name(l.name, KERNEL_NAME_EVENT, j->mangled),
                  l.kind, l.start_ns, took_ns,
                  json_pack("{s:i,s:f,s:f}", "pid", l.pid, "alone us", (double)l.cost_ns / 1000.0,
                            "paused us", ((double)took_ns - (double)l.cost_ns) / 1000.0));
        works++;
    }
    j->source++;
    free(text);
    free(seen);
    return works;
}

void trace_json_begin(struct trace_json *j, FILE *out, uint64_t origin_ns, size_t sources)
{
    *j = (struct trace_json){.out = out, .origin_ns = origin_ns, .sources = sources};
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
}

int trace_json_end(struct trace_json *j)
{
    fputs(progress_cancel ? "\n],\"interrupted\":true}\n" : "\n]}\n", j->out);
    return fflush(j->out) == 0 && !ferror(j->out) ? 0 : -EIO;
}
