/*
 * event.c - events: record, wait, query, time. A record is a work without duration. An event means
 * its last record, whichever stream that was in.
 */
#include "tools/simgpu/stream/event.h"
#include "tools/simgpu/stream/engine.h"
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/face/variants.h"
#include "tools/simgpu/stream/capture.h"
#include "tools/simgpu/stream/points.h"
#include "tools/simgpu/stream/submit.h"

enum { EVENT_POOL = 1 << 20 };

static struct handle_pool pool = HANDLE_POOL(struct sim_event, EVENT_POOL);

struct sim_event *event_find(CUevent handle)
{
    return handle_find(&pool, handle);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct sim_event *event_make(struct sim_context *ctx, unsigned int flags)
{
    struct sim_event *e = handle_take(&pool);
    if (!e)
        return NULL;
    if (!e->made) {
        pthread_mutex_init(&e->lock, NULL);
        e->made = true;
    }
    e->context = ctx;
    e->flags = flags;
    e->users = 1;
    e->records = e->reached = e->reached_at_ns = 0;
    e->at = (struct point){0, 0};
    e->capture_mark = NULL;
    e->shared = NULL;
    e->imported = false;
    return e;
}

/* Gives up one user. The slot is used again when no record is on its way to the event any more. */
static void event_release(struct sim_event *e)
{
    pthread_mutex_lock(&e->lock);
    bool last = --e->users == 0;
    pthread_mutex_unlock(&e->lock);
    if (!last)
        return;
    event_unshare(e);
    handle_give(&pool, e);
}

SIM_EXPORT CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    enum { KNOWN = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS };
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    if (!out || flags & ~(unsigned int)KNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *e = event_make(ctx, flags);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (flags & CU_EVENT_INTERPROCESS && !event_share(e)) {
        event_release(e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    handle_publish(e);
    *out = (CUevent)(void *)e;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuEventDestroy_v2(CUevent handle)
{
    TRY(driver_ready());
    struct sim_event *e = event_find(handle);
    if (!e || !handle_retire(e))
        return CUDA_ERROR_INVALID_HANDLE;
    if (e->capture_mark)
        capture_event_forget(&e->capture_mark);
    event_release(e);
    return CUDA_SUCCESS;
}

/* ---- works ----------------------------------------------------------------------------------- */

static CUresult record_effect(struct work *w)
{
    struct sim_event *e = w->args.ptr[0];
    uint64_t record = w->args.u64[1];
    SCOPED_LOCK(&e->lock);
    if (record > e->reached) {
        e->reached = record;
        e->reached_at_ns = w->end_ns;
    }
    return CUDA_SUCCESS;
}

static void work_drop(struct work *w)
{
    event_release(w->args.ptr[0]);
}

static void work_retain(struct work *w)
{
    struct sim_event *e = w->args.ptr[0];
    SCOPED_LOCK(&e->lock);
    e->users++;
}

/* ptr[0] is also the event's handle, for graphs that have external records and waits. */
static void event_prepare(struct sim_event *e, CUgraphNodeType type, struct work *w)
{
    bool record = type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    *w = (struct work){
        .kind = WORK_MARK, .drop = work_drop, .retain = work_retain, .node_type = type};
    w->name = record ? "event_record" : "event_wait";
    w->effect = record ? record_effect : NULL;
    w->args.ptr[0] = e;
    work_retain(w);
}

/* ---- record ---------------------------------------------------------------------------------- */

/* Records as the next work of the stream; with `after`, behind those points too and without the
 * rules for calls. A record has a number, and is the event's meaning once it is submitted. */
static CUresult record_in(struct sim_event *e, struct sim_stream *s, const struct point *after,
                          size_t n, struct point *at)
{
    struct work w;
    event_prepare(e, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &w);
    pthread_mutex_lock(&e->lock);
    w.args.u64[1] = ++e->records;
    pthread_mutex_unlock(&e->lock);
    TRY(after ? work_submit_raw(s, &w, after, n, at) : work_submit_stream(s, &w, at));
    SCOPED_LOCK(&e->lock);
    if (w.args.u64[1] != e->records)
        return CUDA_SUCCESS;
    e->at = *at;
    if (e->shared)
        event_shared_store(e, *at);
    return CUDA_SUCCESS;
}

CUresult event_record_after(CUevent handle, struct sim_stream *s, const struct point *after,
                            size_t n, struct point *out)
{
    struct point at;
    struct sim_event *e = event_find(handle);
    return e ? record_in(e, s, after, n, out ? out : &at) : CUDA_ERROR_INVALID_HANDLE;
}

/* For a stream that captures: the record or wait becomes a node of its graph. */
static CUresult submit_external(struct sim_event *e, struct sim_stream *s, CUgraphNodeType type)
{
    struct work w;
    if (!capture_active(s))
        return CUDA_ERROR_ILLEGAL_STATE;
    event_prepare(e, type, &w);
    return work_submit_stream(s, &w, NULL);
}

static CUresult event_record(CUevent handle, CUstream stream, unsigned int flags, bool ptds)
{
    struct sim_context *ctx;
    struct sim_stream *s;
    struct point at;
    TRY(context_current_ok(&ctx));
    struct sim_event *e = event_find(handle);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~(unsigned int)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_arg(stream, ptds, &ctx, &s));
    if (context_base(e->context) != context_base(ctx))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & CU_EVENT_RECORD_EXTERNAL)
        return submit_external(e, s, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    if (capture_active(s)) /* the capture only remembers the record */
        return capture_event_record(s, &e->capture_mark);
    if (e->capture_mark)
        capture_event_forget(&e->capture_mark);
    CUresult rc = record_in(e, s, NULL, 0, &at);
    if (config_get()->event_ns)
        host_spend(sim_now_ns(), (uint64_t)config_get()->event_ns);
    return rc;
}

/* ---- wait ------------------------------------------------------------------------------------ */

/* The point of the last record, of whichever process; stream 0 if it was never recorded. */
static struct point event_point(struct sim_event *e)
{
    SCOPED_LOCK(&e->lock);
    return e->shared ? event_shared_point(e) : e->at;
}

static bool foreign_done(struct work *w)
{
    return point_done((struct point){(uint32_t)w->args.u64[0], w->args.u64[1]});
}

struct work event_wait_work(struct point at)
{
    bool elsewhere = point_foreign_pending(at);
    struct work w = {.kind = elsewhere ? WORK_WAIT : WORK_MARK,
                     .name = "event_wait",
                     .poll = elsewhere ? foreign_done : NULL,
                     .node_type = CU_GRAPH_NODE_TYPE_WAIT_EVENT};
    w.args.u64[0] = at.stream;
    w.args.u64[1] = at.seq;
    return w;
}

CUresult event_last_point(CUevent handle, struct point *out)
{
    struct sim_event *e = event_find(handle);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = event_point(e);
    return CUDA_SUCCESS;
}

static CUresult stream_wait_event(CUstream stream, CUevent handle, unsigned int flags, bool ptds)
{
    struct sim_stream *s;
    TRY(stream_arg(stream, ptds, NULL, &s));
    struct sim_event *e = event_find(handle);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~(unsigned int)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_WAIT_EXTERNAL)
        return submit_external(e, s, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    bool captured = false;
    CUresult rc = capture_event_wait(s, &e->capture_mark, &captured);
    if (rc != CUDA_SUCCESS || captured)
        return rc;
    struct point at = event_point(e);
    if (point_done(at) || at.stream == stream_tail(s).stream)
        return CUDA_SUCCESS;
    struct work w = event_wait_work(at);
    return work_submit_raw(s, &w, &at, 1, NULL);
}

/* ---- query and time -------------------------------------------------------------------------- */

/* Common to query and synchronise: finds the event, and asks whether a capture forbids this. */
static CUresult event_arg(CUevent handle, struct sim_event **out)
{
    TRY(driver_ready());
    struct sim_event *e = *out = event_find(handle);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    TRY(atomic_load(&e->context->error));
    return capture_event_check(&e->capture_mark);
}

SIM_EXPORT CUresult cuEventQuery(CUevent handle)
{
    struct sim_event *e;
    TRY(event_arg(handle, &e));
    TRY(capture_forbids_unsafe());
    return point_done_by_device(event_point(e)) ? atomic_load(&e->context->error)
                                                : CUDA_ERROR_NOT_READY;
}

SIM_EXPORT CUresult cuEventSynchronize(CUevent handle)
{
    struct sim_event *e;
    TRY(event_arg(handle, &e));
    TRY(capture_forbids_unsafe());
    return pools_trim(point_wait(e->context, event_point(e)));
}

/* CUDA_ERROR_INVALID_HANDLE if it has no time, CUDA_ERROR_NOT_READY before it is reached. */
static CUresult event_time(struct sim_event *e, uint64_t *ns)
{
    if (e->flags & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&e->lock);
    bool reached = e->reached == e->records, recorded = e->records > 0;
    *ns = e->reached_at_ns;
    pthread_mutex_unlock(&e->lock);
    if (!recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIM_EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    struct sim_event *a, *b;
    uint64_t start = 0, end = 0;
    TRY(event_arg(from, &a));
    TRY(event_arg(to, &b));
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    if (context_base(a->context) != context_base(b->context))
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult first = event_time(a, &start), second = event_time(b, &end);
    if (first == CUDA_ERROR_INVALID_HANDLE || second == CUDA_ERROR_INVALID_HANDLE)
        return CUDA_ERROR_INVALID_HANDLE;
    if (first != CUDA_SUCCESS || second != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((double)(int64_t)(end - start) / 1e6);
    return CUDA_SUCCESS;
}

/* ---- API ------------------------------------------------------------------------------------- */

SIM_ALIAS(cuEventDestroy, (CUevent event), cuEventDestroy_v2, event)

SIM_ALIAS(cuEventElapsedTime_v2, (float *ms, CUevent from, CUevent to), cuEventElapsedTime, ms,
          from, to)

STREAM_API(cuEventRecord, (CUevent e, CUstream s), event_record(e, s, 0, ptds))
STREAM_API(cuEventRecordWithFlags, (CUevent e, CUstream s, unsigned int flags),
           event_record(e, s, flags, ptds))
STREAM_API(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned int flags),
           stream_wait_event(s, e, flags, ptds))
