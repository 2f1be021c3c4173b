/*
 * trace_holds.c - put holds and cut-ins of several traces together (see trace_holds.h).
 */
#include "trace_holds.h"
#include "common/list.h"

#include <stdlib.h>

enum { STREAMS = 4096, HOLDS_PROCESS = 1500000000 };

static bool span_add(struct trace_span **spans, size_t *n, size_t *room, struct trace_span span)
{
    if (list_grow(spans, room, *n, sizeof(**spans)) != 0)
        return false;
    (*spans)[(*n)++] = span;
    return true;
}

size_t trace_spans_read(const struct trace_view *v, enum trace_kind from, enum trace_kind to,
                        struct trace_span **spans)
{
    uint64_t *open_ns = calloc(STREAMS, sizeof(*open_ns));
    size_t n = 0, room = 0;
    struct trace_record r;
    bool more = open_ns;

    *spans = NULL;
    for (uint64_t i = v->first; i < v->end && more; i++) {
        if (!trace_view_get(v, i, &r) || r.stream >= STREAMS)
            continue;
        if (r.kind == to && open_ns[r.stream]) {
            more = span_add(spans, &n, &room, (struct trace_span){open_ns[r.stream], r.ns});
            open_ns[r.stream] = 0;
        } else if (r.kind == from && !open_ns[r.stream]) {
            open_ns[r.stream] = r.ns;
        }
    }
    for (uint32_t s = 0; s < STREAMS && more; s++)
        if (open_ns[s])
            more = span_add(spans, &n, &room, (struct trace_span){open_ns[s], UINT64_MAX});
    free(open_ns);
    return n;
}

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Its kernels that wait for I/O of their own, by the name of the last one; NULL: it has none. */
static const char *io_kernel(const struct trace_view *v)
{
    struct trace_record r;

    for (uint64_t i = v->end; i-- > v->first;)
        if (trace_view_get(v, i, &r) && r.kind == TRACE_KERNEL && r.kernel.waits)
            return trace_view_name(v, r.name);
    return NULL;
}

/* The times at which both were: one held, the other active. */
static size_t draw_pair(struct trace_json *j, const struct trace_view *held,
                        const struct trace_view *active, int64_t track)
{
    const struct trace_header *low = &held->file->header, *high = &active->file->header;
    struct trace_span *holds, *cuts;
    size_t h = trace_spans_read(held, TRACE_HELD, TRACE_RELEASED, &holds), drawn = 0;
    size_t c = trace_spans_read(active, TRACE_CUT_IN, TRACE_CUT_OUT, &cuts);
    const char *waits = io_kernel(held);
    char name[256];

    snprintf(name, sizeof(name), "%u (%.60s%s%.60s%s) held by %u (%.60s)", low->pid, low->program,
             waits ? ", whose " : "", waits ? waits : "", waits ? " waits for I/O" : "", high->pid,
             high->program);
    for (size_t i = 0; i < h; i++)
        for (size_t k = 0; k < c; k++) {
            uint64_t from_ns = max(holds[i].from_ns, cuts[k].from_ns),
                     to_ns = min(holds[i].to_ns, cuts[k].to_ns);
            if (to_ns == UINT64_MAX)
                to_ns = j->end_ns;
            drawn +=
                from_ns < to_ns && trace_json_slice(j, HOLDS_PROCESS, track, name, from_ns, to_ns);
        }
    if (drawn)
        trace_json_track(j, HOLDS_PROCESS, track, name);
    free(holds);
    free(cuts);
    return drawn;
}

size_t trace_holds_draw(struct trace_json *j, const struct trace_view *views, size_t n)
{
    size_t drawn = 0;
    int64_t track = 1;

    trace_json_process(j, HOLDS_PROCESS, "who held whom");
    for (size_t held = 0; held < n; held++)
        for (size_t active = 0; active < n; active++)
            if (views[held].file->header.level < views[active].file->header.level)
                drawn += draw_pair(j, &views[held], &views[active], track++);
    return drawn;
}
