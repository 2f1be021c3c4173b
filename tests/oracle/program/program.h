/*
 * program.h - a random program of the driver API, and what it must compute.
 *
 * A program is made in two steps. `intents` are drawn from the seed alone: "mix buffer 3 in stream
 * 2", "destroy event 1". `program_lower` turns the intents that a mask leaves into `op`s. It
 * inserts what the CUDA ordering rules need (events, waits, syncs, thread barriers), so that the
 * program has no data races. At the same time it runs every op on a plain C model. So each program
 * has exactly one right result, a smaller mask gives a right program again, and shrinking means to
 * remove intents.
 *
 * Happens-before is tracked by vector clocks of streams and host threads. Only order that CUDA
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
    /* Stream slots. Each context has the legacy stream, a per-thread stream for each thread, the
     * stream of a thread that ends, and created ones. Slot = the context's first slot + role. */
    LEGACY = 0,
    PER_THREAD = 1,
    PASSING = PER_THREAD + THREADS,
    CREATED,
    MAIN = 0, /* the primary context */
    OTHER = CREATED + 5,
    OTHER_CREATED = 2,
    GREEN = OTHER + CREATED + OTHER_CREATED, /* a green context beside the primary one */
    GREEN_CREATED = 2,
    STREAMS = GREEN + CREATED + GREEN_CREATED,
    HOSTS = STREAMS, /* timelines: streams, then host threads */
    TIMELINES = STREAMS + THREADS,
    MAIN_EVENTS = 6, /* events belong to a context as well */
    EVENTS = MAIN_EVENTS + 2,
    FLAGS = 4,        /* memop words */
    ORDER_WORDS = 64, /* words that order streams, each used once */
    RACES = 12,       /* races of a thread that issues and one that asks */
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
    SHARED_MUCH = 64 << 10, /* bytes of shared memory that a kernel must be allowed */
    SHARED_LITTLE = 1 << 10,
};

/* The context of a stream slot, and the slot's role in it. */
static inline int stream_base(int stream)
{
    return stream < OTHER ? MAIN : stream < GREEN ? OTHER : GREEN;
}

/* The slot behind the last one of the context whose first slot is `base`. */
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
/* Whether it may be called while another context is current, or none, if its stream is a created
 * one. */
bool op_moves(enum op_kind kind);
/* Whether it enters its own context by itself. `where` is then for a part of it. */
bool op_at_home(enum op_kind kind);

/* Whether the header of this build has green contexts, and events of whole contexts. */
static inline bool green_known(void)
{
    return CUDA_VERSION >= 12050;
}

/* The current context of a thread that makes a call naming a stream or memory of some context. */
enum where { WHERE_OWN, WHERE_ELSEWHERE, WHERE_NOWHERE };

struct op {
    enum op_kind kind;
    uint8_t thread, stream, event, flag, exec;
    uint8_t dst, src;    /* buffer slots */
    uint8_t where;       /* the current context, an enum where */
    uint8_t variant;     /* picks a variant of the call: _ptsz symbols, flags, modes */
    uint32_t a, b;       /* values */
    uint64_t ns;         /* kernel duration */
    uint8_t graph_count; /* CAPTURE: what is captured */
    struct graph_op {
        enum op_kind kind; /* MIX, COPY_KERNEL, MEMSET32, D2D, HOST_FUNC; built: RECORD, WAIT */
        uint8_t dst, src, event;
        uint8_t fork; /* captured: in a second stream; built: inside a child graph */
        bool off;     /* switched off in the executable graph */
        uint32_t a, b;
    } graph[GRAPH_OPS];
    uint32_t clock[TIMELINES]; /* what its work follows, including itself */
    uint64_t expect;           /* HOST_READ: the hash that must be read */
    bool must_be_done;         /* queries: the model knows that the answer must be "ready" */
};

/* `forms` of new programs, and what each of them added. Recorded programs keep their forms. */
enum {
    FORMS_WORDS = 1,  /* order by words in memory */
    FORMS_GRAPHS = 2, /* longer graphs, clones, uploads, one call that changes any node */
    FORMS_EVENTS =
        3, /* nodes with events; after such a launch none is buffered any more, so 2 has none */
    FORMS_PLACES = 4,        /* calls from elsewhere, two devices, green contexts; nodes as in 2 */
    FORMS_PLACES_EVENTS = 5, /* the same, with nodes as in 3 */
};

struct intent {
    enum op_kind kind;
    uint32_t r[8]; /* raw random numbers, which lowering interprets */
};

struct program {
    uint64_t seed;
    uint32_t intent_count;
    struct intent intents[MAX_INTENTS];
    uint32_t op_count;
    struct op ops[MAX_OPS];
    uint32_t threads;
    uint8_t forms;                 /* which forms intents have */
    uint8_t contexts;              /* 2: some work goes to the OTHER context */
    uint8_t devices;               /* 2: the OTHER context is the second device's */
    bool green;                    /* some work goes to a GREEN context */
    uint8_t stream_flags[STREAMS]; /* 1 = non-blocking */
    int8_t stream_priority[STREAMS];
    uint64_t final_hash[BUFFERS]; /* of every buffer after the last op; 0: not allocated */
};

/* How the process of a program is set up. SETTING_SEEDS seeds in a row have the same setting. */
enum setting {
    SETTING_DEFAULT,
    SETTING_TINY,      /* budget, depth and queue so small that nearly all work is buffered */
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

/* Whether the op makes this stream wait, as one of all streams of its context. */
bool op_makes_wait(const struct op *op, int stream);

uint64_t random_next(uint64_t *state); /* splitmix64 */

/* How often a resident kernel (MIX_AWAIT) mixes, each time when its thread lets it. */
static inline uint32_t await_rounds(uint8_t variant)
{
    return 1 + variant % 4;
}

/* How often a loop mixes, each time in a block that it allocates and frees in stream order. */
static inline uint32_t loop_rounds(uint8_t variant)
{
    return 2 + variant / 4 % 4;
}

/* The effect of kernels and host functions on a buffer; the model and the host functions use it. */
void buffer_mix(uint32_t *x, uint32_t a, uint32_t b);
uint64_t buffer_hash(const uint32_t *x);
void buffer_seed(uint32_t *x, uint32_t value); /* HOST_WRITE, and initial contents */

#endif
