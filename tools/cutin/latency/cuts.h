/*
 * cuts.h - the cut-ins of one process as its trace and the device's log tell them, and who was in
 * the way of each.
 */
#ifndef CUTIN_TOOLS_CUTIN_LATENCY_CUTS_H
#define CUTIN_TOOLS_CUTIN_LATENCY_CUTS_H

#include "tools/cutin/trace/trace_view.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct cut {
    uint64_t call_ns, in_ns, out_ns; /* 0: not known */
    uint64_t begin_ns;               /* of its first kernel; 0: not known */
    uint32_t op;
    pid_t by; /* whose kernel was in its way; 0: not known */
    char kernel[96];
};
struct cuts {
    struct cut *at;
    size_t n, room;
};

/* Those that began from `from_ns` to `to_ns`, and the begins of kernels that the trace has
 * timed. */
int cuts_read(struct cuts *c, const struct trace_view *v, uint64_t from_ns, uint64_t to_ns);
/* Begins of kernels of `pid`, and the kernel of another process that took the most of the time
 * until then. */
int cuts_read_log(struct cuts *c, FILE *log, pid_t pid);
/* Without a log: what another process had submitted last before a cut-in, where nobody is known. */
void cuts_read_below(struct cuts *c, const struct trace_view *v);
/* From the call until the first kernel began; where that is not known from the hold until its
 * end. */
uint64_t cut_wait_ns(const struct cut *c);
uint64_t cut_held_ns(const struct cut *c);
void cuts_free(struct cuts *c);

#endif
