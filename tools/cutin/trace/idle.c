/*
 * idle.c - finds where a GPU idled although a process had work for it (see idle.h), in one walk
 * through all events in the order of time.
 */
#include "idle.h"
#include "common/level.h"
#include "common/list.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdlib.h>

/* Per process: the number of a stream that has ended is used again. */
enum { MOST_STREAMS = 65536 };

/* The state that a moment changes. HELD and ACTIVE are in the order of enum trace_time. */
enum what { RUNNING, PENDING, BUFFERED, IN_FLIGHT, HELD, ACTIVE, WHATS };

struct moment {
    uint64_t ns;
    uint32_t order; /* orders moments of the same time */
    uint16_t process, what;
    int64_t change;
};

struct process {
    uint32_t pid, level;
    uint64_t from_ns, to_ns;
    int64_t now[WHATS];
    bool by_above;                    /* a client above was active during this hold */
    enum idle_cause why;              /* the GPU idles for this cause */
    uint64_t undecided_ns, undecided; /* above is active, before its work or after it */
};

struct walk {
    struct process *p;
    size_t n;
    struct moment *at;
    size_t moments, room;
    int rc; /* once this is -ENOMEM nothing more is put */
    bool logged;
    int64_t running;
    struct idle *idle;
};

static void put(struct walk *w, uint64_t ns, size_t process, enum what what, int64_t change)
{
    if (w->rc != 0 || !change)
        return;
    w->rc = list_grow(&w->at, &w->room, w->moments, sizeof(*w->at));
    if (w->rc != 0)
        return;
    w->at[w->moments] =
        (struct moment){ns, (uint32_t)w->moments, (uint16_t)process, (uint16_t)what, change};
    w->moments++;
}

static void put_span(struct walk *w, size_t process, enum what what, uint64_t from_ns,
                     uint64_t to_ns)
{
    put(w, from_ns, process, what, 1);
    put(w, to_ns, process, what, -1);
}

/* The state of a stream at its last record. */
struct stream {
    uint32_t buffered, in_flight;
    struct trace_times times;
};

static void put_trace(struct walk *w, size_t process, const struct trace_view *v)
{
    struct stream *streams = calloc(MOST_STREAMS, sizeof(*streams));
    struct process *p = &w->p[process];
    struct trace_record r;
    struct trace_span span;

    if (!streams)
        w->rc = -ENOMEM;
    *p = (struct process){.pid = v->file->header.pid,
                          .level = v->file->header.level,
                          .from_ns = UINT64_MAX,
                          .why = IDLE_NONE};
    for (uint64_t i = v->first; i < v->end && w->rc == 0; i++) {
        if (!trace_view_get(v, i, &r))
            continue;
        struct stream *s = &streams[r.stream % MOST_STREAMS];
        enum trace_time time = trace_times_follow(&s->times, &r, &span);

        p->from_ns = r.ns < p->from_ns ? r.ns : p->from_ns;
        p->to_ns = r.ns > p->to_ns ? r.ns : p->to_ns;
        if (time != TRACE_TIMES)
            put_span(w, process, HELD + (uint32_t)time, span.from_ns, span.to_ns);
        if (!trace_of_queue(&r))
            continue;
        put(w, r.ns + r.queue.took_ns, process, BUFFERED, (int64_t)r.queue.buffered - s->buffered);
        put(w, r.ns + r.queue.took_ns, process, IN_FLIGHT,
            (int64_t)r.queue.in_flight - s->in_flight);
        s->buffered = r.queue.buffered;
        s->in_flight = r.queue.in_flight;
    }
    if (p->to_ns && v->file->header.as_of_ns > p->to_ns) /* nothing happened in between */
        p->to_ns = v->file->header.as_of_ns;
    for (uint32_t i = 0; i < MOST_STREAMS * TRACE_TIMES && w->rc == 0; i++) {
        uint64_t from_ns = streams[i / TRACE_TIMES].times.open[i % TRACE_TIMES].from_ns;
        if (from_ns)
            put_span(w, process, HELD + i % TRACE_TIMES, from_ns, p->to_ns);
    }
    free(streams);
}

/* Waits of a stream and host functions do not occupy the GPU. Work of a process that is not traced
 * also makes the GPU busy. */
static void put_log(struct walk *w, FILE *log)
{
    struct device_work work;
    char *text = NULL;
    size_t room = 0;

    rewind(log);
    while (w->rc == 0 && getline(&text, &room, log) > 0) {
        size_t of = 0;

        if (!device_log_parse(text, &work) || strcmp(work.kind, "wait") == 0 ||
            strcmp(work.kind, "host") == 0)
            continue;
        while (of < w->n && w->p[of].pid != (uint32_t)work.pid)
            of++;
        if (of < w->n)
            put_span(w, of, PENDING, work.submit_ns, work.start_ns);
        put_span(w, of, RUNNING, work.start_ns, work.end_ns);
    }
    free(text);
}

static int compare(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;

    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static bool above_active(const struct walk *w, const struct process *p)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->p[i].level > p->level && w->p[i].now[ACTIVE] > 0)
            return true;
    return false;
}

/* Returns ABOVE_STARTS also while it is not known whether above will start work or has ended it. */
static enum idle_cause cause_of(const struct walk *w, const struct process *p)
{
    if (p->now[BUFFERED] <= 0 && p->now[PENDING] <= 0)
        return IDLE_NONE;
    if (above_active(w, p))
        return IDLE_ABOVE_STARTS;
    if (p->now[PENDING] > 0)
        return IDLE_START;
    if (p->now[HELD] > 0)
        return p->by_above ? IDLE_RELEASE : IDLE_OTHERS;
    return p->now[IN_FLIGHT] > 0 ? IDLE_END : IDLE_SUBMISSION;
}

