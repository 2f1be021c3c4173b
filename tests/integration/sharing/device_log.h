/*
 * device_log.h - what the simulated GPU says it did, by its clock, which is the host's monotonic
 * one. Tests of when work ran read it instead of timing themselves.
 */
#ifndef CUTIN_TESTS_DEVICE_LOG_H
#define CUTIN_TESTS_DEVICE_LOG_H

#include <stdint.h>

struct device_work {
    char kind[8]; /* kernel, copy, mark, wait, host */
    uint64_t pid, submit_ns, start_ns, end_ns, cost_ns;
    uint64_t bytes; /* of copies */
    char name[32];  /* of kernels, cut if it is longer */
};

uint64_t device_now_ns(void);
/* Programs that are started from now on write to the sandbox's log. */
void device_log_open(void);
/* The number of works that satisfy `counts`, which also gets `user`. */
int device_log_count(int (*counts)(const struct device_work *, const void *user), const void *user);
/* Returns when there is such a work; waits 60 s at most. */
void device_log_wait(int (*counts)(const struct device_work *, const void *));
/* Returns when no kernel has ended for `quiet_ns`; waits 120 s at most. */
void device_log_settle(uint64_t quiet_ns);

#endif
