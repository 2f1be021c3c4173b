/*
 * device_log.c - read the simulator's event log (see device_log.h).
 */
#include "device_log.h"

#include <inttypes.h>
#include <stdio.h>

bool device_log_parse(char *text, struct device_work *w)
{
    char *name = strstr(text, " name="), *behind = name ? strstr(name, " submit=") : NULL;

    if (!behind)
        return false;
    *name = *behind = '\0';
    w->name = name + strlen(" name=");
    return sscanf(text, "pid=%d context=%" SCNu32 " stream=%" SCNu32 " seq=%*u kind=%15s", &w->pid,
                  &w->context, &w->stream, w->kind) == 4 &&
           sscanf(behind + 1,
                  "submit=%*u start=%" SCNu64 " end=%" SCNu64 " cost=%" SCNu64 " ran=%d",
                  &w->start_ns, &w->end_ns, &w->cost_ns, &w->ran) == 4 &&
           w->end_ns >= w->start_ns;
}
