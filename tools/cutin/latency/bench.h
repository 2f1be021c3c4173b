/*
 * bench.h - one measurement of `cutin latency`: its plan, its processes, its figures.
 */
#ifndef CUTIN_TOOLS_CUTIN_LATENCY_BENCH_H
#define CUTIN_TOOLS_CUTIN_LATENCY_BENCH_H

#include "tools/cutin/daemon.h"
#include "tools/cutin/statistics/figures.h"
#include "tools/cutin/paths.h"
#include "tools/cutin/scratch.h"
#include "tools/cutin/statistics/arrivals.h"
#include "stages.h"
#include "tools/cutin/statistics/bootstrap.h"
#include "tools/cutin/worker/worker.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Ungated: as cutin, with CUDA graphs that have no gates. */
enum bench_mode { BENCH_ALONE, BENCH_NATIVE, BENCH_UNGATED, BENCH_CUTIN, BENCH_MODES };
extern const char *const bench_mode_names[]; /* NULL-terminated */

struct preset;

/* Where the device's times come from; auto: from its log where there is one. */
enum bench_trace_method { BENCH_TRACE_LOG, BENCH_TRACE_EVENTS, BENCH_TRACE_AUTO };
extern const char *const bench_trace_methods[]; /* as people read the first two */

struct bench_plan {
    const struct preset *preset; /* NULL: none */
    uint32_t samples, be_kernel_us, be_graph, rt_kernels, rt_kernel_us, solo_ms, floor_ms;
    uint32_t warm_up;              /* requests before the samples */
    uint32_t be_batch;             /* kernels between two waits of best effort; 0: enough */
    const char *depth, *budget_us; /* of best effort, where the user sets none; NULL: cutin's own */
    const struct variable *set;    /* for all workers, while bench_run runs; NULL: none */
    struct arrivals arrivals;
    bool arrivals_given;
    double gap_us;     /* mean */
    double bound_us;   /* later answers are late; 0: none */
    double break_us;   /* end at the first answer under cutin that takes longer; 0: never */
    double percentile; /* asked for beside the usual ones; 0: none */
    uint64_t seed;
    uint32_t modes; /* mask of 1 << enum bench_mode */
    bool sim, json;
    bool stages; /* part cut-ins under cutin, whose processes are traced for it */
    enum bench_trace_method method;
    char distance_us[16];         /* "": as near as the GPU is */
    const char *plot, *histogram; /* files, or NULL */
    const char *break_trace;
};

/* Kernels of best effort, and the time they took. */
struct bench_work {
    uint64_t kernels, elapsed_ns;
};

/* What waits behind the request that is served. */
struct bench_backlog {
    uint32_t most;
    uint32_t late; /* requests that waited so */
    double mean;   /* when a request is begun */
};

/* What a percentile may be beyond these samples. */
struct bench_estimate {
    bool known, compared; /* there are enough samples; and of alone, too */
    double us, ratio, added_us;
    struct interval us_within, ratio_within, added_within;
};
enum { BENCH_P50, BENCH_P99, BENCH_ASKED, BENCH_ESTIMATES };

/* That cutin was at work at all, as its processes count. */
struct bench_engagement {
    uint64_t cut_ins;      /* of real time */
    uint64_t holds, gates; /* of best effort */
    uint64_t gpu_ns;       /* of best effort, estimated */
};

/* Of all requests under cutin; a stage that is not known of one is not counted. */
struct bench_stages {
    uint64_t *ns[STAGE_COUNT];
    uint32_t n[STAGE_COUNT];
    uint32_t cut_ins, paused; /* of them: a best-effort kernel stood still meanwhile */
    struct figures figures[STAGE_COUNT];
    struct stage_sources sources;
};

enum { BENCH_ROUNDS = 20 }; /* at most */

struct bench {
    struct bench_plan plan;
    struct bench_result {
        struct worker_sample *sample; /* in the order of their arrivals */
        uint64_t *latency_ns;         /* of them, sorted, once the run is over */
        uint32_t n;
        uint32_t block_end[BENCH_ROUNDS], blocks; /* of the samples: a block was without a break */
        struct figures figures;
        struct bench_backlog backlog;
        struct bench_estimate estimate[BENCH_ESTIMATES];
        uint32_t late;                  /* beyond the bound */
        uint64_t max_ns;                /* when the slowest one arrived, nanoseconds since 1970 */
        struct bench_work shared, solo; /* best effort beside real time, and by itself */
    } mode[BENCH_MODES];
    uint64_t *gap_ns; /* as they were drawn, the same for every mode */
    struct bench_floor {
        bool measured;
        struct floor_spin spin;
        struct figures launch; /* on the idle GPU, on the plain driver */
    } floor;
    struct claim claim; /* what every real-time process had */
    char gpu[96];
    int32_t driver_version;
    struct bench_stages stages;
    struct bench_broke {
        bool broke;
        uint32_t sample; /* which one, from 0 */
        double us;
        uint64_t at_ns; /* its arrival, CLOCK_MONOTONIC */
        uint64_t events, works;
        size_t holds; /* in the trace */
    } broke;
    struct bench_engagement engagement; /* beside real time under cutin */
    bool checked, identical;            /* best effort's checksum */
    bool cancelled;                     /* by a signal: the figures are of what was measured */
    double seconds;
    char why[512];

