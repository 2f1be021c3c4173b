/*
 * bench.h - one measurement of `cutin latency`: its plan, its processes, its figures.
 */
#ifndef CUTIN_TOOLS_CUTIN_LATENCY_BENCH_H
#define CUTIN_TOOLS_CUTIN_LATENCY_BENCH_H

#include "tools/cutin/daemon.h"
#include "tools/cutin/statistics/figures.h"
#include "tools/cutin/statistics/arrivals.h"
#include "tools/cutin/worker/worker.h"
#include "tools/cutin/trace/trace_view.h"
#include "tools/cutin/subcommand.h"

#include <jansson.h>

/* Ungated: like cutin, but with CUDA graphs that have no gates. */
enum bench_mode { BENCH_ALONE, BENCH_NATIVE, BENCH_UNGATED, BENCH_CUTIN, BENCH_MODES };
extern const char *const bench_mode_names[]; /* NULL-terminated */

/* ---- stages.c: the parts of a cut-in ----------------------------------------------------------
 *
 * What a request's time was spent on, from its arrival until best effort goes again. The device
 * says when things happened there, by the simulator's log or by timing events. The library's traces
 * say when it acted. The program notes its own times. */

/* X(name, what it is) */
#define STAGES(X)                                                                                  \
    X(call, "arrival -> call entered")                                                             \
    X(hold, "call entered -> hold bits set")                                                       \
    X(submit, "hold bits set -> last best-effort command submitted")                               \
    X(residue, "hold bits set -> last best-effort kernel ended")                                   \
    X(begin, "call entered -> first real-time kernel began")                                       \
    X(run, "first real-time kernel began -> last one ended")                                       \
    X(release, "last one ended -> hold bits cleared")                                              \
    X(known, "last one ended -> known to the program")                                             \
    X(again, "hold bits cleared -> next best-effort kernel began")

enum stage {
#define STAGE_ENUM(name, is) STAGE_##name,
    STAGES(STAGE_ENUM)
#undef STAGE_ENUM
        STAGE_COUNT
};
extern const struct stage_row {
    const char *name, *is;
} stage_rows[STAGE_COUNT];

/* What happened while samples were taken. */
enum stage_source {
    SOURCE_RT, /* kernels on the device */
    SOURCE_BE,
    SOURCE_CUT_IN, /* moments of real time */
    SOURCE_CUT_OUT,
    SOURCE_SUBMIT, /* moments of best effort */
    SOURCES
};
struct stage_sources {
    struct trace_spans of[SOURCES];
};

/* Sorts by the time of the begin. Call this before stages_of. */
void stage_sources_sort(struct stage_sources *s);
void stage_sources_free(struct stage_sources *s);

/* The stages of one request. A stage that is not known is STAGE_NONE. */
#define STAGE_NONE UINT64_MAX
struct stage_sample {
    uint64_t ns[STAGE_COUNT];
    bool paused; /* a best-effort kernel was paused while real time ran: nothing waited for it */
};
void stages_of(const struct stage_sources *s, const struct worker_sample *sample,
               struct stage_sample *out);

/* ---- the measurement ----------------------------------------------------------------------- */

/* Where the device's times may come from, as options. NULL-terminated. */
extern const char *const bench_trace_words[];

struct bench_plan {
    uint32_t samples, be_kernel_us, be_graph, rt_kernels, rt_kernel_us, solo_ms, floor_ms;
    uint32_t warm_up;              /* requests before the samples */
    uint32_t be_batch;             /* kernels between two waits of best effort; 0: enough */
    const char *depth, *budget_us; /* of best effort unless the user sets it; NULL: the default */
    const struct variable *set;    /* for all workers, while bench_run runs; NULL: none */
    struct arrivals arrivals;
    bool arrivals_given;
    double rate;       /* requests per second; 0: not given */
    double gap_us;     /* mean */
    double bound_us;   /* answers that take longer are late; 0: no bound */
    double break_us;   /* end at the first answer under cutin that takes longer; 0: never */
    double percentile; /* wanted in addition to the usual ones; 0: none */
    uint64_t seed;
    uint32_t modes; /* mask of 1 << enum bench_mode */
    bool sim, json;
    bool stages;           /* split cut-ins under cutin into stages, by traces */
    const char *method;    /* of bench_trace_words; NULL: not given, so as "auto" */
    bool events;           /* the device's times come from timing events, not from its log */
    char distance_us[16];  /* "": the GPU's own distance */
    const char *latencies; /* a file, or NULL */
    const char *break_trace;
};

