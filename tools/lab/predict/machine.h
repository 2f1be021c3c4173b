/*
 * machine.h - a modelled machine, and how long each operation of a recorded program takes on it.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_MACHINE_H
#define CUTIN_TOOLS_LAB_PREDICT_MACHINE_H

#include "distance.h"
#include "modules.h"

struct machine {
    uint32_t recorded_processors, processors;
    double speed;      /* of kernels; 1: as recorded */
    double host_speed; /* of the program between its calls; 1: as recorded */
    struct distance distance;
    bool modular; /* the following members are used */
    struct modules modules;
    const struct access_pattern *pattern; /* of every kernel */
    double memory; /* part of a kernel's time that memory alone needs for it */
};

/* Writes device times of all ops to `ns`. 0, -EINVAL (impossible modules) or -ENOMEM. */
int machine_times(const struct machine *m, const struct workload *w, uint64_t *ns);

#endif
