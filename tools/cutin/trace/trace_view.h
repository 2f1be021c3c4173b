/*
 * trace_view.h - reads trace files, also while they are being written, and the simulator's event
 * log (SIMGPU_LOG).
 */
#ifndef CUTIN_TOOLS_CUTIN_TRACE_TRACE_VIEW_H
#define CUTIN_TOOLS_CUTIN_TRACE_TRACE_VIEW_H

#include "common/trace.h"

#include <stdio.h>
#include <string.h>

struct trace_view {
    struct trace_file *file; /* a copy of the file */
    uint64_t first, end;     /* positions of its records: first <= position < end */
    uint64_t lost;           /* records that were not kept */
};

/* Reads the file. 0, or -errno with one line in `why`: -EBADMSG for a foreign or truncated one. */
int trace_view_open(struct trace_view *v, const char *path, char *why, size_t why_bytes);
/* The same once the trace has all that was put until `ns`; waits 2 s at most for that. */
int trace_view_await(struct trace_view *v, const char *path, uint64_t ns, char *why,
                     size_t why_bytes);
void trace_view_close(struct trace_view *v);
/* False: the record was being written, or overwritten. */
bool trace_view_get(const struct trace_view *v, uint64_t position, struct trace_record *out);
/* Whether it has what is in the queue afterwards (.queue). */
static inline bool trace_of_queue(const struct trace_record *r)
{
    return r->kind >= TRACE_BUFFERED && r->kind <= TRACE_COMPLETED;
}
/* Returns "" for 0 and for an invalid name. */
const char *trace_view_name(const struct trace_view *v, uint32_t name);

/* A list of times. A time that is a moment begins and ends at once. */
struct trace_span {
    uint64_t from_ns, to_ns;
};
struct trace_spans {
    struct trace_span *at;
    size_t n, room;
};
/* Returns 0 or -ENOMEM. */
int trace_spans_add(struct trace_spans *s, uint64_t from_ns, uint64_t to_ns);

/* The times in which a stream was held (TRACE_HELD to TRACE_RELEASED), or above best effort and
 * active (TRACE_CUT_IN to TRACE_CUT_OUT), record by record. */
enum trace_time { TRACE_TIME_HELD, TRACE_TIME_ACTIVE, TRACE_TIMES };
struct trace_times {
    struct trace_open {
        uint64_t from_ns; /* begin of the time that is not over; 0: none */
        uint64_t turn;    /* the newest turn that had a record */
    } open[TRACE_TIMES];
};
/* Says which kind of time this record completes, and writes it to `out`. TRACE_TIMES: none. */
enum trace_time trace_times_follow(struct trace_times *t, const struct trace_record *r,
                                   struct trace_span *out);

/* How far a context's clock is behind the host's. This is known because no work begins before it is
 * asked for, and work for an idle stream begins at once. Contexts 1 to TRACE_VIEW_CLOCKS - 1. */
enum { TRACE_VIEW_CLOCKS = 256 };
struct trace_clocks {
    uint64_t base_ns[TRACE_VIEW_CLOCKS]; /* 0: not known */
};
void trace_clocks_read(struct trace_clocks *c, const struct trace_view *v);
/* When a sample's work began and how long it took, by the host's clock. False: not known. */
bool trace_clocks_convert(const struct trace_clocks *c, const struct trace_record *sample,
                          uint64_t *start_ns, uint64_t *duration_ns);

/* A line of the log, which is one work of the device. */
struct device_work {
    int pid;
    uint32_t stream;
    char kind[16];
    const char *name; /* of any length, in the line's own memory */
    uint64_t submit_ns, start_ns, end_ns, cost_ns;
};

/* Changes the text. False: it is no such line, or is a mark, which takes no time. */
bool device_log_parse(char *text, struct device_work *w);

/* ---- trace_json.c -------------------------------------------------------------------------
 *
 * Writes traces of processes and the simulator's event log as one JSON file of the Trace Event
 * Format, which ui.perfetto.dev and chrome://tracing open.
 *
 * Each traced process has a track per thread with its calls. Per stream it has tracks with what was
 * buffered and in flight, when it was held or active, and the device's time where that was
 * measured. Each simulated GPU is one more process, with a track per stream. */
struct trace_json {
    FILE *out;
    uint64_t origin_ns; /* time 0 of the picture */
    uint64_t end_ns;    /* what begins later is left out; 0: nothing is */
    uint64_t events;
    size_t source, sources; /* which one is being read, of how many: for the progress */
    bool mangled;           /* names as they are, not as people read them (kernel_name.h) */
};

/* Begins the file. No event may be earlier than `origin_ns`. `sources`: how many traces and logs
 * will follow. When progress_cancel is set, the rest of them is left out. */
void trace_json_begin(struct trace_json *j, FILE *out, uint64_t origin_ns, size_t sources);
void trace_json_add(struct trace_json *j, const struct trace_view *v);
/* Adds lines of SIMGPU_LOG and skips other lines. Returns the number of works. */
uint64_t trace_json_add_log(struct trace_json *j, FILE *log);
/* For other pictures: names a track, or the process if `tid` is 0; adds slices and marks to a
 * track. */
void trace_json_name(struct trace_json *j, int64_t pid, int64_t tid, const char *name);
void trace_json_slice(struct trace_json *j, int64_t pid, int64_t tid, const char *name,
                      uint64_t from_ns, uint64_t to_ns);
void trace_json_mark(struct trace_json *j, int64_t pid, int64_t tid, const char *name, uint64_t ns);
/* Returns 0, or -errno if the disk is full. `out` stays open. An incomplete file says so by a
 * member "interrupted". */
int trace_json_end(struct trace_json *j);

#endif
