/*
 * cutin.h - what a program may ask of cutin, if it wants to. No program needs this.
 *
 * The functions are weak: a program that includes this header links and runs without libcutin.so,
 * and finds their addresses to be NULL then:
 *
 *   if (cutin_stream_reset)
 *       dropped = cutin_stream_reset(stream);
 *
 * NULL names the legacy default stream. All of them may be called from any thread.
 */
#ifndef CUTIN_H
#define CUTIN_H

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUTIN_WEAK __attribute__((weak, visibility("default")))

/* The version of the loaded library, as "0.1.0". */
CUTIN_WEAK const char *cutin_version(void);

/*
 * Forget what was called on `stream` and has not been given to the driver yet: launches, copies,
 * memsets and host functions. Events recorded there count as recorded. Returns the number of
 * commands dropped; 0 for a stream that is never held. Does not wait.
 */
CUTIN_WEAK unsigned int cutin_stream_reset(CUstream stream);
/* The same, under the name that the REEF paper gave it. */
CUTIN_WEAK unsigned int cuResetHQ(CUstream stream);

/*
 * Stop feeding `stream` to the driver until it is released: calls on it are buffered, and a call
 * that cannot be buffered waits. What the driver has already got runs on. Holds do not nest, and end
 * with the stream.
 * CUDA_ERROR_NOT_SUPPORTED for a stream that is never held (a real-time one),
 * CUDA_ERROR_INVALID_HANDLE for none.
 */
CUTIN_WEAK CUresult cutin_stream_hold(CUstream stream);
CUTIN_WEAK CUresult cutin_stream_release(CUstream stream);

/*
 * The request under way is to be done `us` microseconds from now; if nothing is under way, the next
 * one. A request is what a real-time process does between two moments in which it has no work on the
 * GPU. Later requests have the usual deadline again (CUTIN_DEADLINE_MS), or none. 0 takes the hint
 * for the next request back. Does not wait and makes no system call. Counts where the daemon's policy
 * is edf, among processes of one level.
 */
CUTIN_WEAK void cutin_hint_deadline(unsigned int us);

#ifdef __cplusplus
}
#endif
#endif