/* Kernels of best effort, and how long they took together. */
struct bench_work {
    uint64_t kernels, elapsed_ns;
};

/* The requests that wait behind the one that is served. */
struct bench_backlog {
    uint32_t most;
    uint32_t late; /* requests that came before the previous answer */
    double mean;   /* of those waiting when a request begins */
};

/* Estimates of a percentile beyond these samples. */
struct bench_estimate {
    bool known, compared; /* enough samples; and of alone, too */
    double percent;       /* which one; 0: none is asked for */
    double us, ratio, added_us;
    struct interval us_within, ratio_within, added_within;
};
enum { BENCH_P50, BENCH_P99, BENCH_ASKED, BENCH_ESTIMATES };

/* What cutin's processes count: it shows that cutin was at work. */
struct bench_engagement {
    uint64_t cut_ins;      /* of real time */
    uint64_t holds, gates; /* of best effort */
    uint64_t gpu_ns;       /* of best effort, estimated */
    double gate_us;        /* mean of that between two gates; 0: no gates */
    bool engaged; /* false: no process was held, so the figures do not show what cutin does */
};

/* Of all requests under cutin. Each stage counts the requests of which it is known. */
struct bench_stages {
    uint64_t *ns; /* room for all samples in each stage */
    uint32_t known[STAGE_COUNT];
    uint32_t cut_ins, paused; /* of these: a best-effort kernel was paused meanwhile */
    struct figures figures[STAGE_COUNT];
    struct stage_sources sources;
};

enum { BENCH_ROUNDS = 20 }; /* at most */

struct bench {
    struct bench_plan plan;
    struct bench_result {
        struct worker_sample *sample; /* in the order of their arrivals */
        uint64_t *latency_ns;         /* their latencies, sorted, once the run is over */
        uint32_t n;
        uint32_t block_end[BENCH_ROUNDS], blocks; /* ends in `sample`; a block has no break */
        struct figures figures;
        struct bench_backlog backlog;
        struct bench_estimate estimate[BENCH_ESTIMATES];
        double added_p50_us, added_p99_us; /* to those of alone */
        bool p99_known;                    /* it and that of alone have enough samples */
        bool in_floor;                     /* the p99 is at most that of the floor */
        uint32_t late;                     /* over the bound */
        uint64_t max_at_ns;                /* arrival of the slowest one, nanoseconds since 1970 */
        struct bench_work shared, solo;    /* best effort beside real time, and by itself */
    } mode[BENCH_MODES];
    uint64_t *gap_ns; /* as drawn, the same for every mode */
    struct bench_floor {
        const struct floor_spin *spin;
        struct figures launch; /* on the idle GPU with the plain driver; no samples: not measured */
        double p99_us;         /* its p99 plus the processor's longest gap */
    } floor;
    struct claim claim;             /* what all real-time processes had */
    const struct worker_shared *on; /* says which GPU and driver it was */
    double graph_us; /* how long one graph of best effort takes by itself; 0: it launches none */
    struct bench_stages stages;
    struct bench_broke {
        bool broke;
        uint32_t sample; /* which one, from 0 */
        double us;
        uint64_t at_ns; /* its arrival, CLOCK_MONOTONIC */
        uint64_t events, works;
    } broke;
    struct bench_engagement engagement; /* beside real time, under cutin */
    bool checked, identical;            /* best effort's checksum */
    bool cancelled;                     /* by a signal: the figures cover what was measured */
    double seconds;
    char why[512];

