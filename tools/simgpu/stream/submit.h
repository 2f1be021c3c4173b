/*
 * submit.h - how work gets into a stream. All functions are thread safe.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_SUBMIT_H
#define CUTIN_TOOLS_SIMGPU_STREAM_SUBMIT_H

#include "tools/simgpu/face/sim.h"

/*
 * Submits in stream order of `stream` (any CUstream value; `ptds`: NULL means per-thread), in the
 * current context. A stream that captures records a node instead. Blocks while 1024 works are
 * queued. Returns what the driver returns: invalid handle, capture errors, the context's sticky
 * error. Takes over w's reference whatever the result: if it fails, it has called w->drop. The blob
 * is copied, so the caller keeps its own.
 *
 * With `sync` it waits until the work has completed (synchronous copies on the legacy stream), and
 * is refused while a capture forbids that. Returns the sticky error if one was raised.
 */
CUresult work_submit(CUstream stream, bool ptds, const struct work *w, bool sync);
/* Submits to this stream, behind the n points as well, without the capture and legacy rules of
 * work_submit (only to a stream that does not capture). `out` (may be NULL): the new work's point.
 * Takes w over like work_submit. */
CUresult work_submit_raw(struct sim_stream *s, const struct work *w, const struct point *after,
                         size_t n, struct point *out);
/* What work_submit_stream does in a stream that does not capture, behind the n points as well, for
 * a caller that holds the context's submit_lock exclusively (a graph launch). */
CUresult work_submit_locked(struct sim_stream *s, const struct work *w, const struct point *after,
                            size_t n, struct point *out);
/* What work_submit does, for a resolved stream; `out` is the new work's point. */
CUresult work_submit_stream(struct sim_stream *s, const struct work *w, struct point *out);
/* The same, behind that point as well; {0}: behind none. */
CUresult work_submit_behind(struct sim_stream *s, const struct work *w, struct point after,
                            struct point *out);

/* host.c: makes the work of a host function; CUDA_ERROR_INVALID_VALUE if it is NULL. */
CUresult host_prepare(CUhostFn fn, void *data, struct work *w);

#endif
