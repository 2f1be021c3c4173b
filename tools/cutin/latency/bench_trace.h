/*
 * bench_trace.h - what the processes of `cutin latency` leave behind when they are traced: a trace
 * of each, and the simulated device's log.
 */
#ifndef CUTIN_TOOLS_CUTIN_LATENCY_BENCH_TRACE_H
#define CUTIN_TOOLS_CUTIN_LATENCY_BENCH_TRACE_H

#include "stages.h"
#include "tools/cutin/scratch.h"

/* Where the device's times come from; auto: from its log where there is one. */
enum bench_trace_method { BENCH_TRACE_LOG, BENCH_TRACE_EVENTS, BENCH_TRACE_AUTO };
extern const char *const bench_trace_methods[]; /* as people read the first two */

struct bench_trace {
    enum bench_trace_method method;
    struct scratch scratch;
    char pattern[300], log[300]; /* CUTIN_TRACE and SIMGPU_LOG */
    long log_at;                 /* what was read of the log */
    /* With events: how long kernels take by themselves. The event before one is when its stream had
     * come to it, the one behind it when it ended. */
    uint64_t rt_kernel_ns, be_kernel_ns;
};

/* The folder. 0 or -errno. */
int bench_trace_open(struct bench_trace *t, enum bench_trace_method method);
/* The trace of a process. */
void bench_trace_path(const struct bench_trace *t, pid_t pid, char *out, size_t size);
/* Adds what the two did from `from_ns` on, and nothing that was read from the log before. 0, or
 * -errno with one line in `why`. */
int bench_trace_read(struct bench_trace *t, pid_t rt, pid_t be, uint64_t from_ns,
                     struct stage_sources *out, char *why, size_t why_bytes);
/* Of a process that has ended, and was read. */
void bench_trace_forget(const struct bench_trace *t, pid_t pid);
/* The folder goes. */
void bench_trace_close(struct bench_trace *t);

#endif
