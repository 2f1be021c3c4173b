/*
 * presets.h - the protocols by which others measured, and what they report.
 *
 * A preset is a set of options; what is given beside it counts. Its rows stand beside what the
 * papers report, of other machines and other GPUs: they are no comparison of the systems.
 */
#ifndef CUTIN_TOOLS_CUTIN_LATENCY_PRESETS_H
#define CUTIN_TOOLS_CUTIN_LATENCY_PRESETS_H

#include "bench.h"

enum preset_metric {
    PRESET_RESIDUE_KERNELS, /* p99 of what real time waited for, in best-effort kernels */
    PRESET_PREEMPT_P50,     /* from the call until the first kernel began, us */
    PRESET_PREEMPT_P99,
    PRESET_CUTIN_RATIO, /* p99 against alone */
    PRESET_NATIVE_RATIO,
    PRESET_MEAN_ADDED,  /* to the mean of alone, percent */
    PRESET_P99_SAVED,   /* cutin's p99 below that of native, percent */
    PRESET_BE_OVERHEAD, /* with nobody above, percent of native */
    PRESET_BE_LOST,     /* beside real time, percent of native beside it */
    PRESET_LATE,        /* requests beyond the bound, percent */
    PRESET_LATE_LIMIT,  /* and how many there may be, with 99 % confidence */
};

struct preset_row {
    enum preset_metric metric;
    const char *what, *paper, *machine;
};

enum { PRESET_ROWS = 5 };

struct preset {
    const char *name;
    const char *about, *differs; /* from the original; one line each */
    const char *arrivals;
    double rate, bound_us; /* 0: none */
    uint32_t be_kernel_us, be_graph, be_batch, rt_kernels, rt_kernel_us, warm_up, samples;
    const char *depth, *budget_us; /* of best effort; NULL: cutin's own */
    struct preset_row row[PRESET_ROWS];
};

extern const struct preset presets[]; /* ends with one without a name */
extern const char *const preset_names[];

/* Puts into the plan what was not given (0). */
void preset_fill(struct bench_plan *p, const struct preset *preset);
/* NAN: it was not measured. */
double preset_value(const struct bench *b, enum preset_metric metric);
/* At most so many percent of all requests are late, with 99 % confidence, where `late` of `n` were:
 * Clopper and Pearson's limit. */
double preset_late_limit(uint32_t late, uint32_t n);
void preset_print(const struct bench *b);
/* NULL: no preset. */
json_t *preset_json(const struct bench *b);

#endif
