/*
 * device_log.h - one line of the simulator's event log (SIMGPU_LOG): one work of the device.
 */
#ifndef CUTIN_TOOLS_CUTIN_TRACE_DEVICE_LOG_H
#define CUTIN_TOOLS_CUTIN_TRACE_DEVICE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct device_work {
    int pid;
    uint32_t context, stream;
    char kind[16];
    const char *name; /* of any length, in the line itself */
    uint64_t start_ns, end_ns, cost_ns;
    int ran;
};

/* Writes into the text. False: it is no such line. */
bool device_log_parse(char *text, struct device_work *w);
/* Marks take no time: nothing to see. */
static inline bool device_work_drawn(const struct device_work *w)
{
    return w->ran && strcmp(w->kind, "mark") != 0 && w->end_ns > w->start_ns;
}

#endif
