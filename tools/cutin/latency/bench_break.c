/*
 * bench_break.c - the first request under cutin that took too long, and what all processes did
 * until then.
 */
#include "bench.h"
#include "tools/cutin/trace/trace_json.h"
#include "tools/cutin/trace/trace_view.h"

#include <errno.h>
#include <string.h>

#include "common/whole.h"

enum {
    LAST_NS = 50000000,
    AFTER_NS = 1000000, /* what released them */
    REQUEST_PROCESS = 1600000000,
};

static int write_trace(struct bench *b, const struct worker_sample *s, struct trace_view views[2])
{
    FILE *log = fopen(b->trace.log, "re");
    struct whole whole;
    FILE *out = whole_open(&whole, b->plan.break_trace);
    struct trace_json json;
    char name[96];
    int rc = -errno;

    if (out) {
        trace_json_begin(&json, out, s->end_ns - LAST_NS, 2 + !!log);
        json.end_ns = s->end_ns + AFTER_NS;
        /* The request itself, above everything else. */
        snprintf(name, sizeof(name), "request, %.1f us",
                 (double)(s->end_ns - s->arrival_ns) / 1000);
        trace_json_name(&json, REQUEST_PROCESS, 0, "the request that broke");
        trace_json_name(&json, REQUEST_PROCESS, 1, "arrival to answer");
        trace_json_slice(&json, REQUEST_PROCESS, 1, name, s->arrival_ns, s->end_ns);
        trace_json_mark(&json, REQUEST_PROCESS, 1, "call entered", s->start_ns);
        b->broke.holds = trace_holds_draw(&json, views, 2);
        for (int i = 0; i < 2; i++)
            trace_json_add(&json, &views[i]);
        b->broke.works = log ? trace_json_add_log(&json, log) : 0;
        b->broke.events = json.events;
        rc = whole_close(&whole, trace_json_end(&json));
    }
    if (log)
        fclose(log);
    if (rc != 0)
        snprintf(b->why, sizeof(b->why), "%s: %s", b->plan.break_trace, strerror(-rc));
    return rc;
}

int bench_break_write(struct bench *b, const struct worker_sample *s)
{
    const pid_t pids[] = {b->rt[BENCH_CUTIN].pid, b->be[BENCH_CUTIN].pid};
    struct trace_view views[2] = {0};
    char path[300];
    int rc = 0;

    for (int i = 0; i < 2 && rc == 0; i++) {
        bench_trace_path(b, pids[i], path, sizeof(path));
        rc = trace_view_until(&views[i], path, s->end_ns + AFTER_NS, b->why, sizeof(b->why));
    }
    if (rc == 0)
        rc = write_trace(b, s, views);
    for (int i = 0; i < 2; i++)
        trace_view_close(&views[i]);
    return rc;
}
