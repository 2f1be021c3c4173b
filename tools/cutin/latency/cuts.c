/*
 * cuts.c - put a process's cut-ins together (see cuts.h).
 */
#include "cuts.h"
#include "tools/cutin/kernel_name.h"
#include "common/list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_BACK = 64 };

void cuts_free(struct cuts *c)
{
    free(c->at);
    *c = (struct cuts){0};
}

uint64_t cut_held_ns(const struct cut *c)
{
    return c->out_ns > c->in_ns ? c->out_ns - c->in_ns : 0;
}

uint64_t cut_wait_ns(const struct cut *c)
{
    uint64_t from_ns = c->call_ns ? c->call_ns : c->in_ns;

    return c->begin_ns > from_ns ? c->begin_ns - from_ns : 0;
}

/* ---- its own trace -------------------------------------------------------------------------- */

/* The call in which it cut in: its record comes when it has returned. */
static void add_call(struct cuts *c, const struct trace_record *r)
{
    uint32_t took_ns = r->kind == TRACE_KERNEL ? r->kernel.took_ns : r->copy.took_ns;

    for (size_t i = c->n; i-- > 0 && i + LOOK_BACK > c->n;)
        if (!c->at[i].call_ns && r->ns <= c->at[i].in_ns && c->at[i].in_ns <= r->ns + took_ns) {
            c->at[i].call_ns = r->ns;
            c->at[i].op = r->kind == TRACE_KERNEL ? r->kernel.op : r->copy.op;
        }
}

static int add_record(struct cuts *c, const struct trace_clocks *clocks,
                      const struct trace_record *r, uint64_t to_ns)
{
    uint64_t start_ns, took_ns;
    int rc = 0;

    switch (r->kind) {
    case TRACE_CUT_IN:
        if (r->ns <= to_ns && (rc = list_grow(&c->at, &c->room, c->n, sizeof(*c->at))) == 0)
            c->at[c->n++] = (struct cut){.in_ns = r->ns};
        return rc;
    case TRACE_CUT_OUT:
        if (c->n && !c->at[c->n - 1].out_ns)
            c->at[c->n - 1].out_ns = r->ns;
        return 0;
    case TRACE_KERNEL:
    case TRACE_COPY:
        add_call(c, r);
        return 0;
    case TRACE_SAMPLE:
        for (size_t i = c->n; r->sample.op && i-- > 0;)
            if (c->at[i].op == r->sample.op && trace_clocks_place(clocks, r, &start_ns, &took_ns))
                c->at[i].begin_ns = start_ns;
    }
    return 0;
}

int cuts_read(struct cuts *c, const struct trace_view *v, uint64_t from_ns, uint64_t to_ns)
{
    struct trace_clocks clocks;
    struct trace_record r;
    int rc = 0;

    trace_clocks_read(&clocks, v);
    for (uint64_t i = v->first; i < v->end && rc == 0; i++)
        if (trace_view_get(v, i, &r) && r.ns >= from_ns)
            rc = add_record(c, &clocks, &r, to_ns);
    return rc;
}

/* ---- the device ----------------------------------------------------------------------------- */

static void add_work(struct cuts *c, const struct device_work *w, pid_t pid, bool begins,
                     uint64_t most_ns[])
{
    for (size_t i = 0; i < c->n; i++) {
        struct cut *cut = &c->at[i];
        uint64_t call_ns = cut->call_ns ? cut->call_ns : cut->in_ns;
        /* A kernel of another process as far as it lies between the hold and the begin. */
        uint64_t from_ns = w->start_ns > cut->in_ns ? w->start_ns : cut->in_ns,
                 to_ns = w->end_ns < cut->begin_ns ? w->end_ns : cut->begin_ns;

        if (!begins && w->pid != pid && from_ns < to_ns && to_ns - from_ns > most_ns[i]) {
            most_ns[i] = to_ns - from_ns;
            cut->by = w->pid;
            snprintf(cut->kernel, sizeof(cut->kernel), "%s",
                     kernel_name(w->name, KERNEL_NAME_EVENT, false));
        }
        if (begins && w->pid == pid && w->start_ns >= call_ns &&
            (!cut->out_ns || w->start_ns <= cut->out_ns) &&
            (!cut->begin_ns || w->start_ns < cut->begin_ns))
            cut->begin_ns = w->start_ns;
    }
}

/* Twice: who was in the way is known when it is known when the kernel began. */
int cuts_read_log(struct cuts *c, FILE *log, pid_t pid)
{
    uint64_t *most_ns = calloc(c->n + 1, sizeof(*most_ns));
    uint64_t first_ns = c->n ? c->at[0].in_ns : 0;
    struct device_work w;
    char *text = NULL;
    size_t room = 0;

    for (size_t i = 0; most_ns && i < c->n; i++)
        c->at[i].begin_ns = 0;
    for (int pass = 0; most_ns && pass < 2; pass++) {
        rewind(log);
        while (getline(&text, &room, log) > 0)
            if (device_log_parse(text, &w) && device_work_drawn(&w) &&
                strcmp(w.kind, "kernel") == 0 && w.end_ns + 1000000 >= first_ns)
                add_work(c, &w, pid, pass == 0, most_ns);
    }
    free(text);
    free(most_ns);
    return most_ns ? 0 : -ENOMEM;
}

/* ---- another trace -------------------------------------------------------------------------- */

void cuts_read_below(struct cuts *c, const struct trace_view *v)
{
    struct trace_record r;

    for (size_t i = 0; i < c->n; i++) {
        uint64_t last_ns = 0;
        uint32_t op = 0;
        if (c->at[i].by)
            continue;
        for (uint64_t k = v->first; k < v->end; k++)
            if (trace_view_get(v, k, &r) && r.kind == TRACE_SUBMITTED && r.ns <= c->at[i].in_ns &&
                r.ns >= last_ns && r.queue.op) {
                last_ns = r.ns;
                op = r.queue.op;
            }
        if (!op)
            continue;
        c->at[i].by = (pid_t)v->file->header.pid;
        /* Where its launch is in the trace still. */
        for (uint64_t k = v->first; k < v->end; k++)
            if (trace_view_get(v, k, &r) && r.kind == TRACE_KERNEL && r.kernel.op == op)
                snprintf(c->at[i].kernel, sizeof(c->at[i].kernel), "%s",
                         kernel_name(trace_view_name(v, r.name), KERNEL_NAME_EVENT, false));
    }
}
