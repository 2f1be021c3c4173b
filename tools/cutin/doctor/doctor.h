/*
 * doctor.h - what `cutin doctor` knows when it gives its verdicts.
 *
 * Two processes of its own open the driver, as applications do: one bare, which measures what the
 * driver can do and what it costs, and one under libcutin.so, which shows whether a hold holds. What
 * they find lies in shared memory, so that a driver that hangs or crashes leaves what was found
 * before. A check is one function over all of this; doctor.c has the table.
 */
#ifndef CUTIN_DOCTOR_H
#define CUTIN_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/cutin/paths.h"

/* What a probe did last: how far it got. */
enum probe_stage { PROBE_NONE, PROBE_DRIVER, PROBE_GPU, PROBE_MEASURED };

struct probe {
    uint32_t stage;
    char why[256]; /* it got no further because of this */
    /* PROBE_DRIVER */
    int32_t driver_version;
    /* PROBE_GPU */
    char gpu[96];
    int32_t major, minor, processors, compute_mode;
    int32_t mps;     /* the driver's own word: 0 no, 1 yes, -1 it does not say */
    bool param_info; /* tells how parameters of kernels lie, so that launches can be copied */
    /* PROBE_MEASURED, times in nanoseconds; 0: not measured */
    double launch_ns;
    bool memops;          /* cuStreamWriteValue32_v2 works */
    bool batch;           /* cuStreamBatchMemOp_v2 works */
    int32_t registration; /* CUresult of registering a page of a memfd */
    double marker_ns, gate_ns, gate_device_ns;
    bool gate_holds;
    double gate_open_ns;
    bool slices; /* contexts were seen to take turns */
    double slice_ns, switch_ns;
    /* Of the probe under libcutin.so. */
    bool loaded;      /* cutin_version is there */
    char version[32]; /* and says so */
    bool in_front;    /* the driver's entries are libcutin.so's */
    int32_t hold;     /* CUresult of cutin_stream_hold */
    bool held, released, buffered;
    /* Functions that the driver exports, those that no table row of this version names, and of these the
     * ones that libcutin.so does not stand in front of; their names, each with a space behind it. */
    uint32_t functions, unknown, passing;
    char unknown_names[4096];
};

struct doctor {
    bool sim;
    const char *socket;
    struct paths paths;
    struct probe *bare, *preloaded;
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

/* Runs a probe to its end, for at most a minute. The memory is the caller's until it exits; NULL: no
 * memory. What went wrong is in `why`. */
struct probe *probe_run(const struct doctor *d, bool preloaded);
/* `cutin doctor --worker bare|preloaded`: never by hand. Returns the exit status. */
int probe_main(const char *kind);

/* ---- doctor_functions.c -------------------------------------------------------------------- */

void functions_look(void *library, struct probe *found);
void check_functions(const struct doctor *d, struct finding *f);

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

/* ---- glibc_floor.c --------------------------------------------------------------------------- */

/* The newest version of glibc that the library in `path` needs, as "2.34". Returns 0 or -errno
 * (-ENOEXEC: not an ELF file of this machine's kind). */
int glibc_floor(const char *path, char out[16]);

#endif
