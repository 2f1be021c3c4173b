/*
 * forecast.h - runs a recorded program on a modelled machine, under a given load.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_FORECAST_H
#define CUTIN_TOOLS_LAB_PREDICT_FORECAST_H

#include "machine.h"
#include "tools/cutin/statistics/figures.h"

/* Requests of a program that come by a clock, not as they were recorded. */
struct forecast_load {
    double per_s; /* Poisson arrivals; 0: as recorded */
    size_t requests;
    uint64_t seed;
};

/* Kernels are sorted into classes by the durations that were recorded. */
enum { FORECAST_CLASSES = 5 };
extern const uint64_t forecast_class_ns[FORECAST_CLASSES]; /* up to; UINT64_MAX: all others */
struct forecast_class {
    size_t kernels;
    double recorded_ns, ns; /* sums of device times */
};

struct forecast {
    double total_ns;
    struct figures latency; /* of requests from their arrival; samples 0: there was no clock */
    struct figures real_time;
    struct forecast_class by_duration[FORECAST_CLASSES];
};

/* On the machine of the recording, operations beside each other waited for room. Takes these waits
 * out of the durations of `w`. Returns 0 or -ENOMEM. */
int forecast_calibrate(struct workload *w, const struct machine *recorded);

/*
 * `real_time` is a second program that holds the first one's work whenever it has a request, with
 * `budget_ns` of that in flight. NULL: none. 0, -EINVAL (impossible machine) or -ENOMEM.
 */
int forecast_run(struct forecast *out, const struct machine *machine, const struct workload *w,
                 const struct forecast_load *load, const struct workload *real_time,
                 const struct forecast_load *real_time_load, uint64_t budget_ns);

#endif
