/*
 * shim.h - what the files of the shim share.
 */
#ifndef CUTIN_SHIM_LOOKUP_SHIM_H
#define CUTIN_SHIM_LOOKUP_SHIM_H

/* Declare every version of every function, and no macro that renames one to another. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "shim/lookup/newer.h"
#include "common/held.h"
#include "common/level.h"
#include "common/likely.h"
#include "common/severity.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* ---- api.c ------------------------------------------------------------------------------- */

enum api_index {
#define API_PASS(symbol, ...)  API_##symbol,
#define API_DRAIN(symbol, ...) API_##symbol,
#define API_WRAP(symbol, ...)  API_##symbol,
#include "shim/lookup/api.def"
    API_COUNT
};

/* What wrappers call, filled by api_get for every row that is not API_PASS; NULL where the driver
 * lacks the symbol. It is the driver's own function, in api_driver, or what stands in front of that
 * for the whole process. */
extern void *api_real[API_COUNT], *api_driver[API_COUNT];

/* A function that stands in front of the driver's for this row, or NULL. Asked when the driver is
 * found; objects/front.c asks a preloaded library. */
void *shim_stand_in(int row);

/* The driver's own function, typed. The wrapper was called, so the driver was loaded, or the call
 * binds it: returns a stub that answers CUDA_ERROR_NOT_INITIALIZED / NOT_FOUND where it is
 * absent. */
void *api_get(enum api_index index);
#define REAL(symbol)                                                                               \
    (held_none(#symbol),                                                                           \
     (__typeof__(&symbol))(likely(api_real[API_##symbol]) ? api_real[API_##symbol]                 \
                                                          : api_get(API_##symbol)))

/* ---- lookup.c ------------------------------------------------------------------------------ */

/* The definition that an export of ours displaced: another preload's, or libc's. NULL: none. */
void *lookup_behind(const char *symbol);
/* What a direct link of `caller` would be bound to without our export `ours`; NULL: to nothing. */
void *lookup_without(const void *ours, const char *name, const void *caller);

/* ---- drain thunks -------------------------------------------------------------------------- */

enum drain_scope {
    DRAIN_CONTEXT,       /* everything buffered in the current context */
    DRAIN_LEGACY,        /* the legacy stream and the blocking streams of the current context */
    DRAIN_ALL,           /* every context of the process */
    DRAIN_WORK,          /* the same, before a function that puts work into some stream */
    DRAIN_UNKNOWN,       /* DRAIN_ALL, before a function that may do anything to any context */
    DRAIN_UNKNOWN_BEGIN, /* and that begins a capture */
};
/* Called by the thunks (and by wrappers): performs the drain; cheap when nothing is buffered and no
 * context was seen. Marks a real-time process active where the call is GPU work. */
void shim_drain(enum drain_scope scope);

/* ---- config.c ------------------------------------------------------------------------------ */

enum stream_priority_mode { STREAM_PRIORITY_FLAT, STREAM_PRIORITY_INHERIT, STREAM_PRIORITY_HINT };
enum profile_mode { PROFILE_ON, PROFILE_OFF };
enum gates_mode { GATES_AUTO, GATES_ON, GATES_OFF };
enum pad_mode { PAD_OFF, PAD_ON };
enum alone_mode { ALONE_FREE, ALONE_CAPPED };
enum graph_gates_mode { GRAPH_GATES_AUTO, GRAPH_GATES_ON, GRAPH_GATES_OFF };
enum suspend_mode { SUSPEND_OFF, SUSPEND_AUTO, SUSPEND_ON };
enum trace_keep { TRACE_KEEP_NEWEST, TRACE_KEEP_FIRST };

struct config {
    bool disabled;
    uint32_t level;
    enum stream_priority_mode stream_priority;
    uint32_t weight, budget_us, depth, queue;
    enum gates_mode gates;
    enum graph_gates_mode graph_gates;
    enum alone_mode alone;
    enum pad_mode pad;
    enum suspend_mode suspend;
    uint32_t suspend_after_us;
    uint32_t linger_us, max_hold_ms, stuck_ms, deadline_ms, peer_us, copy_bytes;
    uint32_t distance_ns, distance_tags;
    enum profile_mode profile;
    char socket[108];          /* "" = none */
    char cpus[1024];           /* "" = see thread.h */
    char waiting_kernels[512]; /* patterns; "" = none */
    char trace[4096];          /* "" = off */
    enum trace_keep trace_keep;
    uint32_t trace_records;
    uint32_t log; /* LOG_*; log_enabled asks log.c */
};
/* Read with secure_getenv when the library is loaded, and once more on first use, when what is bad
 * is one warning and the default: what a program sets in between counts, and what it clears still
 * does. */
void config_load(void);
const struct config *config_get(void);
/* In a forked child: a thread that was reading them is not there. */
void config_after_fork(void);
/* Why nothing is buffered; 0: nothing speaks against it. */
enum {
    INLINE_SET = 1u << 0,      /* a profiler from the start (CUDA_INJECTION64_PATH), or the driver's
                             launches wait for their work (CUDA_LAUNCH_BLOCKING) */
    INLINE_UNKNOWN = 1u << 1,  /* unknown.h */
    INLINE_PROFILER = 1u << 2, /* profiler.h */
};
extern _Atomic uint32_t calls_inline;
static inline bool calls_are_inline(void)
{
    return atomic_load_explicit(&calls_inline, memory_order_relaxed) != 0;
}

/* ---- log.c --------------------------------------------------------------------------------- */

/* When the library is loaded: messages go to what is standard error now, while it is that. */
void log_start(void);
/* One write(2) to stderr per line, "cutin: " in front, if it takes it at once; keeps errno.
 * Filtered by CUTIN_LOG. */
void log_line(int severity, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool log_enabled(int severity);

/* ---- process.c ----------------------------------------------------------------------------- */

/* True once and for all in a child forked after cuInit, with CUTIN_DISABLE=1, and after exit
 * handlers ran: who looks a function up then gets the driver's. */
extern _Atomic bool shim_off;
/* The driver was found, and none of that is so: else every wrapper is plain pass-through. Memory
 * that a child of any kind finds empty, also one that was made by clone or _Fork, of which nobody
 * tells: it is not to write into pages that it shares with its parent, nor to join its threads. */
#ifdef __x86_64__
enum { LIFE_PAGE = 4096 };
#else
enum { LIFE_PAGE = 65536 }; /* the largest there is */
#endif
extern struct shim_life {
    _Alignas(LIFE_PAGE) _Atomic bool engaged;
} shim_life;
static inline bool shim_bypassed(void)
{
    return !atomic_load_explicit(&shim_life.engaged, memory_order_relaxed);
}
void shim_begin(void);
void shim_end(void);

/* The driver was found: warn about bad settings, watch exit. Called once by api.c. */
void process_cuda_seen(void);
/* Implemented by pace/exit.c. At exit: submit what is buffered, for at most 2 s in all. */
void shim_exit_drain(void);
/* Implemented by pace/exit.c, if it has anything to do: in a forked child, after shim_end.
 * Forget threads, queues and the connection (vhq_after_fork, client_after_fork); free nothing. */
void shim_fork_child(void);

#endif
