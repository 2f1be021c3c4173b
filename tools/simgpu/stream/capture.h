/*
 * capture.h - what calls on streams and events ask of captures. Streams say here what they need;
 * captures, which make graphs, are the graphs' (graph/capture.c): the one way up in the simulator
 * that no include shows.
 *
 * struct sim_stream has `struct capture *capture` (NULL: not capturing), struct sim_event has
 * `struct capture_mark *capture_mark` (NULL unless last recorded while capturing). All of it thread
 * safe: one lock guards all captures, and no lock need be held.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_CAPTURE_H
#define CUTIN_TOOLS_SIMGPU_STREAM_CAPTURE_H

#include "tools/simgpu/face/sim.h"

struct capture;
struct capture_mark;

/* Does the stream take part in a capture now? */
bool capture_active(const struct sim_stream *stream);
/* work_submit, when stream->capture is set: add a node of the capture's graph for w (node_type,
 * args, blob, hold/drop as usual; w itself is not changed). */
CUresult capture_add(struct sim_stream *stream, const struct work *w);
/* Before work in the legacy stream or one that synchronises with it, which a capture in a blocking
 * stream of the context forbids: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and invalidates that
 * capture. */
CUresult capture_forbids_legacy(struct sim_context *ctx);
/* Calls unsafe during a capture (cuMemAlloc, event query, synchronous copies, ...): the rule of the
 * thread's capture mode; CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and invalidates the captures. */
CUresult capture_forbids_unsafe(void);
/* Synchronise/query/destroy of this very stream while it captures:
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and invalidation; CUDA_SUCCESS when it does not capture. */
CUresult capture_forbids_stream(struct sim_stream *stream);
/* cuCtxSynchronize and the like: any capture in the context forbids it. */
CUresult capture_forbids_context(struct sim_context *ctx);
/* cuEventRecord in a capturing stream (no work is submitted), and forget the mark at a normal
 * record or when the event is destroyed. */
CUresult capture_event_record(struct sim_stream *stream, struct capture_mark **mark);
void capture_event_forget(struct capture_mark **mark);
/* cuEventQuery/Synchronize of an event recorded in a capture: CUDA_ERROR_CAPTURED_EVENT. */
CUresult capture_event_check(struct capture_mark *const *mark);
/* cuStreamWaitEvent. `captured` says: dealt with here, submit nothing. Joins the stream to the
 * event's capture, merges dependencies, or refuses (CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
 * _MERGE). */
CUresult capture_event_wait(struct sim_stream *stream, struct capture_mark *const *mark,
                            bool *captured);
/* The stream is being destroyed: that invalidates a capture which it began. */
void capture_stream_gone(struct sim_stream *stream);

#endif