/* Counts what was lost from `from_ns` to `to_ns`, a time without any change. */
static void lost_add(struct walk *w, uint64_t from_ns, uint64_t to_ns)
{
    bool busy = w->running > 0;

    for (size_t i = 0; i < w->n && !w->logged; i++)
        busy |= w->p[i].now[IN_FLIGHT] > 0 || w->p[i].now[ACTIVE] > 0;
    for (size_t i = 0; i < w->n; i++) {
        struct process *p = &w->p[i];
        p->by_above = p->now[HELD] > 0 && (p->by_above || above_active(w, p));
        enum idle_cause why = busy ? IDLE_NONE : cause_of(w, p);

        if (from_ns < p->from_ns || to_ns > p->to_ns)
            continue;
        if (why == IDLE_ABOVE_STARTS) {
            p->undecided_ns += to_ns - from_ns;
            p->undecided += p->why != why;
        } else if (why != IDLE_NONE) {
            w->idle[i].by[why].ns += to_ns - from_ns;
            w->idle[i].by[why].times += p->why != why;
        }
        p->why = why;
    }
}

/* When work above starts or it becomes inactive, this tells the cause of what its holds cost. */
static void change(struct walk *w, const struct moment *m)
{
    struct process *above = m->process < w->n ? &w->p[m->process] : NULL;
    bool starts = m->what == RUNNING && m->change > 0;
    enum idle_cause why = starts ? IDLE_ABOVE_STARTS : IDLE_ABOVE_ENDED;

    if (m->what == RUNNING)
        w->running += m->change;
    if (!above)
        return;
    above->now[m->what] += m->change;
    if (!starts && (m->what != ACTIVE || above->now[ACTIVE] > 0))
        return;
    for (size_t i = 0; i < w->n; i++) {
        struct process *p = &w->p[i];

        if (above->level <= p->level)
            continue;
        w->idle[i].by[why].ns += p->undecided_ns;
        w->idle[i].by[why].times += p->undecided;
        p->undecided_ns = p->undecided = 0;
    }
}

int idle_read(const struct trace_view *views, size_t n, FILE *const *logs, size_t logs_n,
              struct idle *idle)
{
    struct process *p = calloc(n + 1, sizeof(*p));
    struct walk w = {.p = p,
                     .n = n,
                     .rc = p && n < UINT16_MAX ? 0 : -ENOMEM,
                     .logged = logs_n > 0,
                     .idle = idle};
    uint64_t from_ns = 0; /* what one trace lost is left out of all */

    memset(idle, 0, n * sizeof(*idle));
    for (size_t i = 0; i < n && w.rc == 0; i++) {
        put_trace(&w, i, &views[i]);
        if (views[i].lost && !views[i].file->header.keep_first && p[i].from_ns > from_ns)
            from_ns = p[i].from_ns;
    }
    for (size_t i = 0; i < logs_n && w.rc == 0; i++)
        put_log(&w, logs[i]);
    for (size_t i = 0; i < n && w.rc == 0; i++) {
        if (p[i].from_ns < from_ns)
            p[i].from_ns = from_ns;
        if (p[i].from_ns < p[i].to_ns)
            idle[i].traced_ns = p[i].to_ns - p[i].from_ns;
    }
    if (w.rc == 0 && w.moments)
        qsort(w.at, w.moments, sizeof(*w.at), compare);
    for (size_t i = 0; i < w.moments && w.rc == 0; i++) {
        if (i > 0 && w.at[i].ns > w.at[i - 1].ns)
            lost_add(&w, w.at[i - 1].ns, w.at[i].ns);
        change(&w, &w.at[i]);
    }
    free(w.at);
    free(p);
    return w.rc;
}

static const char *const says[] = {
#define IDLE_CAUSE(cause, says) says,
    IDLE_CAUSES(IDLE_CAUSE)
#undef IDLE_CAUSE
};

void idle_print(FILE *out, const struct trace_view *views, size_t n, bool logged,
                const struct idle *idle)
{
    bool any = false;

    for (size_t i = 0; i < n; i++) {
        const struct trace_header *h = &views[i].file->header;
        double seconds = (double)idle[i].traced_ns / 1e9, all = 0;
        char program[sizeof(h->program) + 1];

        for (int why = 0; why < IDLE_CAUSE_COUNT; why++)
            all += (double)idle[i].by[why].ns;
        if (all <= 0 || seconds <= 0)
            continue;
        snprintf(program, sizeof(program), "%.*s", (int)sizeof(h->program), h->program);
        fprintf(out, "%s%s, %" PRIu32 " (%s): the GPU idled while it had work, in %.1f s%s\n",
                any ? "\n" : "", printable(program), h->pid, level_name(h->level), seconds,
                logged ? "" : " (as the processes knew it)");
        fprintf(out, "  %-44s %8s %8s %8s\n", "", "ms/s", "times", "mean us");
        for (int why = 0; why < IDLE_CAUSE_COUNT; why++)
            if (idle[i].by[why].times)
                fprintf(out, "  %-44s %8.1f %8" PRIu64 " %8.0f\n", says[why],
                        (double)idle[i].by[why].ns / 1e6 / seconds, idle[i].by[why].times,
                        (double)idle[i].by[why].ns / 1e3 / (double)idle[i].by[why].times);
        fprintf(out, "  %-44s %8.1f\n", "all of it", all / 1e6 / seconds);
        any = true;
    }
    if (!any)
        fputs("the GPU never idled while work waited for it\n", out);
}
