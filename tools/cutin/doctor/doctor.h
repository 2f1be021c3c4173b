/*
 * doctor.h - what `cutin doctor` knows when it gives its verdicts.
 *
 * Processes of its own open the driver, as applications do: bare ones, which measure what the
 * driver can do and what it costs, and one under libcutin.so, which shows whether a hold holds.
 * Each is a fact of tools/facts, so one that hangs or crashes leaves what it found before. A check
 * is one function over all of this; doctor.c has the table.
 */
#ifndef CUTIN_TOOLS_CUTIN_DOCTOR_DOCTOR_H
#define CUTIN_TOOLS_CUTIN_DOCTOR_DOCTOR_H

#include <jansson.h>
#include <stdint.h>

#include "tools/cutin/paths.h"

/* How far the processes came. */
enum probe_stage { PROBE_NONE, PROBE_DRIVER, PROBE_GPU, PROBE_MEASURED };

struct probe {
    json_t *values; /* all that was found; texts below are its own */
    enum probe_stage stage;
    const char *why; /* it got no further because of this */
    /* PROBE_DRIVER */
    int driver_version;
    /* PROBE_GPU */
    const char *gpu;
    int major, minor, processors, compute_mode;
    int mps;        /* the driver's own word: 0 no, 1 yes, -1 it does not say */
    int param_info; /* tells how parameters of kernels lie, so that launches can be copied */
    /* Microseconds; 0: not measured. A marker and a gate need memory operations, and their
     * batches. */
    double launch_us, marker_us, marker_late_us, gate_us, gate_device_us, gate_open_us;
    const char
        *registration; /* of a page of a memfd: "success", or the error's name; NULL: not tried */
    int gate_holds;    /* -1: not tried */
    double slice_us, switch_us; /* 0: contexts were not seen to take turns */
    /* Of the one under libcutin.so. */
    const char *version; /* of libcutin.so; NULL: it is not loaded */
    int in_front;        /* the driver's entries are libcutin.so's */
    int hold;            /* CUresult of cutin_stream_hold */
    int held, released, buffered;
    /* Functions that the driver exports, the names of those that no table row of this version
     * names, and how many of these libcutin.so does not stand in front of. */
    int functions, passing;
    json_t *unknown;
};

/* Of the process that stopped its own kernels. Texts are its values' own. */
struct suspended {
    json_t *values;   /* NULL: not tried */
    const char *why;  /* it does not work, or was not tried */
    const char *way;  /* NULL: none works */
    double call_us;   /* 0: not measured */
    int record_error; /* of the record: 0 or -errno */
    uint8_t uuid[16]; /* of the GPU, where there is a record */
    char driver[64];  /* "": there is none */
};

struct doctor {
    bool sim;
    const char *socket;
    struct paths paths;
    struct probe bare, preloaded;
    struct suspended suspend;
    bool again;   /* ask whether gates hold, though that is recorded */
    bool for_all; /* records are the machine's, too */
};

enum verdict { VERDICT_OK, VERDICT_NOTE, VERDICT_WARN, VERDICT_FAIL };

struct finding {
    enum verdict verdict;
    char detail[384];
    char remedy[384]; /* "": nothing to do */
};

/* Sets the finding's texts. `remedy` may be NULL. */
void find(struct finding *f, enum verdict verdict, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- doctor_probe.c ------------------------------------------------------------------------ */

/* Runs all processes, each for at most a minute. */
void probe_run(struct doctor *d);
/* `cutin doctor --worker NAME`: never by hand. */
int probe_main(const char *name);

void check_functions(const struct doctor *d, struct finding *f);

/* ---- doctor_records.c ---------------------------------------------------------------------- */

/* Understands the values, and records for libcutin.so what was seen. */
void suspend_take(struct suspended *s);
void check_suspend(const struct doctor *d, struct finding *f);
void check_gates(const struct doctor *d, struct finding *f);

/* ---- doctor_host.c: the checks of the machine -------------------------------------------------
 */

void check_mps(const struct doctor *d, struct finding *f);
void check_connections(const struct doctor *d, struct finding *f);
void check_settings(const struct doctor *d, struct finding *f);
void check_daemon(const struct doctor *d, struct finding *f);
void check_permission(const struct doctor *d, struct finding *f);
void check_glibc(const struct doctor *d, struct finding *f);
void check_memfd(const struct doctor *d, struct finding *f);
void check_timers(const struct doctor *d, struct finding *f);
void check_processors(const struct doctor *d, struct finding *f);
void check_proc(const struct doctor *d, struct finding *f);

#endif