    /* State of the run. */
    double part, parts; /* of the progress shown: from where on, of how many; 0, 0: all of it */
    uint64_t order_seed;
    double done_s; /* what the blocks so far should have taken */
    struct paths paths;
    /* Files of traced processes: a trace of each, and the simulated device's log. Without a folder,
     * none is traced. */
    struct bench_trace {
        struct scratch scratch;
        char pattern[300], log[300]; /* CUTIN_TRACE and SIMGPU_LOG */
        long log_at;                 /* how much of the log was read */
    } trace;
    char sim_id[32];
    struct daemon_own daemon;
    struct worker be[BENCH_MODES], rt[BENCH_MODES]; /* alone uses native's */
};

/* Measures by the plan, and ends early when progress_cancel is set. Returns 0, or -errno with one
 * line in `why`. An interrupted run that has measured something returns 0. All its processes and
 * files are gone when it returns. */
int bench_run(struct bench *b);
void bench_free(struct bench *b);

/* ---- bench_figures.c ----------------------------------------------------------------------- */

/* Converts a time of CLOCK_MONOTONIC to nanoseconds since 1970. */
uint64_t bench_since_1970_ns(uint64_t monotonic_ns);
/* Makes figures and estimates of the samples. */
void bench_describe(struct bench *b);
/* A request's latency counts from its planned arrival. In a closed loop that is its launch. */
uint64_t bench_latency_ns(const struct bench *b, const struct worker_sample *s);
static inline bool bench_has(const struct bench *b, int mode)
{
    return b->mode[mode].n > 0;
}
/* Whether a mode has enough samples for this percentile. */
static inline bool bench_enough(const struct bench *b, int mode, double percent)
{
    return b->mode[mode].n >= figures_least_samples(percent);
}
/* If `late` of `n` requests were late, at most this percentage of all requests is late, with 99 %
 * confidence (the limit of Clopper and Pearson). */
double bench_late_limit(uint32_t late, uint32_t n);
double bench_rate(const struct bench_work *work); /* kernels per second; 0: none ran */

/* stages.c: adds a block's samples while its processes are there. 0, or -errno with b->why. */
int bench_stages_take(struct bench *b, const struct worker_sample *sample, uint32_t n);

/* ---- bench_command.c ------------------------------------------------------------------------- */

/* Options of every command that runs benches: the first rows of its table. They set the bench_plan
 * `p`. `default_arrivals`: the arrivals if none are given. */
#define BENCH_OPTION_ROWS(p, default_arrivals)                                                     \
    {"sim", NULL, "run on a private simulated GPU", TAKE_FLAG((p).sim)},                           \
        {"rt-kernels", "N", "real-time kernels per sample (1)",                                    \
         TAKE_NUMBER((p).rt_kernels, 1, 1000)},                                                    \
        {"rt-kernel-us", "N", "duration of each real-time kernel (20)",                            \
         TAKE_NUMBER((p).rt_kernel_us, 1, 1000000)},                                               \
        {"arrivals", "KIND",                                                                       \
         "poisson, uniform[:SPREAD], gamma:SHAPE or trace:FILE: latency counts from\n"             \
         "the scheduled arrival; closed: the next request comes a pause after the\n"               \
         "answer, and latency counts from its launch (" default_arrivals ")",                      \
         TAKE_BY(bench_take_arrivals, p)},                                                         \
        {"rate", "N",                                                                              \
         "mean requests per second (200); with closed arrivals the mean pause is 1/N s\n"          \
         "(500)",                                                                                  \
         TAKE_DECIMAL((p).rate, 0.001, 1000000)},                                                  \
        {"solo-ms", "N", "how long best effort also runs without real time, per mode (1500)",      \
         TAKE_NUMBER((p).solo_ms, 0, 600000)},                                                     \
        {"distance", "TIME",                                                                       \
         "run every mode as if the GPU were this round trip away, such as 8us",                    \
         TAKE_US((p).distance_us, 10000)},                                                         \
        {"warm-up", "N", "requests per mode that are not measured (0)",                            \
         TAKE_NUMBER((p).warm_up, 0, 1000000)},                                                    \
        {"stages", "METHOD",                                                                       \
         "break down each cut-in's time; device times from the simulated device's\n"               \
         "log (log) or from timing events behind every kernel (events); auto: log\n"               \
         "with --sim, else events",                                                                \
         TAKE_WORD((p).method, bench_trace_words)},                                                \
        {"seed", "N", "random seed of arrivals (1)", TAKE_NUMBER((p).seed, 0, UINT64_MAX)},        \
    {                                                                                              \
        "json", NULL, "one JSON object on stdout, instead of tables", TAKE_FLAG((p).json)          \
    }

