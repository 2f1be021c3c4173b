/*
 * rerun.h - recorded programs once more, on a device that exists as numbers: a simulation by
 * events of the host's calls, the streams, the multiprocessors and two copy engines.
 *
 * The host calls in the recorded order with the recorded pauses between its calls, and waits at a
 * sync until its work is done. A stream is in order. Kernels of one program run side by side where
 * they fit; one that does not fit is not overtaken. Of two programs the second is real time: while
 * it has work, nothing of the first begins but what was in flight (docs/design.md, section 6).
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_RERUN_H
#define CUTIN_TOOLS_LAB_PREDICT_RERUN_H

#include "tools/lab/record/workload.h"

struct rerun_job {
    const struct workload *w;
    uint64_t *device_ns; /* of each op */
    uint64_t wait_ns;    /* what the end of a wait takes to reach the host */
    double host_speed;   /* recorded pauses are divided by it */
    /* Requests: number k is the ops from start[k % starts] to before start[k % starts + 1]. It
     * begins at its arrival, or when the one before is done. */
    size_t *start;
    size_t starts;
    uint64_t *arrival_ns;
    size_t requests;
    /* Times of the device count from when an op heads its stream, as events measure them, and what
     * an op waits for room is in them. What is left goes here; NULL: they are the work alone. */
    uint64_t *work_ns;
    /* Results. */
    uint64_t *latency_ns; /* from arrival, of each request; NULL: not wanted */
    size_t served;
    uint64_t end_ns;
};

struct rerun_device {
    uint32_t processors;
    uint64_t budget_ns; /* of the first program that a hold finds in flight */
};

/* Runs until the first job is done. One or two jobs. 0 or -ENOMEM. */
int rerun(const struct rerun_device *device, struct rerun_job *job, size_t jobs);

#endif
