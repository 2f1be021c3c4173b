/*
 * program.h - a random driver-API program and what it must compute.
 *
 * A program is made in two steps. `intents` are drawn from the seed alone: "mix buffer 3 in stream
 * 2", "destroy event 1". `program_lower` turns the intents that a mask leaves enabled into `op`s:
 * it inserts whatever the CUDA ordering rules need (events, waits, syncs, thread barriers) to make
 * the program free of data races, and runs every op on a plain C model at the same time. So each
 * program has exactly one right result, a smaller mask is again a right program, and shrinking is
 * removing intents.
 *
 * Happens-before is tracked with vector clocks over streams and host threads. Only order that CUDA
 * promises is used: stream order, event waits, memop flags, the legacy stream against blocking
 * streams, host synchronisation, and barriers between threads.
 */
#ifndef ORACLE_PROGRAM_H
#define ORACLE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WORDS = 64, /* 32-bit words per buffer */
    THREADS = 3,
    LEGACY = 0, /* stream slots: legacy, one per-thread stream per thread, created ones */
    PER_THREAD = 1,
    CREATED = PER_THREAD + THREADS,
    STREAMS = CREATED + 5,
    HOSTS = STREAMS, /* timelines: streams, then host threads */
    TIMELINES = STREAMS + THREADS,
    EVENTS = 6,
    FLAGS = 4, /* memop words */
    EXECS = 3,
    DEVICE = 0, /* buffer slots by kind */
    PINNED = DEVICE + 5,
    PAGEABLE = PINNED + 3,
    POOLED = PAGEABLE + 2, /* stream-ordered allocations */
    BUFFERS = POOLED + 3,
    MAX_INTENTS = 64,
    MAX_OPS = 1024,
    GRAPH_OPS = 4,
};

/* name, uses a stream, counts as one device command */
#define OP_KINDS(X)                                                                                \
    X(BARRIER)                                                                                     \
    X(MIX)                                                                                         \
    X(MIX_EXTRA)                                                                                   \
    X(MIX_EX) X(MIX_COOP) X(FILL) X(COPY_KERNEL) X(SPIN) X(H2D) X(D2H) X(D2D) X(COPY_ANY)          \
        X(COPY_2D) X(COPY_3D) X(COPY_BATCH) X(MEMSET8) X(MEMSET16) X(MEMSET32) X(MEMSET2D)         \
            X(PREFETCH) X(SYNC_H2D) X(SYNC_D2H) X(SYNC_D2D) X(SYNC_ANY) X(SYNC_MEMSET)             \
                X(HOST_WRITE) X(HOST_READ) X(HOST_FUNC) X(CALLBACK) X(HOST_FUNC_CUDA) X(HOLD)      \
                    X(RECORD) X(WAIT) X(EVENT_SYNC) X(EVENT_POLL) X(EVENT_QUERY) X(STREAM_QUERY)   \
                        X(STREAM_POLL) X(STREAM_SYNC) X(CTX_SYNC) X(ELAPSED) X(EVENT_DESTROY)      \
                            X(STREAM_DESTROY) X(FLAG_WRITE) X(FLAG_WAIT) X(FLAG_BATCH)             \
                                X(ALLOC_ASYNC) X(FREE_ASYNC) X(CAPTURE) X(GRAPH_LAUNCH)            \
                                    X(GRAPH_UPDATE) X(GRAPH_DESTROY) X(MODULE_RELOAD)              \
                                        X(LIBRARY_RELOAD) X(ALLOC_FREE) X(SET_ATTRIBUTE)           \
                                            X(BAD_GRID) X(BAD_STREAM) X(BAD_EVENT) X(BAD_PARAMS)

enum op_kind {
#define X(name) OP_##name,
    OP_KINDS(X)
#undef X
        OP_KIND_COUNT
};
const char *op_kind_name(enum op_kind kind);

struct op {
    enum op_kind kind;
    uint8_t thread, stream, event, flag, exec;
    uint8_t dst, src;    /* buffer slots */
    uint8_t variant;     /* picks a spelling: _ptsz symbols, flags, modes */
    uint32_t a, b;       /* values */
    uint64_t ns;         /* kernel duration */
    uint8_t graph_count; /* CAPTURE: what is captured */
    struct graph_op {
        enum op_kind kind; /* MIX, FILL, COPY_KERNEL, MEMSET32, D2D, HOST_FUNC */
        uint8_t dst, src, fork;
        uint32_t a, b;
    } graph[GRAPH_OPS];
    uint64_t expect;   /* HOST_READ: hash that must be seen */
    bool must_be_done; /* queries: the model knows that the answer is "ready" */
};

struct intent {
    enum op_kind kind;
    uint32_t r[8]; /* raw random numbers, interpreted while lowering */
};

struct program {
    uint64_t seed;
    uint32_t intent_count;
    struct intent intents[MAX_INTENTS];
    uint32_t op_count;
    struct op ops[MAX_OPS];
    uint32_t threads;
    uint8_t stream_flags[STREAMS]; /* 1 = non-blocking */
    int8_t stream_priority[STREAMS];
    uint64_t final_hash[BUFFERS]; /* of every buffer after the last op; 0 = not allocated */
};

/* How the process that runs a program is set up; the same for SETTING_SEEDS seeds in a row. */
enum setting {
    SETTING_DEFAULT,
    SETTING_TINY,      /* budget, depth and queue so small that nearly everything is buffered */
    SETTING_LEVELS,    /* below real time, CUDA stream priorities are levels */
    SETTING_NO_MEMOPS, /* a driver without stream memory operations */
    SETTING_REAL_TIME, /* as SETTING_LEVELS, up to real time */
    SETTINGS,
    SETTING_SEEDS = 32,
};
enum setting program_setting(uint64_t seed);

/* Draws the intents of `seed`. */
void program_draw(struct program *p, uint64_t seed);
/* Lowers the intents whose bit is set in `mask` (bit i = intent i). */
void program_lower(struct program *p, uint64_t mask);
void program_print(const struct program *p, int fd);

/* What kernels and host functions do to a buffer; shared by the model and the host functions. */
void buffer_mix(uint32_t *x, uint32_t a, uint32_t b);
uint64_t buffer_hash(const uint32_t *x);
void buffer_seed(uint32_t *x, uint32_t value); /* HOST_WRITE and initial contents */

#endif
