/*
 * sim.h - the simulated driver's own nouns, shared by its files.
 *
 * Layers, top down:
 *   api_*.c    the CUDA Driver API: checks arguments as the driver does, turns every stream-ordered
 *              call into one `struct work`, and hands it to work_submit()
 *   stream.c   streams, legacy/per-thread order, capture fork: work_submit() either captures the
 *              work as a graph node or queues it
 *   engine.c   one thread per process: runs effects at their modelled completion, in order
 *   device.c   the shared device: SMs, time slices, streams' queues, modelled time (shared memory,
 *              robust locks; knows no CUDA and no pointers)
 */
#ifndef SIMGPU_SIM_H
#define SIMGPU_SIM_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SIM_EXPORT __attribute__((visibility("default")))

enum work_kind {
    WORK_KERNEL, /* occupies SMs for cost_ns */
    WORK_COPY,   /* occupies one of the copy engines for cost_ns; memsets too */
    WORK_MARK,   /* takes no device time: event record, memory write, free */
    WORK_WAIT,   /* blocks its stream until poll() is true; its context may yield the device */
    WORK_HOST,   /* blocks its stream until effect() ran in the callback thread */
    WORK_GRAPH,  /* blocks its stream until poll() is true: what runs meanwhile is in other ones */
};

/* A point in a stream: complete once the stream's `seq`-th work is. stream 0 = nothing. */
struct point {
    uint32_t stream;
    uint64_t seq;
};

struct sim_graph_node;

/*
 * One stream-ordered piece of work, by value. work_submit copies it, `blob` included, so it can be
 * built on the caller's stack and kept in graph nodes.
 */
struct work {
    enum work_kind kind;
    const char *
        name; /* kernel entry name or API noun, for the device event log; NULL: none; never freed */
    uint64_t cost_ns;         /* modelled solo duration, before SIMGPU_SPEED */
    uint32_t blocks, threads; /* per grid and per block: SM occupancy */
    uint32_t smem;            /* bytes per block */
    /* Runs at the modelled completion (WORK_HOST: in the callback thread), in the order of modelled
     * completion. May be NULL. Returns CUDA_SUCCESS or the asynchronous (sticky) error it raises. */
    CUresult (*effect)(struct work *w);
    bool (*poll)(struct work *w); /* WORK_WAIT only */
    void (*drop)(
        struct work *w); /* gives back what args refer to; called exactly once; may be NULL */
    void (*hold)(struct work *w); /* takes what drop gives back once more, for a copy of w (a graph
                                   * node is launched many times); NULL when args refer to nothing */
    bool even_on_error; /* run effect although the context has failed (cuStreamAddCallback) */
    uint64_t submit_ns, start_ns, end_ns; /* modelled, CLOCK_MONOTONIC; filled by the engine */
    CUcontext context;
    CUstream stream;
    /* arguments of effect/poll/drop: small ones here, long ones in blob */
    union {
        uint64_t u64[12];
        void *ptr[12];
    } args;
    void *blob; /* copied on submit and freed after drop; kernel parameters, batch arrays */
    size_t blob_bytes;
    /* What captures need to make a real graph node of it (kernel node params, ...): the node type, and
     * for kernels blob holds the packed parameters in the function's layout. */
    CUgraphNodeType node_type;
    void *func; /* kernel: struct sim_function * */
};

/*
 * Submit in stream order of `stream` (any CUstream value; `ptds`: NULL means per-thread), in the
 * current context. Capturing streams record a node instead. Blocks while 1024 works are queued.
 * Returns what the driver returns: invalid handle, capture errors, the context's sticky error.
 * Takes over w's reference whatever the result: where it fails, w->drop has been called. The blob is
 * copied; the caller's stays the caller's.
 */
CUresult work_submit(CUstream stream, bool ptds, const struct work *w);
/* The same, then waits until it completed (synchronous copies on the legacy stream). Refused while a
 * capture forbids it. Returns the sticky error if one was raised. */
CUresult work_submit_sync(CUstream stream, bool ptds, const struct work *w);

/* ---- the lower half: streams, engine, functions (stream.c, engine.c, module.c, launch.c) ------- */

struct sim_context; /* context.h */
struct sim_stream;  /* stream.h */
struct sim_event;   /* event.h */

/* CUstream -> stream of ctx: NULL and CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, or a live handle.
 * CUDA_ERROR_INVALID_HANDLE for anything else, CUDA_ERROR_INVALID_CONTEXT for another context's.
 * Stream memory is never unmapped, so a stream destroyed meanwhile is harmless. */
