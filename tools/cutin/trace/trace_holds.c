/*
 * trace_holds.c - who held whom, from the traces of all of them.
 */
#include "trace_json.h"

#include <errno.h>
#include <stdlib.h>

enum { STREAMS = 4096, HOLDS_PROCESS = 1500000000 };

/* UINT64_MAX: it had not ended. */
static struct trace_spans spans_read(const struct trace_view *v, enum trace_kind from,
                                     enum trace_kind to)
{
    struct trace_open *open = calloc(STREAMS, sizeof(*open));
    struct trace_spans spans = {0};
    struct trace_record r;
    struct trace_span s;
    int rc = open ? 0 : -ENOMEM;

    for (uint64_t i = v->first; i < v->end && rc == 0; i++)
        if (trace_view_get(v, i, &r) && (r.kind == from || r.kind == to) && r.stream < STREAMS &&
            trace_open_follow(&open[r.stream], &r, &s))
            rc = trace_spans_add(&spans, s.from_ns, s.to_ns);
    for (uint32_t i = 0; i < STREAMS && rc == 0; i++)
        if (open[i].from_ns)
            rc = trace_spans_add(&spans, open[i].from_ns, UINT64_MAX);
    free(open);
    return spans;
}

/* The times at which both were: one held, the other active. */
static size_t draw_pair(struct trace_json *j, const struct trace_view *held,
                        const struct trace_view *active, int64_t track)
{
    const struct trace_header *low = &held->file->header, *high = &active->file->header;
    struct trace_spans holds = spans_read(held, TRACE_HELD, TRACE_RELEASED),
                       cuts = spans_read(active, TRACE_CUT_IN, TRACE_CUT_OUT);
    const char *waits = NULL;
    struct trace_record r;
    size_t drawn = 0;
    char name[256];

    /* Its kernels that wait for I/O of their own, by the name of the last one. */
    for (uint64_t i = held->end; !waits && i-- > held->first;)
        if (trace_view_get(held, i, &r) && r.kind == TRACE_KERNEL && r.kernel.waits)
            waits = trace_view_name(held, r.name);
    snprintf(name, sizeof(name), "%u (%.60s%s%.60s%s) held by %u (%.60s)", low->pid, low->program,
             waits ? ", whose " : "", waits ? waits : "", waits ? " waits for I/O" : "", high->pid,
             high->program);
    for (size_t i = 0; i < holds.n; i++)
        for (size_t k = 0; k < cuts.n; k++) {
            const struct trace_span *h = &holds.at[i], *c = &cuts.at[k];
            uint64_t from_ns = h->from_ns > c->from_ns ? h->from_ns : c->from_ns,
                     to_ns = h->to_ns < c->to_ns ? h->to_ns : c->to_ns;

            if (to_ns == UINT64_MAX)
                to_ns = j->end_ns;
            drawn +=
                from_ns < to_ns && trace_json_slice(j, HOLDS_PROCESS, track, name, from_ns, to_ns);
        }
    if (drawn)
        trace_json_name(j, HOLDS_PROCESS, track, name);
    free(holds.at);
    free(cuts.at);
    return drawn;
}

size_t trace_holds_draw(struct trace_json *j, const struct trace_view *views, size_t n)
{
    size_t drawn = 0;
    int64_t track = 1;

    trace_json_name(j, HOLDS_PROCESS, 0, "who held whom");
    for (size_t held = 0; held < n; held++)
        for (size_t active = 0; active < n; active++)
            if (views[held].file->header.level < views[active].file->header.level)
                drawn += draw_pair(j, &views[held], &views[active], track++);
    return drawn;
}
