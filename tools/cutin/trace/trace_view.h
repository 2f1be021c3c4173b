/*
 * trace_view.h - trace files as the command reads them, also while they are being written; and the
 * simulator's event log (SIMGPU_LOG).
 */
#ifndef CUTIN_TOOLS_CUTIN_TRACE_TRACE_VIEW_H
#define CUTIN_TOOLS_CUTIN_TRACE_TRACE_VIEW_H

#include "common/trace.h"

#include <stdio.h>
#include <string.h>

struct trace_view {
    struct trace_file *file; /* a copy of it */
    uint64_t first, end;     /* positions of what is there: first <= position < end */
    uint64_t lost;           /* records that were not kept */
};

/* Reads the file. 0, or -errno with one line in `why`: -EBADMSG for a foreign or truncated one. */
int trace_view_open(struct trace_view *v, const char *path, char *why, size_t why_bytes);
/* The same, once all that was put until `ns` is there; waits 2 s for it. */
int trace_view_until(struct trace_view *v, const char *path, uint64_t ns, char *why,
                     size_t why_bytes);
void trace_view_close(struct trace_view *v);
/* False: it was being written, or overwritten. */
bool trace_view_get(const struct trace_view *v, uint64_t position, struct trace_record *out);
/* "" for 0 and for what is no name. */
const char *trace_view_name(const struct trace_view *v, uint32_t name);

/* Times, of whatever a list is made of. A moment begins and ends at once. */
struct trace_span {
    uint64_t from_ns, to_ns;
};
struct trace_spans {
    struct trace_span *at;
    size_t n, room;
};
/* 0 or -ENOMEM. */
int trace_spans_add(struct trace_spans *s, uint64_t from_ns, uint64_t to_ns);

/* A stream's times of being held (TRACE_HELD to TRACE_RELEASED), and above best effort and active
 * (TRACE_CUT_IN to TRACE_CUT_OUT), record by record. */
enum trace_time { TRACE_TIME_HELD, TRACE_TIME_ACTIVE, TRACE_TIMES };
struct trace_times {
    struct trace_open {
        uint64_t from_ns; /* of the one that has not ended; 0: none */
        uint64_t turn;    /* the newest of which there was a record */
    } open[TRACE_TIMES];
};
/* Which of them is known by this record, `out`; TRACE_TIMES: none. */
enum trace_time trace_times_follow(struct trace_times *t, const struct trace_record *r,
                                   struct trace_span *out);

/* How far the clock of a context lies behind the host's: nothing begins before it was asked for,
 * and what met an idle stream began just then. Contexts from 1 to TRACE_VIEW_CLOCKS - 1. */
enum { TRACE_VIEW_CLOCKS = 256 };
struct trace_clocks {
    uint64_t base_ns[TRACE_VIEW_CLOCKS]; /* 0: nothing known */
};
void trace_clocks_read(struct trace_clocks *c, const struct trace_view *v);
/* When a sample's work began and how long it took, on the host's clock. False: not known. */
bool trace_clocks_place(const struct trace_clocks *c, const struct trace_record *sample,
                        uint64_t *start_ns, uint64_t *duration_ns);

/* One line of the log: one work of the device. */
struct device_work {
    int pid;
    uint32_t stream;
    char kind[16];
    const char *name; /* of any length, in the line itself */
    uint64_t submit_ns, start_ns, end_ns, cost_ns;
};

/* Writes into the text. False: it is no such line, or there is nothing to see: marks take no time.
 */
bool device_log_parse(char *text, struct device_work *w);

/* ---- trace_json.c -------------------------------------------------------------------------
 *
 * Traces of processes and the simulator's event log as one JSON file of the Trace Event Format,
 * which ui.perfetto.dev and chrome://tracing open.
 *
 * One process of the picture per traced process: a track per thread with the calls, per stream what
 * is buffered and in flight, when it was held or active, and what the device took where that was
 * timed; and one process for each simulated GPU, with a track per stream. */
struct trace_json {
    FILE *out;
    uint64_t origin_ns; /* time 0 of the picture */
    uint64_t end_ns;    /* what begins later is left out; 0: nothing is */
    uint64_t events;
    size_t source, sources; /* the one at work, of how many: for the progress that is shown */
    bool mangled;           /* names as they are; otherwise as people read them (kernel_name.h) */
};

/* Begins the file; nothing in it is earlier than `origin_ns`. So many traces and logs will follow;
 * when progress_cancel is set, what is left of them is left out. */
void trace_json_begin(struct trace_json *j, FILE *out, uint64_t origin_ns, size_t sources);
void trace_json_add(struct trace_json *j, const struct trace_view *v);
/* Lines of SIMGPU_LOG; what is none is passed over. Returns the number of works. */
uint64_t trace_json_add_log(struct trace_json *j, FILE *log);
/* For pictures of more: a track by name, or the process where `tid` is 0; slices and marks in
 * them. */
void trace_json_name(struct trace_json *j, int64_t pid, int64_t tid, const char *name);
void trace_json_slice(struct trace_json *j, int64_t pid, int64_t tid, const char *name,
                      uint64_t from_ns, uint64_t to_ns);
void trace_json_mark(struct trace_json *j, int64_t pid, int64_t tid, const char *name, uint64_t ns);
/* 0 or -errno: the disk was full. `out` stays open. A file that is not all of it says so by a
 * member "interrupted". */
int trace_json_end(struct trace_json *j);

#endif