CUresult stream_resolve(struct sim_context *ctx, CUstream handle, bool ptds,
                        struct sim_stream **out);
/* The stream that a call names and the context it works in: a created stream's own, which need not be
 * the current one. The errors of both. */
CUresult stream_enter(CUstream handle, bool ptds, struct sim_context **ctx,
                      struct sim_stream **out);
struct sim_context *stream_context(const struct sim_stream *s);
CUstream stream_handle(const struct sim_stream *s);
int stream_priority(const struct sim_stream *s);
bool stream_is_legacy(const struct sim_stream *s);
/* Does it take part in legacy order (the legacy stream itself included)? */
bool stream_is_blocking(const struct sim_stream *s);
/* The last work submitted so far. */
struct point stream_tail(const struct sim_stream *s);
/* Submit to this very stream after the n points too, without the capture and legacy rules of
 * work_submit (an uncaptured stream only). `out` (may be NULL): the new work's point. Takes w over
 * like work_submit. */
CUresult work_submit_after(struct sim_stream *s, const struct work *w, const struct point *after,
                           size_t n, struct point *out);
/* What work_submit_stream does in an uncaptured stream, after the n points too, for a caller that holds
 * the context's submit_lock alone (a graph launch). */
CUresult work_submit_locked(struct sim_stream *s, const struct work *w, const struct point *after,
                            size_t n, struct point *out);
/* What work_submit does, for a resolved stream; tells the point. */
CUresult work_submit_stream(struct sim_stream *s, const struct work *w, struct point *out);
/* Internal non-blocking streams of ctx, invisible to the application: branches of a graph launch. They
 * count for context_wait_idle. A released one goes away once its work is done. */
CUresult stream_branch_create(struct sim_context *ctx, int priority, struct sim_stream **out);
void stream_branch_release(struct sim_stream *s);
/* Call `fn` for each stream of the context that the application can name (legacy, per-thread and
 * created ones), holding the context's stream list lock: fn must not submit. */
void stream_each(struct sim_context *ctx, void (*fn)(struct sim_stream *s, void *arg), void *arg);

/* Has the work and its effect completed? Points of destroyed streams are complete. */
bool point_done(struct point p);
/* Is it another process's, and not complete? Of its sequence number the low 32 bits count. */
bool point_elsewhere(struct point p);
/* Wait for it. CUDA_SUCCESS, or the sticky error of ctx (which may be NULL). */
CUresult point_wait(struct sim_context *ctx, struct point p);

/* The thread that runs host functions: CUDA calls answer CUDA_ERROR_NOT_PERMITTED there. */
bool callback_thread(void);

/* CLOCK_MONOTONIC, the clock of the model. */
uint64_t sim_now_ns(void);

/* A kernel parameter's place in the packed buffer. */
struct sim_param {
    size_t offset, size;
};
struct sim_function; /* module.h */
/* CUfunction or CUkernel -> function; NULL unless live. */
struct sim_function *function_find(CUfunction handle);
CUfunction function_handle(const struct sim_function *f);
const char *function_name(const struct sim_function *f);
size_t function_param_count(const struct sim_function *f);
const struct sim_param *function_param(const struct sim_function *f, size_t index);
size_t function_packed_bytes(const struct sim_function *f);
enum { LAUNCH_PACKED_MAX = 32764 }; /* bytes of parameters, from CUDA 12.1 on */
/*
 * Check a launch as cuLaunchKernelEx does and build its work: blob = `packed` (room for
 * LAUNCH_PACKED_MAX), func, node_type, name, occupancy and modelled cost. config->hStream is not
 * looked at. For kernel nodes of graphs too.
 */
CUresult launch_prepare(struct sim_context *ctx, const CUlaunchConfig *config, CUfunction f,
                        void **params, void **extra, void *packed, struct work *w);

/*
 * For graphs. What works carry in args, by node type, beside what their effect needs:
 *   kernel        u64[0..2] grid, u64[3..5] block, u64[6] dynamic shared memory
 *   host          ptr[0] CUhostFn, ptr[1] its argument
 *   event record, event wait (external ones in a capture): ptr[0] CUevent
 *   batch memop   one operation per work; blob is its CUstreamBatchMemOpParams
 */
