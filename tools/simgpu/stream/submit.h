/*
 * submit.h - the way of a work into a stream. All of it thread safe.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_SUBMIT_H
#define CUTIN_TOOLS_SIMGPU_STREAM_SUBMIT_H

#include "tools/simgpu/face/sim.h"

/*
 * Submit in stream order of `stream` (any CUstream value; `ptds`: NULL means per-thread), in the
 * current context. Capturing streams record a node instead. Blocks while 1024 works are queued.
 * Returns what the driver returns: invalid handle, capture errors, the context's sticky error.
 * Takes over w's reference whatever the result: where it fails, w->drop has been called. The blob
 * is copied; the caller's stays the caller's.
 *
 * With `sync` it waits until the work completed (synchronous copies on the legacy stream), and is
 * refused while a capture forbids it. Returns the sticky error if one was raised.
 */
CUresult work_submit(CUstream stream, bool ptds, const struct work *w, bool sync);
/* Submit to this very stream after the n points too, without the capture and legacy rules of
 * work_submit (an uncaptured stream only). `out` (may be NULL): the new work's point. Takes w over
 * like work_submit. */
CUresult work_submit_after(struct sim_stream *s, const struct work *w, const struct point *after,
                           size_t n, struct point *out);
/* What work_submit_stream does in an uncaptured stream, after the n points too, for a caller that
 * holds the context's submit_lock alone (a graph launch). */
CUresult work_submit_locked(struct sim_stream *s, const struct work *w, const struct point *after,
                            size_t n, struct point *out);
/* What work_submit does, for a resolved stream; tells the point. */
CUresult work_submit_stream(struct sim_stream *s, const struct work *w, struct point *out);
/* The same, after that point too; {0}: after none. */
CUresult work_submit_behind(struct sim_stream *s, const struct work *w, struct point after,
                            struct point *out);

/* host.c: the work of a host function; CUDA_ERROR_INVALID_VALUE without one. */
CUresult host_prepare(CUhostFn fn, void *data, struct work *w);

#endif
