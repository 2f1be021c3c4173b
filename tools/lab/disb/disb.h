/*
 * disb.h - `cutin-lab disb`: real-time and best-effort inference clients on one GPU, mode by mode
 * (docs/disb.md).
 *
 * disb.c is the command, workload.c makes arrivals and models, run.c has the processes of a run,
 * worker.c is one such process, figures.c makes figures of the samples.
 */
#ifndef CUTIN_TOOLS_LAB_DISB_DISB_H
#define CUTIN_TOOLS_LAB_DISB_DISB_H

#include "tools/cutin/statistics/figures.h"
#include "models.h"
#include "tools/cutin/paths.h"
#include "tools/cutin/worker/worker.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    DISB_CLIENTS = 32,
    DISB_NAME = 32,
    DISB_CLOSED_SAMPLES = 65536, /* of a closed-loop client: it has no arrivals to count */
};

/* ---- modes --------------------------------------------------------------------------------- */

enum disb_processes { DISB_ONE, DISB_BE_APART }; /* all in one, or best effort apart */

struct disb_mode {
    const char *name;
    enum disb_processes processes;
    bool rt_only, sequential, priorities, cutin, pad;
};
/* The others are compared with the first one. Ends with a row without a name. */
extern const struct disb_mode disb_modes[];
enum { DISB_MODES = 8, DISB_RT_ONLY = 0, DISB_STREAMS = 2 };

/* ---- workloads ----------------------------------------------------------------------------- */

struct disb_client {
    char model[DISB_NAME];
    bool rt, closed;
    uint64_t *arrival_ns; /* since the start, rising; up to the end, best effort's beyond it */
    uint32_t arrivals;
};

struct disb_workload {
    char name[DISB_NAME];
    struct disb_client client[DISB_CLIENTS];
    uint32_t clients;
};

/*
 * Makes a workload of one member of the file, with all arrivals of `seconds`, and best effort's for
 * `beyond_s` longer. Returns 0, or -EINVAL with one line in `why` that names the wrong member.
 */
int disb_workload_make(struct disb_workload *w, const char *name, const json_t *definition,
                       double seconds, double beyond_s, uint64_t seed, char *why, size_t why_bytes);
void disb_workload_free(struct disb_workload *w);
/* Loads the built-in file (path NULL) or another: an object with "workloads" and perhaps "models".
 * NULL, with one line in `why`, if that fails. */
json_t *disb_load(const char *path, char *why, size_t why_bytes);

/* ---- one run ------------------------------------------------------------------------------- */

enum disb_phase { DISB_PREPARE, DISB_CALIBRATE, DISB_RUN, DISB_STOP, DISB_CLOSE };

/* One real-time request. */
struct disb_sample {
    uint64_t latency_ns;   /* counted from the arrival */
    uint64_t called_at_ns; /* when its first launch was called, CLOCK_MONOTONIC */
    double first_end_ns;   /* end of its first kernel, on the clock of the stream's events */
};

/* One client as its process sees it. The arrays are at these offsets of the shared memory. */
struct disb_entry {
    uint64_t kernels_at, arrivals_at, samples_at;
    uint32_t kernels, arrivals, capacity; /* room for samples */
    uint32_t process;
    bool rt, closed;
    _Atomic uint32_t samples;   /* so far */
    _Atomic uint32_t completed; /* requests that ended in the window */
    uint32_t late;              /* requests that arrived in it and were not served */
    /* The same instants on both clocks, before the run and after it. */
    uint64_t clock_ns[2];
    double device_ns[2];
};

struct disb_shared {
    uint64_t bytes;
    _Atomic uint32_t phase;
    uint64_t start_ns, end_ns, last_ns; /* CLOCK_MONOTONIC; real time gives up at last_ns */
    bool sequential, priorities;
    /* How many clients have done all that comes before the next phase. */
    _Atomic uint32_t ready, calibrated, rt_done, be_done, closed;
    int32_t driver_version;
    char gpu[96];
    struct disb_failure {
        _Atomic uint32_t told; /* `why` was written */
        char why[256];
    } failure[DISB_CLIENTS + 1]; /* of each process */
    uint32_t entries;
    struct disb_entry entry[DISB_CLIENTS];
};

/* What one run of one mode measured. */
struct disb_result {
    bool measured;
    struct figures rt, preempt;
    double mean_us;
    double seconds; /* length of the window */
    uint64_t completed, rt_completed;
    uint32_t late; /* real-time requests that were not served */
};

struct disb {
    double seconds, speed;
    uint64_t seed;
    bool sim, apart; /* apart: each best-effort client has its own process */
    char gpu[96];
    int32_t driver_version;
    struct paths paths;
    uint32_t run, runs; /* number of this run, and of all */
    /* The models that the workloads name. */
    struct disb_model {
        char name[DISB_NAME], source[256];
        struct model model;
    } model[DISB_CLIENTS];
    uint32_t models;
    char why[512];
};

/* Adds the models that a file defines. Returns 0, or -errno with d->why. */
int disb_models_add(struct disb *d, const json_t *models);
/* Makes `name` a model that is read from the workload file at `path`. */
int disb_model_add_file(struct disb *d, const char *name, const char *path);
/* Finds the model called `name`, and generates it if it is not defined. NULL, with d->why: none. */
const struct model *disb_model(struct disb *d, const char *name);
/* Runs a workload in one mode and shows the progress. Returns 0, -ECANCELED (progress_cancel was
 * set; what was measured is in `result`), or -errno with d->why. All its processes and files are
 * gone when it returns. */
int disb_run(struct disb *d, const struct disb_workload *w, const struct disb_mode *mode,
             struct disb_result *result);
/* How long real time may go on after a window of `seconds`, to finish what arrived in it. A queue
 * that grew for the whole window needs no longer, if the GPU has room at all. */
double disb_grace_s(double seconds);
/* worker.c: `cutin-lab disb --worker N`, started by the command itself. Returns the exit status. */
int disb_worker_main(uint32_t process);
/* figures.c: makes figures of what the clients left in the shared memory. */
void disb_result_make(struct disb_result *result, const struct disb_shared *shared);

#endif