/* The work of one memory operation, checked as cuStreamBatchMemOp does; blob points to `op`. */
CUresult memop_prepare(struct sim_context *ctx, const CUstreamBatchMemOpParams *op, struct work *w);
/* The work of a host function. */
CUresult host_prepare(CUhostFn fn, void *data, struct work *w);
/* Record the event as the next work of s, after the points too; CUDA_ERROR_INVALID_HANDLE. */
CUresult event_record_after(CUevent event, struct sim_stream *s, const struct point *after,
                            size_t n, struct point *out);
/* What a wait for the event waits for now ({0, 0}: nothing); CUDA_ERROR_INVALID_HANDLE. */
CUresult event_last_point(CUevent event, struct point *out);

/* ---- the upper half: contexts, memory, capture (context.c, memory.c, capture.c) ---------------- */

/* The calling thread's current context: CUDA_ERROR_NOT_INITIALIZED before cuInit and in a forked
 * child, CUDA_ERROR_INVALID_CONTEXT with none, CUDA_ERROR_CONTEXT_IS_DESTROYED with a dead one. */
CUresult context_current(struct sim_context **ctx);
/* The same, and the context's sticky error where it has one: what nearly every API call begins with. */
CUresult context_enter(struct sim_context **ctx);
/* CUDA_ERROR_NOT_INITIALIZED before cuInit and in a forked child: for calls that need no context. */
CUresult driver_ready(void);
/* Raise an asynchronous error: the first one stays, and every later call in the context returns it. */
void context_fail(struct sim_context *ctx, CUresult error);
/* A context handle -> the context; NULL for anything that is not a live context. NULL handle: NULL. */
struct sim_context *context_find(CUcontext handle);
#define context_handle(ctx) ((CUcontext)(void *)(ctx))

/* cuCtxSynchronize, without the capture check. */
CUresult context_wait_idle(struct sim_context *ctx);

/* Is [ptr, ptr + bytes) inside memory the device may touch: device, managed or pinned host memory? */
bool memory_contains(CUdeviceptr ptr, size_t bytes);
/* Memory of the device for the driver's own ends (module globals); NULL when it is full. */
CUdeviceptr memory_take(struct sim_context *ctx, size_t bytes);
void memory_give(CUdeviceptr ptr);

/*
 * Capture. struct sim_stream has `struct capture *capture` (NULL = not capturing; the stream's lock
 * need not be held: capture.c has one lock of its own for all captures), struct sim_event has
 * `struct capture_mark *capture_mark` (NULL unless last recorded while capturing).
 */
struct capture;
struct capture_mark;
/* Does the stream take part in a capture now? */
bool capture_active(const struct sim_stream *stream);
/* work_submit, when stream->capture is set: add a node of the capture's graph for w (node_type, args,
 * blob, hold/drop as usual; w itself is not changed). */
CUresult capture_add(struct sim_stream *stream, const struct work *w);
/* Before work in the legacy stream or one that synchronises with it, which a capture in a blocking
 * stream of the context forbids: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and invalidates that capture. */
CUresult capture_forbids_legacy(struct sim_context *ctx);
/* Calls unsafe during a capture (cuMemAlloc, event query, synchronous copies, ...): the rule of the
 * thread's capture mode; CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and invalidates the captures. */
CUresult capture_forbids_unsafe(void);
/* Synchronise/query/destroy of this very stream while it captures: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
 * and invalidation; CUDA_SUCCESS when it does not capture. */
CUresult capture_forbids_stream(struct sim_stream *stream);
/* cuCtxSynchronize and the like: any capture in the context forbids it. */
CUresult capture_forbids_context(struct sim_context *ctx);
/* cuEventRecord in a capturing stream (no work is submitted), and forget the mark at a normal record
 * or when the event is destroyed. */
CUresult capture_event_record(struct sim_stream *stream, struct capture_mark **mark);
void capture_event_forget(struct capture_mark **mark);
/* cuEventQuery/Synchronize of an event recorded in a capture: CUDA_ERROR_CAPTURED_EVENT. */
CUresult capture_event_check(struct capture_mark *const *mark);
/* cuStreamWaitEvent. `captured` says: dealt with here, submit nothing. Joins the stream to the event's
 * capture, merges dependencies, or refuses (CUDA_ERROR_STREAM_CAPTURE_ISOLATION, _MERGE). */
CUresult capture_event_wait(struct sim_stream *stream, struct capture_mark *const *mark,
                            bool *captured);
/* The stream is being destroyed: a capture that it takes part in is invalidated. */
void capture_stream_gone(struct sim_stream *stream);

#endif
