/*
 * stages.c - splits a cut-in into its parts, and all cut-ins of a run.
 */
#include "bench.h"
#include "common/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct stage_row stage_rows[STAGE_COUNT] = {
#define STAGE_ROW(name, is) {#name, is},
    STAGES(STAGE_ROW)
#undef STAGE_ROW
};

void stage_sources_sort(struct stage_sources *s)
{
    for (int i = 0; i < SOURCES; i++)
        if (s->of[i].n)
            qsort(s->of[i].at, s->of[i].n, sizeof(*s->of[i].at), figures_compare);
}

void stage_sources_free(struct stage_sources *s)
{
    for (int i = 0; i < SOURCES; i++)
        free(s->of[i].at);
    *s = (struct stage_sources){0};
}

/* The index of the first span that begins at `ns` or later. */
static size_t first_from(const struct trace_spans *list, uint64_t ns)
{
    size_t low = 0, high = list->n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list->at[middle].from_ns < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first moment from `from_ns` to `to_ns`. STAGE_NONE: none. */
static uint64_t time_between(const struct trace_spans *t, uint64_t from_ns, uint64_t to_ns)
{
    size_t i = first_from(t, from_ns);

    return i < t->n && t->at[i].from_ns <= to_ns ? t->at[i].from_ns : STAGE_NONE;
}

static uint64_t until(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns == STAGE_NONE || to_ns == STAGE_NONE ? STAGE_NONE
           : to_ns > from_ns                            ? to_ns - from_ns
                                                        : 0;
}

void stages_of(const struct stage_sources *s, const struct worker_sample *sample,
               struct stage_sample *out)
{
    const struct trace_spans *rt = &s->of[SOURCE_RT], *be = &s->of[SOURCE_BE];
    uint64_t hold_ns = time_between(&s->of[SOURCE_CUT_IN], sample->start_ns, sample->end_ns),
             begin_ns = time_between(rt, sample->start_ns, sample->end_ns), done_ns, open_ns,
             next_ns, be_end_ns = STAGE_NONE;
    size_t i = first_from(rt, sample->start_ns), submits;

    *out = (struct stage_sample){0};
    for (int k = 0; k < STAGE_COUNT; k++)
        out->ns[k] = STAGE_NONE;
    out->ns[STAGE_call] = until(sample->arrival_ns, sample->start_ns);
    out->ns[STAGE_hold] = until(sample->start_ns, hold_ns);
    if (begin_ns == STAGE_NONE)
        return;
    /* When this request's last kernel ended. They began before the request was known done. */
    for (done_ns = rt->at[i].to_ns; i < rt->n && rt->at[i].from_ns < sample->end_ns; i++)
        done_ns = rt->at[i].to_ns > done_ns ? rt->at[i].to_ns : done_ns;
    out->ns[STAGE_begin] = until(sample->start_ns, begin_ns);
    out->ns[STAGE_run] = until(begin_ns, done_ns);
    out->ns[STAGE_known] = until(done_ns, sample->end_ns);
    /* The last end of best effort before real time began. A kernel that was on the device then and
     * went on afterwards was paused: real time did not wait for its end. */
    i = first_from(be, begin_ns);
    for (int looked = 0; i-- > 0 && looked < 64; looked++) { /* few run at a time */
        if (be->at[i].to_ns > begin_ns)
            out->paused = true;
        else if (be_end_ns == STAGE_NONE || be->at[i].to_ns > be_end_ns)
            be_end_ns = be->at[i].to_ns;
    }
    out->ns[STAGE_residue] = until(hold_ns, be_end_ns);
    open_ns = time_between(&s->of[SOURCE_CUT_OUT], hold_ns, STAGE_NONE - 1);
    if (open_ns == STAGE_NONE)
        return;
    submits = first_from(&s->of[SOURCE_SUBMIT], open_ns);
    if (submits)
        out->ns[STAGE_submit] = until(hold_ns, s->of[SOURCE_SUBMIT].at[submits - 1].from_ns);
    out->ns[STAGE_release] = until(done_ns, open_ns);
    next_ns = time_between(be, open_ns, STAGE_NONE - 1);
    /* Not known if the next cut-in came first, or if it is the paused kernel that went on. */
    if (!out->paused && time_between(&s->of[SOURCE_CUT_IN], open_ns, next_ns) == STAGE_NONE)
        out->ns[STAGE_again] = until(open_ns, next_ns);
}

/* Takes in what was submitted and began before a block's first request. */
enum { BEFORE_NS = 50000000 };

/* Reads what a process did from `from_ns` on. */
static int read_trace(struct bench *b, bool rt, uint64_t from_ns)
{
    uint64_t kernel_ns = (rt ? b->plan.rt_kernel_us : b->plan.be_kernel_us) * NS_PER_US;
    struct trace_spans *of = b->stages.sources.of;
    uint64_t start_ns, took_ns;
    struct trace_clocks clocks;
    struct trace_view v;
    struct trace_record r;
    char path[300];
    int rc;

    snprintf(path, sizeof(path), "%s/%d.trace", b->trace.scratch.folder,
             (int)(rt ? b->rt : b->be)[BENCH_CUTIN].pid);
    rc = trace_view_await(&v, path, clock_ns(), b->why, sizeof(b->why));
    if (rc != 0)
        return rc;
    trace_clocks_read(&clocks, &v);
    for (uint64_t i = v.first; i < v.end && rc == 0; i++) {
        if (!trace_view_get(&v, i, &r) || r.ns < from_ns)
            continue;
        if (rt && (r.kind == TRACE_CUT_IN || r.kind == TRACE_CUT_OUT))
            rc = trace_spans_add(&of[r.kind == TRACE_CUT_IN ? SOURCE_CUT_IN : SOURCE_CUT_OUT], r.ns,
                                 r.ns);
        if (!rt && r.kind == TRACE_SUBMITTED)
            rc = trace_spans_add(&of[SOURCE_SUBMIT], r.ns, r.ns);
        if (r.kind != TRACE_SAMPLE || !b->plan.events ||
            !trace_clocks_convert(&clocks, &r, &start_ns, &took_ns))
            continue;
        /* A timing event before a kernel shows when its stream had come to it; one behind it shows
         * when it ended. The kernel took `kernel_ns` until then, as it does by itself. */
        if (took_ns > kernel_ns) {
            start_ns += took_ns - kernel_ns;
            took_ns = kernel_ns;
        }
        rc = trace_spans_add(&of[rt ? SOURCE_RT : SOURCE_BE], start_ns, start_ns + took_ns);
    }
    trace_view_close(&v);
    return rc;
}

/* Reads on from where it left off. An incomplete line is left for the next time. */
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
    for (int i = 0; i < SOURCES; i++)
        s->sources.of[i].n = 0;
    rc = read_trace(b, true, sample->start_ns - BEFORE_NS);
    if (rc == 0)
        rc = read_trace(b, false, sample->start_ns - BEFORE_NS);
    if (rc == 0 && !b->plan.events && (rc = read_log(b)) != 0)
        snprintf(b->why, sizeof(b->why), "%s: %s", b->trace.log, strerror(-rc));
    if (rc != 0)
        return rc;
    stage_sources_sort(&s->sources);
    for (uint32_t i = 0; i < n; i++) {
        stages_of(&s->sources, &sample[i], &one);
        s->cut_ins++;
        s->paused += one.paused;
        for (uint32_t k = 0; k < STAGE_COUNT; k++)
            if (one.ns[k] != STAGE_NONE)
                s->ns[k * b->plan.samples + s->known[k]++] = one.ns[k];
    }
    return 0;
}
