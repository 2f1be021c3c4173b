/*
 * trace_json.h - traces of processes and the simulator's event log as one JSON file of the Trace
 * Event Format, which ui.perfetto.dev and chrome://tracing open.
 *
 * One process of the picture per traced process: a track per thread with the calls, per stream what
 * is buffered and in flight, when it was held or active, and what the device took where that was
 * timed; and one process for each simulated GPU, with a track per stream.
 */
#ifndef CUTIN_TOOLS_CUTIN_TRACE_TRACE_JSON_H
#define CUTIN_TOOLS_CUTIN_TRACE_TRACE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trace_view.h"

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
/* For pictures of more: a track by name, or the process where `tid` is 0; slices and marks in them.
 * False: the slice lies outside of the picture. */
void trace_json_name(struct trace_json *j, int64_t pid, int64_t tid, const char *name);
bool trace_json_slice(struct trace_json *j, int64_t pid, int64_t tid, const char *name,
                      uint64_t from_ns, uint64_t to_ns);
void trace_json_mark(struct trace_json *j, int64_t pid, int64_t tid, const char *name, uint64_t ns);
/* trace_holds.c: draws a process of its own: a slice for each time that one of these processes was
 * held while one of a higher level was active. Returns how many. */
size_t trace_holds_draw(struct trace_json *j, const struct trace_view *views, size_t n);
/* 0 or -errno: the disk was full. `out` stays open. A file that is not all of it says so by a
 * member "interrupted". */
int trace_json_end(struct trace_json *j);

#endif
