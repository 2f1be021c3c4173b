/*
 * bench_trace.c - read the traces of workers, and the device's log (see bench_trace.h).
 */
#include "bench_trace.h"
#include "tools/cutin/trace/device_log.h"
#include "tools/cutin/trace/trace_view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *const bench_trace_methods[] = {
    [BENCH_TRACE_LOG] = "the simulated device's log",
    [BENCH_TRACE_EVENTS] = "timing events behind every kernel, less its duration",
};

int bench_trace_open(struct bench_trace *t, enum bench_trace_method method)
{
    int rc = scratch_make(&t->scratch, "cutin", sizeof(t->scratch.folder));

    t->method = method;
    if (rc != 0)
        return rc;
    scratch_path(&t->scratch, "%p.trace", t->pattern, sizeof(t->pattern));
    scratch_path(&t->scratch, "device.log", t->log, sizeof(t->log));
    return 0;
}

void bench_trace_path(const struct bench_trace *t, pid_t pid, char *out, size_t size)
{
    char name[32];

    snprintf(name, sizeof(name), "%d.trace", (int)pid);
    scratch_path(&t->scratch, name, out, size);
}

void bench_trace_forget(const struct bench_trace *t, pid_t pid)
{
    char path[300];

    bench_trace_path(t, pid, path, sizeof(path));
    unlink(path);
}

void bench_trace_close(struct bench_trace *t)
{
    scratch_remove(&t->scratch);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Where what one process did belongs. */
struct side {
    struct trace_spans *works;
    uint64_t kernel_ns;                               /* by itself */
    struct trace_spans *cut_ins, *cut_outs, *submits; /* NULL: not of this side */
};

static int add_time(struct trace_spans *t, uint64_t ns)
{
    return t ? trace_spans_add(t, ns, ns) : 0;
}

static int add_record(const struct side *side, const struct trace_clocks *clocks, bool timed,
                      const struct trace_record *r)
{
    uint64_t start_ns, took_ns;

    switch (r->kind) {
    case TRACE_CUT_IN:
        return add_time(side->cut_ins, r->ns);
    case TRACE_CUT_OUT:
        return add_time(side->cut_outs, r->ns);
    case TRACE_SUBMITTED:
        return add_time(side->submits, r->ns);
    case TRACE_SAMPLE:
        if (!timed || !trace_clocks_place(clocks, r, &start_ns, &took_ns))
            break;
        if (took_ns > side->kernel_ns)
            start_ns += took_ns - side->kernel_ns;
        return trace_spans_add(side->works, start_ns,
                               start_ns + (took_ns < side->kernel_ns ? took_ns : side->kernel_ns));
    }
    return 0;
}

static int read_trace(struct bench_trace *t, pid_t pid, uint64_t from_ns, const struct side *side,
                      char *why, size_t why_bytes)
{
    struct trace_clocks clocks;
    struct trace_view v;
    struct trace_record r;
    char path[300];
    int rc;

    bench_trace_path(t, pid, path, sizeof(path));
    rc = trace_view_open(&v, path, why, why_bytes);
    if (rc != 0)
        return rc;
    trace_clocks_read(&clocks, &v);
    for (uint64_t i = v.first; i < v.end && rc == 0; i++)
        if (trace_view_get(&v, i, &r) && r.ns >= from_ns)
            rc = add_record(side, &clocks, t->method == BENCH_TRACE_EVENTS, &r);
    trace_view_close(&v);
    return rc;
}

/* From where it was left; a line that is not whole yet is left for the next time. */
static int read_log(struct bench_trace *t, pid_t rt, pid_t be, struct stage_sources *out)
{
    FILE *log = fopen(t->log, "re");
    struct device_work w;
    char *text = NULL;
    size_t room = 0;
    ssize_t n;
    int rc = 0;

    if (!log)
        return -errno;
    fseek(log, t->log_at, SEEK_SET);
    while (rc == 0 && (n = getline(&text, &room, log)) > 0 && text[n - 1] == '\n') {
        t->log_at += (long)n;
        if (!device_log_parse(text, &w) || !device_work_drawn(&w) || strcmp(w.kind, "kernel") != 0)
            continue;
        if (w.pid == rt || w.pid == be)
            rc = trace_spans_add(&out->of[w.pid == rt ? SOURCE_RT : SOURCE_BE], w.start_ns,
                                 w.end_ns);
    }
    free(text);
    fclose(log);
    return rc;
}

int bench_trace_read(struct bench_trace *t, pid_t rt, pid_t be, uint64_t from_ns,
                     struct stage_sources *out, char *why, size_t why_bytes)
{
    struct trace_spans *of = out->of;
    struct side real_time = {of + SOURCE_RT, t->rt_kernel_ns, of + SOURCE_CUT_IN,
                             of + SOURCE_CUT_OUT, NULL},
                best_effort = {of + SOURCE_BE, t->be_kernel_ns, NULL, NULL, of + SOURCE_SUBMIT};
    int rc = read_trace(t, rt, from_ns, &real_time, why, why_bytes);

    if (rc == 0)
        rc = read_trace(t, be, from_ns, &best_effort, why, why_bytes);
    if (rc == 0 && t->method == BENCH_TRACE_LOG && (rc = read_log(t, rt, be, out)) != 0)
        snprintf(why, why_bytes, "%s: %s", t->log, strerror(-rc));
    return rc;
}
