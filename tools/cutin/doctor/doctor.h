/*
 * doctor.h - what `cutin doctor` knows when it gives its verdicts.
 *
 * Worker processes open the driver as applications do. Bare ones measure what the driver can do and
 * what that costs; one under libcutin.so shows whether a hold holds. Each is a fact of tools/facts,
 * so one that hangs or crashes leaves what it found before. A check is one function over all of
 * this.
 */
#ifndef CUTIN_TOOLS_CUTIN_DOCTOR_DOCTOR_H
#define CUTIN_TOOLS_CUTIN_DOCTOR_DOCTOR_H

#include <jansson.h>
#include <stdint.h>

#include "common/record.h"
#include "tools/cutin/paths.h"

/* How far the processes came. */
enum probe_stage { PROBE_NONE, PROBE_DRIVER, PROBE_GPU, PROBE_MEASURED };

struct probe {
    json_t *values; /* all values found; the texts below belong to it */
    enum probe_stage stage;
    const char *why; /* why it got no further */
    /* PROBE_DRIVER */
    int driver_version;
    /* PROBE_GPU */
    const char *gpu;
    int major, minor, processors, compute_mode;
    int mps;        /* what the driver says: 0 no, 1 yes, -1 nothing */
    int param_info; /* the layout of kernel parameters is known, so launches can be copied */
    /* In microseconds; 0: not measured. A marker needs memory operations, a gate needs batches of
     * them. */
    double launch_us, marker_us, marker_late_us, gate_us, gate_device_us, gate_open_us;
    /* Of a page of a memfd: "success", or the error's name; NULL: not tried. */
    const char *registration;
    int gate_holds;             /* -1: not tried */
    double slice_us, switch_us; /* 0: contexts were not seen to get time slices */
    /* Found by the process under libcutin.so. */
    const char *version; /* of libcutin.so; NULL: it is not loaded */
    int in_front;        /* the driver's entries are libcutin.so's */
    int hold;            /* CUresult of cutin_stream_hold */
    int held, released, buffered;
    /* `functions`: how many the driver exports. `unknown`: those that no table row of this version
     * names. `passing`: how many of the unknown ones go past libcutin.so to the driver. */
    int functions, passing;
    json_t *unknown;
};

/* Found by the process that stopped its own kernels. The texts belong to `values`. */
struct suspended {
    json_t *values;       /* NULL: not tried */
    const char *why;      /* why it does not work, or was not tried */
    const char *way;      /* NULL: none works */
    double call_us;       /* 0: not measured */
    int record_error;     /* of writing the record: 0 or -errno */
    struct record record; /* its version is "": there is none */
};

struct doctor {
    bool sim;
    struct paths paths;
    struct probe bare, preloaded;
    struct suspended suspend;
    bool again;   /* test again whether gates hold, even if that is recorded */
    bool for_all; /* also record the results for all users of the machine */
};

enum verdict { VERDICT_OK, VERDICT_NOTE, VERDICT_WARN, VERDICT_FAIL };

struct finding {
    enum verdict verdict;
    char detail[384];
    char remedy[384]; /* "": nothing to do */
};

/* Sets the finding's texts. `remedy` may be NULL. */
void finding_set(struct finding *f, enum verdict verdict, const char *remedy, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

/* The checks, in the order in which they are shown: doctor.c has those of the GPU, doctor_probe.c
 * that of the functions, doctor_records.c gates and suspend, doctor_host.c those of the machine.
 * X(name, whether it needs a GPU, the remedy where there is none) */
#define DOCTOR_CHECKS(X)                                                                           \
    X(driver, false, NULL)                                                                         \
    X(gpu, false, NULL)                                                                            \
    X(preload, false, NULL)                                                                        \
    X(functions, false, NULL)                                                                      \
    X(settings, false, NULL)                                                                       \
    X(hold, false, NULL)                                                                           \
    X(memops, true, "see the check of the GPU")                                                    \
    X(registration, true, "see the check of the GPU")                                              \
    X(costs, false, NULL)                                                                          \
    X(gate, true, NULL)                                                                            \
    X(gates, true, NULL)                                                                           \
    X(time_slice, true, "see the check of the GPU")                                                \
    X(suspend, false, NULL)                                                                        \
    X(mps, false, NULL)                                                                            \
    X(connections, false, NULL)                                                                    \
    X(daemon, false, NULL)                                                                         \
    X(permission, false, NULL)                                                                     \
    X(glibc, false, NULL)                                                                          \
    X(memfd, false, NULL)                                                                          \
    X(timers, false, NULL)                                                                         \
    X(processors, false, NULL)                                                                     \
    X(proc, false, NULL)
#define CHECK_DECLARED(name, ...) void check_##name(const struct doctor *d, struct finding *f);
DOCTOR_CHECKS(CHECK_DECLARED)
#undef CHECK_DECLARED

/* Runs all processes, each for at most a minute (doctor_probe.c). */
void probe_run(struct doctor *d);
/* `cutin doctor --worker NAME`, which the command starts itself. */
int probe_main(const char *name);
/* Reads the values, and records the result for libcutin.so (doctor_records.c). */
void suspend_save(struct suspended *s);

#endif
