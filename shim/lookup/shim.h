/*
 * shim.h - what the files of the shim share.
 */
#ifndef CUTIN_SHIM_LOOKUP_SHIM_H
#define CUTIN_SHIM_LOOKUP_SHIM_H

/* Declare every version of every function, without the macros that rename one to another. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "shim/lookup/newer.h"
#include "common/locks.h"
#include "common/level.h"
#include "common/likely.h"
#include "common/text.h"

#include <signal.h>
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

/* api_real is what wrappers call: the driver's own function, which is in api_driver, too, or the
 * function that is in front of it for the whole process. Filled when the driver is found; for
 * API_PASS rows by api_get. NULL where the driver lacks the symbol. */
extern void *api_real[API_COUNT], *api_driver[API_COUNT];

/* The function to put in front of the driver's for this row, or NULL. Called when the driver is
 * found; objects/front.c asks a preloaded library. */
void *shim_stand_in(int row);
/* What such a library (shim/front.h) adds to copies; 0 without one. */
extern _Atomic uint32_t front_copy_ns, front_read_ps;

/* The function in api_real; REAL gives it its type. A wrapper was called, so the driver is loaded,
 * or this binds it. Where the driver or the function is absent, a stub that returns
 * CUDA_ERROR_NOT_INITIALIZED or CUDA_ERROR_NOT_FOUND. */
void *api_get(enum api_index index);
#define REAL(symbol)                                                                               \
    (locks_assert_none(#symbol),                                                                   \
     (__typeof__(&symbol))(likely(api_real[API_##symbol]) ? api_real[API_##symbol]                 \
                                                          : api_get(API_##symbol)))

/* ---- lookup.c ------------------------------------------------------------------------------ */

/* The definition that an export of ours displaced: another preload's, or libc's. NULL: none. */
void *lookup_behind(const char *symbol);
/* What a direct link of `caller` would bind to without our export `ours`; NULL: nothing. */
void *lookup_without(const void *ours, const char *name, const void *caller);

/* ---- drain thunks -------------------------------------------------------------------------- */

enum drain_scope {
    DRAIN_CONTEXT,       /* everything buffered in the current context */
    DRAIN_LEGACY,        /* the legacy stream and the blocking streams of the current context */
    DRAIN_ALL,           /* every context of the process */
    DRAIN_WORK,          /* the same, before a function that puts work into some stream */
    DRAIN_UNKNOWN,       /* DRAIN_ALL, before a function that may do anything to any context */
    DRAIN_UNKNOWN_BEGIN, /* the same, before one that begins a capture */
};
/* Called by thunks and wrappers: drains. Cheap when nothing is buffered and no context was seen.
 * Makes a real-time process active if the call is work for the GPU. */
void shim_drain(enum drain_scope scope);

/* ---- config.c ------------------------------------------------------------------------------ */

enum stream_priority_mode { STREAM_PRIORITY_FLAT, STREAM_PRIORITY_INHERIT, STREAM_PRIORITY_HINT };
enum profile_mode { PROFILE_ON, PROFILE_OFF };
enum gates_mode { GATES_AUTO, GATES_ON, GATES_OFF };
enum pad_mode { PAD_OFF, PAD_ON };
enum alone_mode { ALONE_FREE, ALONE_CAPPED };
enum suspend_mode { SUSPEND_OFF, SUSPEND_AUTO, SUSPEND_ON };
enum trace_keep { TRACE_KEEP_NEWEST, TRACE_KEEP_FIRST };

struct config {
    uint32_t disabled, level;
    enum stream_priority_mode stream_priority;
    uint32_t weight, budget_us, depth, queue;
    enum gates_mode gates, graph_gates;
    enum alone_mode alone;
    enum pad_mode pad;
    enum suspend_mode suspend;
    uint32_t suspend_after_us;
    uint32_t linger_us, max_hold_ms, stuck_ms, deadline_ms, peer_us, copy_bytes;
    uint32_t distance_ns, distance_tags;
    enum profile_mode profile;
    char socket[108];          /* "" = none */
    char cpus[1024];           /* "" = see common/thread.h */
    char waiting_kernels[512]; /* patterns; "" = none */
    char trace[4096];          /* "" = off */
    enum trace_keep trace_keep;
    uint32_t trace_records;
    uint32_t log; /* LOG_*; log_enabled reads the variable itself */
};
/* The settings are read with secure_getenv when the library is loaded, and again on first use. So
 * what a program sets in between counts, and what it clears keeps its value. Bad values are told at
 * the second reading: one warning, and the default. */
void config_load(void);
const struct config *config_get(void);
/* In a forked child: the thread that was reading them does not exist there. */
void config_after_fork(void);
/* Reasons why nothing is buffered. 0: no reason. */
enum {
    INLINE_SET = 1u << 0,      /* a profiler from the start (CUDA_INJECTION64_PATH), or the driver's
                             launches wait for their work (CUDA_LAUNCH_BLOCKING) */
    INLINE_UNKNOWN = 1u << 1,  /* unknown.h */
    INLINE_PROFILER = 1u << 2, /* profiler.h */
};
extern _Atomic uint32_t inline_reasons;
static inline bool calls_are_inline(void)
{
    return atomic_load_explicit(&inline_reasons, memory_order_relaxed) != 0;
}

/* ---- log.c --------------------------------------------------------------------------------- */

/* When the library is loaded: messages go to what is standard error now, as long as it stays so. */
void log_start(void);
/* One write(2) to stderr for each line, with "cutin: " in front, if stderr takes it at once. Keeps
 * errno. Filtered by CUTIN_LOG. */
void log_line(int severity, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool log_enabled(int severity);

/* ---- quiet.c ------------------------------------------------------------------------------- */

/* Protects the program when the library writes a line or a file, or joins a thread, in one of the
 * program's threads. The program then sees no signals of a write (its reader is gone, a file may
 * not grow, a terminal stops writers), no end by pthread_cancel in a call that the program did not
 * make, and no change of errno. */
struct quiet {
    int errno_was, cancel_was;
    sigset_t mask_was, pending_was;
};
/* Call both in one thread, around the work. They nest, and may be called in a signal handler. */
void quiet_begin(struct quiet *q);
void quiet_end(const struct quiet *q);

/* ---- process.c ----------------------------------------------------------------------------- */

/* True from then on in a child forked after cuInit, with CUTIN_DISABLE=1, and after exit handlers
 * ran. Lookups then find the driver's functions. */
extern _Atomic bool shim_off;
/* True when the driver was found and shim_off is false. False: all wrappers just pass through. The
 * page is wiped in any child, also in one made by clone or _Fork, which no handler reports. Such a
 * child must not write into pages that it shares with its parent, nor join its parent's threads. */
#ifdef __x86_64__
enum { LIFE_PAGE = 4096 };
#else
enum { LIFE_PAGE = 65536 }; /* the largest page size */
#endif
extern struct shim_life {
    _Alignas(LIFE_PAGE) _Atomic bool engaged;
} shim_life;
static inline bool shim_bypassed(void)
{
    return !atomic_load_explicit(&shim_life.engaged, memory_order_relaxed);
}
/* Sets both. */
void shim_engage(bool on);

/* The driver was found: warns about bad settings, watches exit. Called once, by api.c. */
void process_cuda_seen(void);
/* In pace/exit.c. At exit: submits what is buffered, and takes 2 s at most. */
void shim_exit_drain(void);
/* In pace/exit.c. In a forked child, after shim_engage(false): forgets threads, queues and the
 * connection (vhq_after_fork, client_after_fork), and frees nothing. */
void shim_fork_child(void);

#endif
