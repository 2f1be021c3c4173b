/*
 * bench_stages.c - the stages of all cut-ins of a run, from the traces of the workers and the
 * device's log.
 */
#include "bench.h"
#include "tools/cutin/nap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    BEFORE_NS = 50000000
}; /* what was submitted and began before the first request of a block */

const char *const bench_trace_methods[] = {
    [BENCH_TRACE_LOG] = "the simulated device's log",
    [BENCH_TRACE_EVENTS] = "timing events behind every kernel, less its duration",
};

int bench_stages_open(struct bench *b)
{
    struct bench_trace *t = &b->trace;
    int rc = scratch_make(&t->scratch, "cutin", sizeof(t->scratch.folder));

    scratch_path(&t->scratch, "%p.trace", t->pattern, sizeof(t->pattern));
    scratch_path(&t->scratch, "device.log", t->log, sizeof(t->log));
    for (int i = 0; i < STAGE_COUNT && rc == 0; i++) {
        b->stages.ns[i] = calloc(b->plan.samples, sizeof(uint64_t));
        rc = b->stages.ns[i] ? 0 : -ENOMEM;
    }
    return rc;
}

void bench_trace_path(const struct bench *b, pid_t pid, char *out, size_t size)
{
    snprintf(out, size, "%s/%d.trace", b->trace.scratch.folder, (int)pid);
}

/* ---- reading -------------------------------------------------------------------------------- */

static int add_time(struct trace_spans *t, uint64_t ns)
{
    return trace_spans_add(t, ns, ns);
}

/* With events, the one before a kernel is when its stream had come to it, the one behind it when it
 * ended: it took `kernel_ns`, as it does by itself. */
static int add_record(struct stage_sources *out, bool rt, uint64_t kernel_ns,
                      const struct trace_clocks *clocks, const struct trace_record *r)
{
    uint64_t start_ns, took_ns;

    if (rt && r->kind == TRACE_CUT_IN)
        return add_time(&out->of[SOURCE_CUT_IN], r->ns);
    if (rt && r->kind == TRACE_CUT_OUT)
        return add_time(&out->of[SOURCE_CUT_OUT], r->ns);
    if (!rt && r->kind == TRACE_SUBMITTED)
        return add_time(&out->of[SOURCE_SUBMIT], r->ns);
    if (r->kind != TRACE_SAMPLE || !kernel_ns ||
        !trace_clocks_place(clocks, r, &start_ns, &took_ns))
        return 0;
    if (took_ns > kernel_ns) {
        start_ns += took_ns - kernel_ns;
        took_ns = kernel_ns;
    }
    return trace_spans_add(&out->of[rt ? SOURCE_RT : SOURCE_BE], start_ns, start_ns + took_ns);
}

/* What a process did from `from_ns` on. */
static int read_trace(struct bench *b, bool rt, uint64_t from_ns)
{
    uint64_t kernel_ns = (rt ? b->plan.rt_kernel_us : b->plan.be_kernel_us) * NS_PER_US;
    struct trace_clocks clocks;
    struct trace_view v;
    struct trace_record r;
    char path[300];
    int rc;

    bench_trace_path(b, (rt ? b->rt : b->be)[BENCH_CUTIN].pid, path, sizeof(path));
    rc = trace_view_until(&v, path, clock_ns(), b->why, sizeof(b->why));
    if (rc != 0)
        return rc;
    trace_clocks_read(&clocks, &v);
    for (uint64_t i = v.first; i < v.end && rc == 0; i++)
        if (trace_view_get(&v, i, &r) && r.ns >= from_ns)
            rc = add_record(&b->stages.sources, rt,
                            b->plan.method == BENCH_TRACE_EVENTS ? kernel_ns : 0, &clocks, &r);
    trace_view_close(&v);
    return rc;
}

/* From where it was left; a line that is not whole yet is left for the next time. */
static int read_log(struct bench *b)
{
    FILE *log = fopen(b->trace.log, "re");
    struct device_work w;
    char *text = NULL;
    size_t room = 0;
    ssize_t n;
    int rc = 0;

    if (!log)
        return -errno;
    fseek(log, b->trace.log_at, SEEK_SET);
    while (rc == 0 && (n = getline(&text, &room, log)) > 0 && text[n - 1] == '\n') {
        b->trace.log_at += (long)n;
        if (!device_log_parse(text, &w) || strcmp(w.kind, "kernel") != 0)
            continue;
        if (w.pid == b->rt[BENCH_CUTIN].pid)
            rc = trace_spans_add(&b->stages.sources.of[SOURCE_RT], w.start_ns, w.end_ns);
        if (w.pid == b->be[BENCH_CUTIN].pid)
            rc = trace_spans_add(&b->stages.sources.of[SOURCE_BE], w.start_ns, w.end_ns);
    }
    free(text);
    fclose(log);
    return rc;
}

int bench_stages_take(struct bench *b, const struct worker_sample *sample, uint32_t n)
{
    struct bench_stages *s = &b->stages;
    struct stage_sample one;
    int rc;

    if (n == 0)
        return 0;
    stage_sources_clear(&s->sources);
    rc = read_trace(b, true, sample->start_ns - BEFORE_NS);
    if (rc == 0)
        rc = read_trace(b, false, sample->start_ns - BEFORE_NS);
    if (rc == 0 && b->plan.method == BENCH_TRACE_LOG && (rc = read_log(b)) != 0)
        snprintf(b->why, sizeof(b->why), "%s: %s", b->trace.log, strerror(-rc));
    if (rc != 0)
        return rc;
    stage_sources_sort(&s->sources);
    for (uint32_t i = 0; i < n; i++) {
        stages_of(&s->sources, &sample[i], &one);
        for (int k = 0; k < STAGE_COUNT; k++)
            if (one.ns[k] != STAGE_NONE)
                s->ns[k][s->n[k]++] = one.ns[k];
        s->paused += one.paused;
    }
    s->cut_ins += n;
    return 0;
}

void bench_stages_describe(struct bench *b)
{
    for (int i = 0; i < STAGE_COUNT && b->plan.stages; i++)
        figures_make(&b->stages.figures[i], b->stages.ns[i], b->stages.n[i]);
}

void bench_stages_free(struct bench *b)
{
    for (int i = 0; i < STAGE_COUNT; i++)
        free(b->stages.ns[i]);
    stage_sources_free(&b->stages.sources);
}
