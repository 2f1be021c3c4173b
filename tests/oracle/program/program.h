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
 * promises is used: stream order, event waits, words that memory operations write and wait for, the
 * legacy stream against blocking streams, host synchronisation, and barriers between threads.
 */
#ifndef ORACLE_PROGRAM_H
#define ORACLE_PROGRAM_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    WORDS = 64, /* 32-bit words per buffer */
    THREADS = 3,
    /* Stream slots. Each context has the legacy stream, one per-thread stream per thread, that of
     * a thread which ends, and created ones: slot = first slot of the context + role. */
    LEGACY = 0,
    PER_THREAD = 1,
    PASSING = PER_THREAD + THREADS,
    CREATED,
    MAIN = 0, /* the primary context */
    OTHER = CREATED + 5,
    OTHER_CREATED = 2,
    GREEN = OTHER + CREATED + OTHER_CREATED, /* a green context of the primary one */
    GREEN_CREATED = 2,
    STREAMS = GREEN + CREATED + GREEN_CREATED,
    HOSTS = STREAMS, /* timelines: streams, then host threads */
    TIMELINES = STREAMS + THREADS,
    MAIN_EVENTS = 6, /* events belong to a context, too */
    EVENTS = MAIN_EVENTS + 2,
    FLAGS = 4,        /* memop words */
    ORDER_WORDS = 64, /* words that order streams, used once each */
    RACES = 12,       /* of a thread that issues against one that asks */
    EXECS = 3,
    DEVICE = 0, /* buffer slots by kind */
    PINNED = DEVICE + 5,
    PAGEABLE = PINNED + 3,
    POOLED = PAGEABLE + 2, /* stream-ordered allocations */
    OTHER_DEVICE = POOLED + 3,
    BUFFERS = OTHER_DEVICE + 2,
    MAX_INTENTS = 64,
    MAX_OPS = 1024,
    GRAPH_OPS = 8,
    FAULT_CODE = 700,       /* CUDA_ERROR_ILLEGAL_ADDRESS */
    SHARED_MUCH = 64 << 10, /* bytes of shared memory that a kernel has to be allowed, and fewer */
    SHARED_LITTLE = 1 << 10,
};

/* Which context a stream slot is in, and what it is there. */
static inline int stream_base(int stream)
{
    return stream < OTHER ? MAIN : stream < GREEN ? OTHER : GREEN;
}

/* One past the last slot of the context whose first one is `base`. */
static inline int stream_end(int base)
{
    return base == MAIN ? OTHER : base == OTHER ? GREEN : STREAMS;
}

static inline int stream_role(int stream)
{
    return stream - stream_base(stream);
}

static inline int event_base(int event)
{
    return event < MAIN_EVENTS ? MAIN : OTHER;
}

