/*
 * device_log.h - what the simulated GPU says it did, by its own clock, which is the host's
 * monotonic one. Tests of when work ran read it instead of looking at the time themselves.
 */
#ifndef CUTIN_TESTS_DEVICE_LOG_H
#define CUTIN_TESTS_DEVICE_LOG_H

#include <stdint.h>

struct device_work {
    char kind[8]; /* kernel, copy, mark, wait, host */
    uint64_t pid, submit_ns, start_ns, end_ns, cost_ns;
    uint64_t bytes; /* of copies */
    char name[32];  /* of kernels, as much of it as there is room for */
};

uint64_t device_now_ns(void);
/* Programs that are started from now on write into the sandbox's log. */
void device_log_open(void);
/* How many works satisfy `counts`, which also gets `user`. */
int device_log_count(int (*counts)(const struct device_work *, const void *user), const void *user);
/* Returns when one is there: 60 s at most. */
void device_log_wait(int (*counts)(const struct device_work *, const void *));
/* Returns when no kernel has ended for so long: 20 s at most. */
void device_log_settle(uint64_t quiet_ns);

#endif
