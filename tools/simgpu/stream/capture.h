/*
 * capture.h - what calls on streams and events ask of captures. The stream room declares here what
 * it needs. Captures make graphs, so the graph room has the code (graph/capture.c). These calls go
 * upwards, which no include shows.
 *
 * struct sim_stream has `struct capture *capture` (NULL: not capturing), struct sim_event has
 * `struct capture_mark *capture_mark` (NULL unless it was last recorded while capturing). All
 * functions are thread safe: one lock guards all captures, and the caller need hold none.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_CAPTURE_H
#define CUTIN_TOOLS_SIMGPU_STREAM_CAPTURE_H

#include "tools/simgpu/face/sim.h"

struct capture;
struct capture_mark;

/* Whether the stream takes part in a capture now. */
bool capture_active(const struct sim_stream *stream);
/* For work_submit when stream->capture is set: adds a node for w to the capture's graph (node_type,
 * args, blob, retain/drop as usual). Does not change w. */
CUresult capture_add(struct sim_stream *stream, const struct work *w);
/* Call it before work in the legacy stream or in one that synchronises with it. A capture in a
 * blocking stream of the context forbids such work: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and that
 * capture is invalid. */
CUresult capture_forbids_legacy(struct sim_context *ctx);
/* For calls that are unsafe during a capture (cuMemAlloc, event query, synchronous copies, ...). If
 * the mode forbids them: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the captures become invalid. */
CUresult capture_forbids_unsafe(void);
/* For synchronise, query and destroy of this stream. If it captures:
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is invalid. Else CUDA_SUCCESS. */
CUresult capture_forbids_stream(struct sim_stream *stream);
/* For cuCtxSynchronize and the like, which any capture in the context forbids. */
CUresult capture_forbids_context(struct sim_context *ctx);
/* The first is cuEventRecord in a capturing stream, which submits no work. The second forgets the
 * mark, at a normal record or when the event is destroyed. */
CUresult capture_event_record(struct sim_stream *stream, struct capture_mark **mark);
void capture_event_forget(struct capture_mark **mark);
/* cuEventQuery/Synchronize of an event recorded in a capture: CUDA_ERROR_CAPTURED_EVENT. */
CUresult capture_event_check(struct capture_mark *const *mark);
/* cuStreamWaitEvent. `captured`: all is done here, submit nothing. Joins the stream to the event's
 * capture, merges the dependencies, or refuses (CUDA_ERROR_STREAM_CAPTURE_ISOLATION, _MERGE). */
CUresult capture_event_wait(struct sim_stream *stream, struct capture_mark *const *mark,
                            bool *captured);
/* The stream is being destroyed. A capture that it began ends with it. */
void capture_stream_gone(struct sim_stream *stream);

#endif