    /* The run itself. */
    double part, parts; /* of the progress that is shown: from where on, of how many; 0, 0: all */
    uint64_t order_seed;
    double done_s; /* what the blocks so far were expected to take */
    struct paths paths;
    /* What the processes leave behind when they are traced: a trace of each, and the simulated
     * device's log. */
    struct bench_trace {
        struct scratch scratch;
        char pattern[300], log[300]; /* CUTIN_TRACE and SIMGPU_LOG */
        long log_at;                 /* what was read of the log */
    } trace;
    char sim_id[32];
    struct daemon_own daemon;
    struct worker_environment environment[BENCH_MODES];
    struct worker be[BENCH_MODES], rt[BENCH_MODES]; /* alone uses native's */
};

/* Measures by the plan. Returns 0, also when interrupted with something measured, or -errno with
 * one line in `why`. Ends early when progress_cancel is set. Every process and file it made is gone
 * when it returns. */
int bench_run(struct bench *b);
void bench_free(struct bench *b);

/* ---- bench_figures.c ----------------------------------------------------------------------- */

/* A moment of CLOCK_MONOTONIC, nanoseconds since 1970. */
uint64_t bench_since_1970_ns(uint64_t monotonic_ns);
/* What becomes of the samples. */
void bench_describe(struct bench *b);
static inline bool bench_has(const struct bench *b, int mode)
{
    return b->mode[mode].n > 0;
}
/* False: cutin held nobody, so what was measured beside it is not cutin. */
bool bench_engaged(const struct bench *b);
double bench_percent(const struct bench *b, int estimate); /* 0: none */
/* There are enough samples of a mode for this percentile. */
static inline bool bench_enough(const struct bench *b, int mode, double percent)
{
    return b->mode[mode].n >= figures_least_samples(percent);
}
/* The p99 of this mode is no more than that of the idle GPU and the processor's longest gap. */
bool bench_in_floor(const struct bench *b, int mode);
double bench_floor_us(const struct bench *b);
/* Percentile by percentile: what `mode` adds to alone. */
struct bench_added {
    double p50_us, p99_us;
};
struct bench_added bench_added(const struct bench *b, int mode);
static inline bool bench_p99_known(const struct bench *b, int mode)
{
    return bench_enough(b, mode, 99) && bench_enough(b, BENCH_ALONE, 99);
}
/* What one graph of best effort takes by itself, in us; 0: it launches kernels one by one. */
double bench_graph_us(const struct bench *b);
double bench_rate(const struct bench_work *work); /* kernels per second, 0 where none ran */
/* Mean estimated work of best effort between two gates, beside real time; 0 without gates. */
double bench_gate_us(const struct bench *b);

/* The processes under cutin are traced. */
static inline bool bench_traced(const struct bench *b)
{
    return b->plan.stages || b->plan.break_us > 0;
}
/* bench_stages.c: a folder for the traces, and room for the stages; the trace of a process; the
 * stages of a block's samples, while its processes are there; what they come to. 0, or -errno with
 * b->why. */
int bench_stages_open(struct bench *b);
void bench_trace_path(const struct bench *b, pid_t pid, char *out, size_t size);
int bench_stages_take(struct bench *b, const struct worker_sample *sample, uint32_t n);
void bench_stages_describe(struct bench *b);
void bench_stages_free(struct bench *b);

/* bench_break.c: the trace of the last 50 ms before this one's answer; both processes are there. 0,
 * or -errno with b->why. */
int bench_break_write(struct bench *b, const struct worker_sample *s);

/* bench_hdr.c: the latencies as histograms: FILE.json, or the text of each mode in a file of its
 * own, with its name before FILE's ending. 0, or -errno with one line in `why`. */
int bench_histogram(const struct bench *b, const char *path, char *why, size_t why_bytes);

/* latency_print.c: table and histogram on stdout. */
void bench_print(const struct bench *b);

/* bench_json.c: all of it as one object. NULL: no memory. */
json_t *bench_json(const struct bench *b);
json_t *bench_config_json(const struct bench *b); /* its member `config` */

/* attach.c: a running process instead. Returns the exit status. */
struct attach_plan {
    const char *who;    /* a process id, or a level: the busiest process of it */
    const char *socket; /* NULL: the default one */
    double seconds;
    bool json;
};
int attach_run(const struct attach_plan *plan, int argc, char **argv);

#endif
