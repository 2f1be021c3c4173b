/*
 * workload.h - what runs on the GPU: best-effort jobs and a real-time service, drawn from a seed.
 * The command and its workers draw the same, so a worker is told only the seed and a place.
 */
#ifndef PURPOSE_WORKLOAD_H
#define PURPOSE_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "solo.h"

enum { JOBS = 8, STREAMS = 8, SERVICE = JOBS, WORKERS, CYCLE = 4 };
enum { FULL = 108 * 2 };  /* blocks of 1024 threads that fill the simulated GPU */
enum { SOLO_MS = 10000 }; /* the most for a solo, natively and under cutin each */
enum { CHANGE_MS = 100, CHANGED_BUDGET_US = 1000 };
/* From here on seeds mean workloads that have names and are not drawn. */
#define CASE_SEED UINT64_C(1000000000)
/* From here on seeds mean solos, which are drawn. */
#define SOLO_SEED UINT64_C(2000000000)

/* How long a job's kernels run. X(name, what it is) */
#define LENGTHS(X)                                                                                 \
    X(cycle, "so many lengths in turns; one: constant")                                            \
    X(bimodal, "the first, one in eight the second")                                               \
    X(heavy, "the first over a uniform number: a Pareto tail, the second at most")                 \
    X(growing, "from the first to the second within 64 launches, and again")                       \
    X(persistent, "one block for each multiprocessor, between the first and the second")

/* How a service learns that a request is done. X(name) */
#define ENDINGS(X) X(sync) X(query) X(event) X(function) X(word) X(graph)

/* When requests come. X(name, what it is) */
#define ARRIVALS_OF(X)                                                                             \
    X(steady, "at a pace")                                                                         \
    X(poisson, "at random")                                                                        \
    X(bursts, "eight at four times the rate, and a pause")                                         \
    X(early, "at a pace, and one in 65 after a tenth of the gap")                                  \
    X(quiet, "thirty at a pace, and five seconds later thirty more")                               \
    X(once, "one, and none after it")

/* What an administrator does to a process at work. X(name) */
#define CHANGES_OF(X) X(none) X(pause) X(weight) X(budget) X(depth) X(level)

enum length {
#define X(name, what) LENGTH_##name,
    LENGTHS(X)
#undef X
        LENGTH_COUNT
};
enum ending {
#define X(name) ENDING_##name,
    ENDINGS(X)
#undef X
        ENDING_COUNT
};
enum change_kind {
#define X(name) CHANGE_##name,
    CHANGES_OF(X)
#undef X
        CHANGE_COUNT
};
enum arrival {
#define X(name, what) ARRIVAL_##name,
    ARRIVALS_OF(X)
#undef X
        ARRIVAL_COUNT
};

struct job {
    enum length length;
    uint32_t us[CYCLE], cycle;
    uint32_t first_us; /* of the first kernel; 0: as the others */
    uint32_t blocks;
    uint32_t streams;
    bool quiet;          /* no parameter tells how long a kernel will run */
    bool per_thread;     /* uses the thread's default stream, and only that */
    bool come_and_go;    /* a stream is made for each launch, and destroyed after it */
    bool stalls;         /* as much work as the cap takes waits for a word that is never written */
    uint32_t sync_every; /* launches between synchronisations; 0: never */
    uint32_t graph;      /* kernels of a graph; 0: single launches */
    uint32_t copy_kb;    /* copies of this size every 16 launches, in both directions; 0: none */
    uint32_t pool_mb;    /* memory allocated and freed in stream order around each launch */
    uint32_t start_ms, end_ms;
    uint32_t weight;
};

struct service {
    bool there;
    enum ending ending;
    enum arrival arrival;
    const char *level;
    uint32_t kernels, kernel_us, blocks, gap_us;
    uint32_t copy_kb; /* with each request, in and out */
    uint32_t start_ms;
};

struct change { /* it lasts CHANGE_MS */
    enum change_kind what;
    uint32_t who, at_ms; /* who: with CHANGE_level the service, else a job */
};

struct workload {
    uint64_t seed;
    uint32_t jobs, ms;
    struct job job[JOBS];
    struct service service;
    struct change change;
    uint32_t budget_us; /* CUTIN_BUDGET_US of the jobs; 0: the default */
    bool plain;         /* kernels one by one, each job in one stream */
    bool gates;         /* jobs may have gates */
    const char *open;  /* letters of rules that are known to be broken and do not decide; or NULL */
    uint32_t slack_us; /* the wait may be longer by this */
    bool fair;         /* the daemon's policy; shares are judged, and there is no service */
    const struct solo *solo; /* what the only job does; NULL: no solo. Only its time is judged */
    uint32_t least;       /* min_share_percent, which is judged beside a service that never rests */
    uint32_t first_least; /* percent of the device that the first job gets, at least; 0: any */
};

void workload_draw(struct workload *w, uint64_t seed);
/* NULL: there are no more. */
const char *workload_case_name(uint32_t i);
void workload_case(struct workload *w, uint32_t i);
/* Writes one line. */
void workload_print(const struct workload *w, char *text, unsigned size);
/* The length of a job's launch `i` in its stream. `state` is the random state of the stream. */
uint32_t job_kernel_us(const struct job *j, uint32_t i, uint64_t *state);

#endif
