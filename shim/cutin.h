/*
 * cutin.h - what a program may tell cutin, and ask of it. No program needs this.
 *
 * This header alone suffices: nothing has to be linked. Where libcutin.so is not preloaded, or is
 * switched off by CUTIN_DISABLE, every function does nothing and says so: it returns
 * CUTIN_NOT_LOADED, or the value that its comment names. The functions are weak symbols, which need
 * a position-independent program; compilers make one by default. Elsewhere, and in other languages,
 * find them by dlsym(RTLD_DEFAULT, "cutin_...").
 *
 * A level is a number from 0 (best effort) to 3 (real time), as in CUTIN_PRIORITY. A stream of NULL
 * is the legacy default stream. Any thread may call any function. All of them keep errno and,
 * unless their comment says otherwise, neither wait nor allocate. They return CUDA_SUCCESS, or
 *   CUTIN_NOT_LOADED            libcutin.so is not there, or switched off
 *   CUDA_ERROR_NOT_SUPPORTED    no sense for this process or stream: the comment says where
 *   CUDA_ERROR_NOT_PERMITTED    a level above the one that this process has
 *   CUDA_ERROR_INVALID_VALUE, _HANDLE, _CONTEXT    as the driver uses them
 */
#ifndef CUTIN_H
#define CUTIN_H

#include <cuda.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUTIN_NOT_LOADED CUDA_ERROR_NOT_FOUND

/* CUTIN_API(result, name, (parameters), (arguments), answer where cutin is not loaded) */
#define CUTIN_DEFAULT __attribute__((visibility("default")))
#ifdef CUTIN_LIBRARY
#define CUTIN_API(type, name, params, args, absent) CUTIN_DEFAULT type name params;
#else
#define CUTIN_API(type, name, params, args, absent)                                                \
    CUTIN_DEFAULT type name##_if_loaded params __asm__(#name) __attribute__((weak));               \
    static inline type name params __asm__(#name "_or_absent"); /* not the library's: no loop */   \
    static inline type name params                                                                 \
    {                                                                                              \
        return name##_if_loaded ? name##_if_loaded args : (absent);                                \
    }
#endif

/* The version of the loaded library, as "0.1.0"; NULL where it is not loaded. */
CUTIN_API(const char *, cutin_version, (void), (), NULL)

/* ---- streams ------------------------------------------------------------------------------- */

/*
 * Forget the calls on `stream` that have not been given to the driver yet: launches, copies,
 * memsets and host functions. Events recorded there count as recorded. Returns the number of
 * commands dropped; 0 for a stream that is never held.
 */
CUTIN_API(unsigned int, cutin_stream_reset, (CUstream stream), (stream), 0)
/* The same, under the name that the REEF paper gave it. */
CUTIN_API(unsigned int, cuResetHQ, (CUstream stream), (stream), 0)

/*
 * Stop giving commands of `stream` to the driver until it is released. Calls on it are buffered, or
 * wait where they cannot be. What the driver already has runs on. Holds do not nest, and end with
 * the stream. CUDA_ERROR_NOT_SUPPORTED for a stream that is never held (a real-time one).
 */
CUTIN_API(CUresult, cutin_stream_hold, (CUstream stream), (stream), CUTIN_NOT_LOADED)
CUTIN_API(CUresult, cutin_stream_release, (CUstream stream), (stream), CUTIN_NOT_LOADED)

#define CUTIN_HELD_BY_OTHERS  1u /* by work above, in this or another process, or a policy */
#define CUTIN_HELD_BY_PROGRAM 2u /* cutin_stream_hold */

struct cutin_stream_state {
    size_t size;            /* in: sizeof(struct cutin_stream_state) */
    unsigned int level;     /* its level */
    unsigned int queued;    /* 0: no queue: calls go straight to the driver; what follows is 0 */
    unsigned int held;      /* CUTIN_HELD_BY_*, 0: not held */
    unsigned int buffered;  /* commands that wait in its queue */
    unsigned int in_flight; /* given to the driver and not known complete */
    unsigned long long submitted, dropped; /* commands, so far */
};
/* What the queue of `stream` looks like now. */
CUTIN_API(CUresult, cutin_stream_state, (CUstream stream, struct cutin_stream_state *state),
          (stream, state), CUTIN_NOT_LOADED)

/* ---- levels --------------------------------------------------------------------------------- */

/*
 * Streams below the level of their process. This needs CUTIN_STREAM_PRIORITY=hint or =inherit:
 * without these hints all streams have the level of the process (hint), or the level that their
 * CUDA priority gives (inherit). Otherwise CUDA_ERROR_NOT_SUPPORTED.
 *
 * Streams that the calling thread creates from now on have this level, and so has its per-thread
 * default stream if it has not used that yet. CUTIN_LEVEL_OF_PROCESS ends this.
 */
#define CUTIN_LEVEL_OF_PROCESS (-1)
CUTIN_API(CUresult, cutin_thread_set_level, (int level), (level), CUTIN_NOT_LOADED)
/*
 * `stream` has this level from now on. The call waits until the stream's work is complete, and ends
 * a hold by the program. No other thread may use the stream meanwhile. CUDA_ERROR_NOT_SUPPORTED for
 * the default streams.
 */
CUTIN_API(CUresult, cutin_stream_set_level, (CUstream stream, unsigned int level), (stream, level),
          CUTIN_NOT_LOADED)

/* ---- hints ----------------------------------------------------------------------------------- */

/*
 * Real-time work is about to come: hold lower levels on the device of the current context now, so
 * that they have stopped when the inputs are prepared. The hold ends when that work is complete,
 * and after `us` microseconds at the latest; 0 cancels it. A hint replaces the previous one. The
 * first starts a thread of the library. CUDA_ERROR_NOT_SUPPORTED at level 0: no level is below.
 */
CUTIN_API(CUresult, cutin_hint_soon, (unsigned int us), (us), CUTIN_NOT_LOADED)

/*
 * Between begin and end the calling thread serves a request on the device of the current context.
 * Lower levels are held throughout, also while the processor works between two kernels. Sections of
 * a thread nest: the outermost counts. They end with their thread. A section holds as long as it
 * lasts, so do not wait inside one for what may take long. CUDA_ERROR_NOT_SUPPORTED at level 0;
 * CUDA_ERROR_INVALID_VALUE for an end without its begin.
 */
CUTIN_API(CUresult, cutin_section_begin, (void), (), CUTIN_NOT_LOADED)
CUTIN_API(CUresult, cutin_section_end, (void), (), CUTIN_NOT_LOADED)

/*
 * The current request has to be done `us` microseconds from now; if there is none, the next one has
 * to. A request is what a real-time process does between two moments in which it has no work on the
 * GPU. Later requests have the usual deadline again (CUTIN_DEADLINE_MS), or none. 0 cancels the
 * hint for the next request. The hint counts where the daemon's policy is edf, among processes of
 * one level.
 */
CUTIN_API(CUresult, cutin_hint_deadline, (unsigned int us), (us), CUTIN_NOT_LOADED)

#ifdef __cplusplus
}
#endif
#endif