/* The options of a command that runs one bench and gives its figures by bench_command. */
#define BENCH_ONE_OPTION_ROWS(p)                                                                   \
    BENCH_OPTION_ROWS(p, "poisson"),                                                               \
        {"samples", "N", "samples per mode (1000)", TAKE_NUMBER((p).samples, 1, 1000000)},         \
        {"be-kernel-us", "N", "duration of best-effort kernels (200)",                             \
         TAKE_NUMBER((p).be_kernel_us, 1, 1000000)},                                               \
        {"be-graph", "N", "best effort launches CUDA graphs of N kernels",                         \
         TAKE_NUMBER((p).be_graph, 1, 100000)},                                                    \
        {"mode", "MODE",                                                                           \
         "measure only this mode: alone, native, cutin or, with --be-graph, ungated;\n"            \
         "may be repeated (all)",                                                                  \
         TAKE_WORDS((p).modes, bench_mode_names)},                                                 \
        {"floor-ms", "N",                                                                          \
         "how long to measure the machine's own noise first; 0: not at all (300)",                 \
         TAKE_NUMBER((p).floor_ms, 0, 600000)},                                                    \
        {"percentile", "P",                                                                        \
         "also print this percentile, such as 99.9, with its interval; needs enough\n"             \
         "--samples",                                                                              \
         TAKE_DECIMAL((p).percentile, 0.001, 99.9999)},                                            \
        {"bound", "US", "count the answers that take longer",                                      \
         TAKE_DECIMAL((p).bound_us, 0.001, 1e9)},                                                  \
        {"break", "US",                                                                            \
         "stop at the first answer under cutin that takes longer, and write a trace\n"             \
         "of the last 50 ms of all processes for ui.perfetto.dev",                                 \
         TAKE_DECIMAL((p).break_us, 0.001, 1e9)},                                                  \
        {"break-trace", "FILE", "the trace of --break (break.json)", TAKE_TEXT((p).break_trace)},  \
    {                                                                                              \
        "latencies", "FILE",                                                                       \
            "write every request's mode, arrival (ns since 1970) and latency (ns), one a\n"        \
            "line; cutin-lab histogram reads it",                                                  \
            TAKE_TEXT((p).latencies)                                                               \
    }
/* The plan of such a command before its options are read. */
#define BENCH_ONE_PLAN {.break_trace = "break.json", .solo_ms = 1500, .floor_ms = 300, .seed = 1}

/* What was measured and where, as the member `config` of the figures. NULL: no memory. */
json_t *bench_config_json(const struct bench *b);
void bench_take_arrivals(const struct subcommand *cmd, int row, void *plan);
/* Fills in what was not given and follows from the rest. */
void bench_options_fill(struct bench_plan *p);
/* Checks the plan, runs one bench by it, and gives the figures. `more` adds what the command has in
 * addition; NULL: nothing. Frees the bench. Returns the exit status. */
int bench_command(const struct subcommand *cmd, struct bench *b, int argc, char **argv,
                  void (*more)(const struct bench *b, json_t *root));

#endif