/* name, how it is lowered (lower_*), how it runs (run_*) */
#define OP_KINDS(X)                                                                                \
    X(BARRIER, barrier, barrier)                                                                   \
    X(MIX, data, kernel)                                                                           \
    X(MIX_EXTRA, data, kernel)                                                                     \
    X(MIX_EX, data, kernel)                                                                        \
    X(MIX_COOP, data, kernel)                                                                      \
    X(MIX_AWAIT, data, kernel)                                                                     \
    X(MIX_EVENT, mix_event, kernel)                                                                \
    X(MIX_PASSING, passing, kernel)                                                                \
    X(FILL, data, kernel)                                                                          \
    X(COPY_KERNEL, data, kernel)                                                                   \
    X(SPIN, plain, kernel)                                                                         \
    X(H2D, data, copy)                                                                             \
    X(D2H, data, copy)                                                                             \
    X(D2D, data, copy)                                                                             \
    X(COPY_ANY, data, copy)                                                                        \
    X(COPY_2D, data, copy)                                                                         \
    X(COPY_3D, data, copy)                                                                         \
    X(COPY_BATCH, data, copy)                                                                      \
    X(COPY_NOTHING, nothing, nothing)                                                              \
    X(COPY_PEER, data, copy)                                                                       \
    X(COPY_3D_PEER, data, copy)                                                                    \
    X(MEMSET8, data, copy)                                                                         \
    X(MEMSET16, data, copy)                                                                        \
    X(MEMSET32, data, copy)                                                                        \
    X(MEMSET2D, data, copy)                                                                        \
    X(SYNC_H2D, data, copy)                                                                        \
    X(SYNC_D2H, data, copy)                                                                        \
    X(SYNC_D2D, data, copy)                                                                        \
    X(SYNC_ANY, data, copy)                                                                        \
    X(SYNC_MEMSET, data, copy)                                                                     \
    X(PREFETCH, plain, memory)                                                                     \
    X(ATTACH, plain, memory)                                                                       \
    X(ALLOC_ASYNC, pool, memory)                                                                   \
    X(FREE_ASYNC, pool, memory)                                                                    \
    X(ALLOC_FREE, quiet, memory)                                                                   \
    X(POOL_LOOP, pool_loop, memory)                                                                \
    X(RENEW, renew, place)                                                                         \
    X(PIN, pin, place)                                                                             \
    X(UNPIN, pin, place)                                                                           \
    X(MAP, map, place)                                                                             \
    X(RETAIN, map, place)                                                                          \
    X(FREE_NOTHING, map, place)                                                                    \
    X(HOST_WRITE, host, host)                                                                      \
    X(HOST_READ, host, host)                                                                       \
    X(HOST_FUNC, data, host)                                                                       \
    X(CALLBACK, data, host)                                                                        \
    X(HOST_FUNC_CUDA, plain, host)                                                                 \
    X(FLAG_WRITE, flag, memop)                                                                     \
    X(FLAG_WAIT, flag, memop)                                                                      \
    X(FLAG_BATCH, flag, memop)                                                                     \
    X(ORDER_WRITE, quiet, memop)                                                                   \
    X(ORDER_WAIT, quiet, memop)                                                                    \
    X(ORDER_POLL, quiet, memop)                                                                    \
    X(ORDER_SET, quiet, memop)                                                                     \
    X(RECORD, event, event)                                                                        \
    X(WAIT, event, event)                                                                          \
    X(EVENT_SYNC, event, event)                                                                    \
    X(EVENT_POLL, event, event)                                                                    \
    X(EVENT_QUERY, event, event)                                                                   \
    X(ELAPSED, event, event)                                                                       \
    X(EVENT_DESTROY, event, event)                                                                 \
    X(STREAM_QUERY, stream, stream)                                                                \
    X(STREAM_POLL, stream, stream)                                                                 \
    X(STREAM_SYNC, stream, stream)                                                                 \
    X(STREAM_DESTROY, stream, stream)                                                              \
    X(HOLD, stream, stream)                                                                        \
    X(RACE, race, race)                                                                            \
    X(TELL, quiet, race)                                                                           \
    X(ASK, quiet, race)                                                                            \
    X(ALLOW, allow, allow)                                                                         \
    X(MIX_MUCH, data, allow)                                                                       \
    X(SET_ATTRIBUTE, refused, stream)                                                              \
    X(CTX_SYNC, context_sync, context)                                                             \
    X(CTX_RENEW, context_renew, context)                                                           \
    X(CTX_RECORD, context_record, context)                                                         \
    X(CTX_WAIT, context_wait, context)                                                             \
    X(FAULT, fault, fault)                                                                         \
    X(FAULT_SEEN, quiet, fault)                                                                    \
    X(FAULT_KNOWN, quiet, fault)                                                                   \
    X(CAPTURE, capture, graph)                                                                     \
    X(GRAPH_BUILD, graph_build, graph)                                                             \
    X(GRAPH_LAUNCH, graph_launch, graph)                                                           \
    X(GRAPH_UPDATE, graph_update, graph)                                                           \
    X(GRAPH_SET, graph_set, graph)                                                                 \
    X(GRAPH_REPLACE, graph_replace, graph)                                                         \
    X(GRAPH_ENABLE, graph_enable, graph)                                                           \
    X(GRAPH_DESTROY, graph_destroy, graph)                                                         \
    X(MODULE_RELOAD, quiet, reload)                                                                \
    X(LIBRARY_RELOAD, library, reload)                                                             \
    X(BAD_GRID, refused, bad)                                                                      \
    X(BAD_STREAM, refused, bad)                                                                    \
    X(BAD_EVENT, refused, bad)                                                                     \
    X(BAD_PARAMS, refused, bad)                                                                    \
    X(BAD_SHARED, quiet, allow)

