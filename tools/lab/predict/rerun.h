/*
 * rerun.h - runs recorded programs again, on a modelled device: a simulation by events of the
 * host's calls, the streams, the multiprocessors and two copy engines.
 *
 * The host makes its calls in the recorded order with the recorded pauses, and waits at a sync
 * until its work is done. A stream is in order. Kernels of one program run side by side if they
 * fit; one that does not fit is not overtaken. Of two programs the second is real time: while it
 * has work, only what was in flight of the first may begin (docs/design.md, section 6).
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_RERUN_H
#define CUTIN_TOOLS_LAB_PREDICT_RERUN_H

#include "tools/lab/record/workload.h"

struct rerun_job {
    const struct workload *w;
    uint64_t *device_ns; /* for each op */
    uint64_t wait_ns;    /* how long the end of a wait takes to reach the host */
    double host_speed;   /* recorded pauses are divided by it */
    /* Request k is the ops from start[k % starts] to before start[k % starts + 1]. It begins at its
     * arrival, or when the request before it is done. */
    size_t *start;
    size_t starts;
    uint64_t *arrival_ns;
    size_t requests;
    /* Events measure a time from when the op heads its stream, with its wait for room. `work_ns`
     * gets such times without the wait. NULL: the times have no such wait. */
    uint64_t *work_ns;
    /* Results. */
    uint64_t *latency_ns; /* of each request, from its arrival; NULL: not wanted */
    size_t served;
    uint64_t end_ns;
};

struct rerun_device {
    uint32_t processors;
    uint64_t budget_ns; /* how much of the first program a hold finds in flight */
};

/* Runs one or two jobs until the first one is done. Returns 0 or -ENOMEM. */
int rerun(const struct rerun_device *device, struct rerun_job *job, size_t jobs);

#endif
