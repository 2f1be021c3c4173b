/*
 * attach.h - `cutin latency --attach`: what a running process above best effort waits for and whom
 * it holds, read from what it leaves anyway: its page, by way of the daemon, its trace where it
 * writes one, and the simulated device's log. Nothing is sent to it and nothing of it is stopped.
 */
#ifndef CUTIN_TOOLS_CUTIN_LATENCY_ATTACH_H
#define CUTIN_TOOLS_CUTIN_LATENCY_ATTACH_H

#include <stdbool.h>

struct attach_plan {
    const char *who;    /* a process id, or a level: the busiest process of it */
    const char *socket; /* NULL: the default one */
    double seconds;
    bool json;
};

/* Returns the exit status. */
int attach_run(const struct attach_plan *plan, int argc, char **argv);

#endif
