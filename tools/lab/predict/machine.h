/*
 * machine.h - a modelled machine, and what each operation of a recorded program takes on it.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_MACHINE_H
#define CUTIN_TOOLS_LAB_PREDICT_MACHINE_H

#include "distance.h"
#include "modules.h"

struct machine {
    uint32_t recorded_processors, processors;
    double speed;      /* of kernels, 1: as recorded */
    double host_speed; /* of the program between its calls, likewise */
    struct distance distance;
    bool modular; /* the following are used */
    struct modules modules;
    const struct access_pattern *pattern; /* of every kernel */
    double memory; /* the part of a kernel's time that memory needs for it, by itself */
};

/* Device times of all ops go to `ns`. 0, -EINVAL for modules that make no machine, or -ENOMEM. */
int machine_times(const struct machine *m, const struct workload *w, uint64_t *ns);

#endif