enum op_kind {
#define X(name, lower, run) OP_##name,
    OP_KINDS(X)
#undef X
        OP_KIND_COUNT
};
const char *op_kind_name(enum op_kind kind);
/* May it be called with another context current, or with none, where its stream is a created
 * one? */
bool op_moves(enum op_kind kind);
/* Does it go to its own context itself where it needs to? `where` is then for a part of it. */
bool op_at_home(enum op_kind kind);

/* Does the header that this was built with know green contexts, and events of whole contexts? */
static inline bool green_known(void)
{
    return CUDA_VERSION >= 12050;
}

/* Where a thread stands when it makes a call that names a stream or memory of some context. */
enum where { WHERE_OWN, WHERE_ELSEWHERE, WHERE_NOWHERE };

struct op {
    enum op_kind kind;
    uint8_t thread, stream, event, flag, exec;
    uint8_t dst, src;    /* buffer slots */
    uint8_t where;       /* which context is current, enum where */
    uint8_t variant;     /* picks a spelling: _ptsz symbols, flags, modes */
    uint32_t a, b;       /* values */
    uint64_t ns;         /* kernel duration */
    uint8_t graph_count; /* CAPTURE: what is captured */
    struct graph_op {
        enum op_kind kind; /* MIX, COPY_KERNEL, MEMSET32, D2D, HOST_FUNC; RECORD, WAIT if built */
        uint8_t dst, src, event;
        uint8_t fork; /* captured in a second stream; built: inside a child graph */
        bool off;     /* switched off in the executable graph */
        uint32_t a, b;
    } graph[GRAPH_OPS];
    uint32_t clock[TIMELINES]; /* what its work follows, itself included */
    uint64_t expect;           /* HOST_READ: hash that must be seen */
    bool must_be_done;         /* queries: the model knows that the answer is "ready" */
};

/* `forms` of new programs, and what each added. Recorded programs keep those that they had. */
enum {
    FORMS_WORDS = 1,  /* order by words in memory */
    FORMS_GRAPHS = 2, /* longer graphs, clones, uploads, one call that changes any node */
    FORMS_EVENTS =
        3, /* nodes with events, which 2 lacks: no launch is buffered any more after one */
    FORMS_PLACES = 4,        /* calls from elsewhere, two devices, green contexts; nodes as in 2 */
    FORMS_PLACES_EVENTS = 5, /* the same; nodes as in 3 */
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
    uint8_t forms;                 /* which forms of an intent there are */
    uint8_t contexts;              /* 2: work goes to the OTHER context, too */
    uint8_t devices;               /* 2: that one is the second device's */
    bool green;                    /* work goes to a GREEN context, too */
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

/* The driver is a real one: one device, and nothing that it may crash on or never recovers from. */
extern bool program_real;
/* Draws the intents of `seed`. */
void program_draw(struct program *p, uint64_t seed);
/* Lowers the intents whose bit is set in `mask` (bit i = intent i). */
void program_lower(struct program *p, uint64_t mask);
void program_print(const struct program *p, int fd);

/* Does it make this stream wait, as one of all the streams of its context? */
bool op_makes_wait(const struct op *op, int stream);

uint64_t random_next(uint64_t *state); /* splitmix64 */

/* A resident kernel (MIX_AWAIT) mixes so often, each time when its thread lets it. */
static inline uint32_t await_rounds(uint8_t variant)
{
    return 1 + variant % 4;
}

/* A loop mixes so often, each time in a block that it allocates and frees in stream order. */
static inline uint32_t loop_rounds(uint8_t variant)
{
    return 2 + variant / 4 % 4;
}

/* What kernels and host functions do to a buffer; shared by the model and the host functions. */
void buffer_mix(uint32_t *x, uint32_t a, uint32_t b);
uint64_t buffer_hash(const uint32_t *x);
void buffer_seed(uint32_t *x, uint32_t value); /* HOST_WRITE and initial contents */

#endif
